import shutil
import threading
from datetime import UTC, datetime
from typing import Any

import pytest

from bench.explain.ablate import folder as ablation_folder
from bench.report import folder_files as files
from bench.report.apart import Apart
from bench.serve.checker import Checker, digest_of
from bench.serve.entry import Entry
from bench.serve.status import Status, verify_ablation
from tests.serve.served import APART, Served, add_ablation

NOON = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)


@pytest.fixture
def checker(own: Served) -> Checker:
    return Checker(own.trusted, APART, now=lambda: NOON)


def checked(checker: Checker, entry: Entry) -> Status:
    checker.check(entry)
    return checker.status(entry)


def test_nothing_is_verified_before_this_server_did_it(own: Served, checker: Checker) -> None:
    fast = own.entry("fast")
    assert checker.status(fast) == Status("waiting")
    found = checked(checker, fast)
    assert (found.state, found.says) == ("verified", "verified by this server at 2026-11-30 12:00:00 UTC")
    assert found.by.startswith("key ")
    assert found.by.endswith("(your own key)")


def test_a_stranger_is_refused_and_so_is_what_cannot_be_read(own: Served, checker: Checker) -> None:
    stranger = checked(checker, own.entry("deep/er/stranger"))
    assert stranger.state == "refused"
    assert "sign" in " ".join(stranger.why)
    for name in ("no-json", "link", "pipe"):
        found = checked(checker, own.entry(f"broken/{name}"))
        assert found.state == "refused"
        assert found.reason


def test_a_changed_byte_is_refused_whatever_the_file_says_of_itself(own: Served, checker: Checker) -> None:
    fast = own.entry("fast")
    assert checked(checker, fast).state == "verified"
    page = own.folder / "fast" / files.PAGE
    page.write_bytes(page.read_bytes() + b"<p>verified by this server")
    changed = own.entry("fast")
    assert checker.status(changed).state == "waiting"
    found = checked(checker, changed)
    assert (found.state, found.why[0]) == (
        "refused",
        "report.html was changed after it was signed: its SHA-256 is another one",
    )


def test_the_same_bytes_are_verified_once_wherever_they_lie(
    own: Served, checker: Checker, monkeypatch: pytest.MonkeyPatch
) -> None:
    fast = own.entry("fast")
    assert checked(checker, fast).state == "verified"
    shutil.copytree(own.folder / "fast", own.folder / "again")
    assert digest_of(own.folder / "again") == digest_of(own.folder / "fast")
    monkeypatch.setattr(Apart, "run", None)  # it would fail, and be a refusal
    assert checked(checker, own.entry("again")).state == "verified"
    assert checked(checker, own.entry("slow")).why == ("TypeError while it was verified",)


def test_what_changes_meanwhile_is_not_told_of_what_it_was(own: Served) -> None:
    fast = own.entry("fast")

    class Slow(Apart):
        def run(self, *asked: Any) -> Any:  # type: ignore[override]  # hands on what it gets
            found = super().run(*asked)
            (own.folder / "fast" / "engine-7.log").write_text("more")
            return found

    checker = Checker(own.trusted, Slow())
    checker.check(fast)
    assert checker.status(fast).state == "waiting"
    assert checker.status(own.entry("fast")).state == "waiting"


def test_it_works_in_a_thread_of_its_own_and_asks_for_each_once(own: Served) -> None:
    done = threading.Event()
    checker = Checker(own.trusted, APART)
    real, seen = checker.check, []

    def told(entry: Entry) -> None:
        real(entry)
        seen.append(entry.place)
        if entry.place == "slow":
            done.set()

    checker.check = told  # type: ignore[method-assign]  # to hear of it
    checker.start()
    fast, slow = own.entry("fast"), own.entry("slow")
    checker.ask([fast])
    checker.ask([fast, slow])
    assert done.wait(60)
    assert checker._thread.daemon
    assert seen == ["fast", "slow"]
    assert {checker.status(entry).state for entry in (fast, slow)} == {"verified"}


def test_an_ablation_is_checked_as_a_whole(own: Served, checker: Checker, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = own.folder / "taken-apart"
    add_ablation(folder, own.folder / "fast")
    assert checked(checker, own.entry("taken-apart")).why == ("plan.json is missing",)
    for name in ("plan.json", "ablation.md", files.ATTESTATION, files.SIGNER):
        (folder / name).write_text("{}")
    assert "is no plan of this version" in checked(checker, own.entry("taken-apart")).why[0]
    monkeypatch.setattr(ablation_folder, "check", lambda _folder, _trusted: None)
    assert verify_ablation(folder, own.trusted).state == "verified"
    (folder / "ablation.md").unlink()
    (folder / "ablation.md").symlink_to("/dev/zero")
    assert verify_ablation(folder, own.trusted).why[0].startswith("ablation.md cannot be opened")


def test_a_long_reason_is_cut_in_a_list() -> None:
    assert Status("refused", why=("x" * 1000,)).reason == "x" * 140 + "..."
    assert Status("verified", why=("a note",)).reason == ""
