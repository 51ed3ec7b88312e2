import shutil
from typing import Any

import pytest

from bench.report import folder_files as files
from bench.report.apart import Apart
from bench.serve import catalogue
from bench.serve.catalogue import Catalogue
from tests.serve.served import ENOUGH_S, EVIL, Served, add_ablation


def places(served: Served) -> list[str]:
    return [each.place for each in served.catalogue.entries()]


def test_every_report_is_found_once_and_no_link_is_followed(served: Served) -> None:
    found = places(served)
    assert sorted(found) == sorted(
        ["fast", "slow", "deep/er/stranger"]
        + [f"broken/{name}" for name in ("no-json", "not-a-number", "future", "empty", EVIL, "link", "pipe")]
    )
    assert set(found[:3]) == {"fast", "slow", "deep/er/stranger"}  # what says a time comes first


def test_what_cannot_be_read_says_why(served: Served) -> None:
    says = {
        each.place.removeprefix("broken/"): each.says.says
        for each in served.catalogue.entries()
        if each.validity == "cannot be read"
    }
    assert says == {
        "no-json": "Cannot be read: report.json: it is not JSON (Expecting value: line 1 column 2 (char 1)).",
        "not-a-number": says["not-a-number"],
        "future": "Cannot be read: report.json has the schema '9.0'; this version reads '1.0'.",
        "empty": "Cannot be read: report.json: title is not right.",
        EVIL: "Cannot be read: report.json has the schema '<img src=x onerror=a'; this version reads '1.0'.",
        "link": "Cannot be read: report.json cannot be opened: Too many levels of symbolic links.",
        "pipe": "Cannot be read: report.json is no plain file.",
    }
    assert "NaN" in says["not-a-number"]


def test_what_did_not_change_is_not_read_again_and_what_did_is(own: Served) -> None:
    read: list[str] = []

    class Counting(Apart):
        def run(self, *asked: Any) -> Any:  # type: ignore[override]  # hands on what it gets
            read.append(asked[-1].place)
            return super().run(*asked)

    served = Catalogue(own.folder, Counting(), patience_s=ENOUGH_S)
    count = len(served.entries())
    assert len(read) == count
    served.entries()
    assert len(read) == count
    page = own.folder / "fast" / files.PAGE
    page.write_bytes(page.read_bytes() + b" ")
    shutil.rmtree(own.folder / "slow")
    assert "slow" not in {each.place for each in served.entries()}
    assert read[count:] == ["fast"]


def test_runs_of_an_ablation_are_told_apart_and_a_change_in_one_is_one_of_the_ablation(own: Served) -> None:
    add_ablation(own.folder / "taken-apart", own.folder / "fast")
    kinds = {each.place: each.kind for each in own.catalogue.entries()}
    run = "taken-apart/runs/001-block0-base/cpu/20261130T110000Z-abc"
    assert (kinds["taken-apart"], kinds[run], kinds["fast"]) == ("ablation", "ablation run", "report")
    before = own.entry("taken-apart")
    assert before.says.says == "No effects yet: no block is complete."
    assert (before.validity, before.target, before.not_real) == ("partial", "h200-fp8", ("dummy weights",))
    (own.folder / run / files.REPORT).touch()
    assert own.entry("taken-apart").stamp != before.stamp


def test_a_walk_has_an_end(own: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalogue, "DEPTH_LIMIT", 1)
    assert "deep/er/stranger" not in places(own)
    monkeypatch.setattr(catalogue, "DEPTH_LIMIT", 12)
    monkeypatch.setattr(catalogue, "FOLDER_LIMIT", 3)
    assert len(places(own)) < 3


def test_a_name_that_is_no_text_is_shown_escaped(own: Served) -> None:
    odd = own.folder / "odd\udcff\n\x1b[31m"
    odd.mkdir()
    (odd / files.REPORT).write_text("[")
    (found,) = [each for each in own.catalogue.entries() if each.place.startswith("odd")]
    assert found.place == "odd\\udcff\\n\\x1b[31m"
    assert found.path.is_dir()
