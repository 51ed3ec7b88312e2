"""Reports in the folder that take more than they may: shown as such, while everything else goes on."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

import pytest

from bench.report.apart import Apart, Bounds
from bench.serve.catalogue import Catalogue
from bench.serve.checker import Checker
from bench.serve.entry import READING
from bench.serve.site import COMPARING, Site
from bench.serve.status import VERIFYING
from tests.report.greedy import empty_points
from tests.serve.served import APART, ENOUGH_S, Served

A_SECOND = 1
"""Of CPU time, where it is ten or six hundred."""


def test_what_takes_too_much_memory_to_be_read_is_listed_with_all_others(own: Served) -> None:
    empty_points(own.folder / "greedy", 200_000)
    catalogue = Catalogue(own.folder, APART, bounds=replace(READING, memory_bytes=256 << 20), patience_s=ENOUGH_S)
    found = {entry.place: entry for entry in catalogue.entries()}
    greedy, fast = found["greedy"], found["fast"]
    assert (greedy.validity, greedy.comparable) == ("cannot be read", False)
    assert greedy.says.says.startswith("Cannot be read: ")
    assert greedy.says.says.endswith("more than 256 MiB of memory.")
    assert (fast.validity, fast.comparable) == ("valid", True)


def test_what_takes_too_long_to_be_read_is_listed_with_all_others(own: Served) -> None:
    empty_points(own.folder / "slow-to-read", 200_000)
    catalogue = Catalogue(own.folder, APART, bounds=Bounds(8 << 30, A_SECOND), patience_s=ENOUGH_S)
    found = {entry.place: entry for entry in catalogue.entries()}
    assert found["slow-to-read"].says.says == "Cannot be read: it takes more than 1 s of CPU time."
    assert found["fast"].validity == "valid"


def test_what_takes_too_long_to_verify_is_refused_and_the_next_is_verified(own: Served) -> None:
    slow = own.add_slow().path.relative_to(own.folder).as_posix()
    checker = Checker(own.trusted, APART, bounds=replace(VERIFYING, cpu_s=A_SECOND))
    entries = [own.entry(slow), own.entry("fast")]
    for entry in entries:
        checker.check(entry)
    refused, verified = map(checker.status, entries)
    assert (refused.state, refused.reason) == ("refused", "it takes more than 1 s of CPU time")
    assert verified.state == "verified"


def test_what_takes_too_much_memory_to_verify_is_refused(own: Served) -> None:
    checker = Checker(own.trusted, APART, bounds=replace(VERIFYING, memory_bytes=8 << 20))
    fast = own.entry("fast")
    checker.check(fast)
    assert checker.status(fast).state == "refused"
    assert checker.status(fast).reason == "it takes more than 8 MiB of memory"


def test_what_takes_too_long_to_compare_is_not_compared(own: Served) -> None:
    own.add_slow()
    catalogue, checker = own.catalogue, Checker(own.trusted, APART)
    site = Site("reports", catalogue, checker, APART, bounds=replace(COMPARING, cpu_s=A_SECOND))
    chosen = [entry.id for entry in catalogue.entries() if entry.place == "fast" or entry.place.startswith("hostile/")]
    page = site.answer("/compare?" + "&".join(f"report={name}" for name in chosen)).body.decode()
    assert "Not compared." in page
    assert "It takes more than 1 s of CPU time." in page


def test_pages_come_while_reports_are_read_and_say_which_are_not_yet(own: Served) -> None:
    """Whatever reads them takes as long as it wants: the list waits for `patience_s` and no longer."""
    go_on = threading.Event()

    class Held(Apart):
        def run(self, *asked: Any) -> Any:  # type: ignore[override]  # hands on what it gets
            assert go_on.wait(ENOUGH_S)
            return super().run(*asked)

    held = Held()
    catalogue, checker = Catalogue(own.folder, held, patience_s=0), Checker(own.trusted, held)
    site = Site("reports", catalogue, checker, held)
    page = site.answer("/").body.decode()
    amount = page.count('<span class="badge">not read yet</span>')
    assert amount == 10
    assert f"{amount} not read yet: this server is at it; reload the page." in page
    assert "not verified yet: this server is at it" not in page
    assert '<input type="checkbox"' not in page
    assert checker._queue.empty()  # what it is, a report or an ablation, nobody knows
    fast = own.entry("fast")
    assert "Not read yet by this server." in site.answer(f"/report/{fast.id}").body.decode()
    assert "cannot: fast, slow" in site.answer(f"/compare?report={fast.id}&report={own.entry('slow').id}").body.decode()
    reader = catalogue._reader
    assert reader is not None
    go_on.set()
    reader.join()
    assert {entry.validity for entry in catalogue.entries()} == {"valid", "partial", "cannot be read"}
    assert catalogue._reader is None


def test_a_reader_that_fails_says_so_and_goes_on(own: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Apart, "run", None)
    says = {entry.says.says for entry in own.catalogue.entries()}
    assert says == {"Cannot be read: TypeError while it was read."}
