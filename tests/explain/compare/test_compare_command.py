"""`just compare` as its users run it: screens, pages, scripts, and wrong input."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import bench.stats.blocks as blocks_module
from bench.cli import app
from bench.errors import StreamproofError, UsageError
from bench.explain.compare.comparison import compare
from bench.explain.compare.page import render_page
from bench.explain.compare.side import read_side
from bench.report import folder_files as files
from tests.explain.compare.sides import recipe_of, report, side
from tests.report.factories import make_claim
from tests.report.folders import Signed


@pytest.fixture(autouse=True)
def _few_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks_module, "REPLICATES", 200)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Signed, Signed]:
    base = tmp_path_factory.mktemp("pair")
    other = recipe_of(engine={"flags": {"max_num_seqs": 8}}, title="Slower <b>and</b> | worse")
    return report(base / "a", seed=31), report(base / "b", seed=32, factor=1.5, recipe=other)


def invoke(*arguments: str | Path) -> Any:
    return CliRunner().invoke(app, ["compare", *map(str, arguments)], env={"COLUMNS": "160"})


def keys(*reports: Signed) -> tuple[str, ...]:
    return tuple(word for each in reports for word in ("--key", str(each.path / files.SIGNER)))


def test_a_regression_is_shown_written_and_ends_with_3(pair: tuple[Signed, Signed], tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    gate = ("--gate", "e2e:p50:+5%")
    shown = invoke(*(each.path for each in pair), *gate, "--html", page, *keys(*pair))
    assert shown.exit_code == 3, shown.output
    for words in ("Regression", "engine.flags.max_num_seqs", "20 streams", "p95 of E2E", "95 % interval"):
        assert words in shown.output
    html = page.read_text()
    assert "<svg" in html
    assert "<script" not in html
    assert "<b>and</b>" not in html
    data = json.loads(invoke(*(each.path for each in pair), *gate, "--json", *keys(*pair)).output)
    assert {gated["verdict"] for gated in data["pairs"][0]["gates"]} == {"regression"}
    markdown = invoke(*(each.path for each in pair), "--markdown", *keys(*pair))
    assert markdown.exit_code == 0
    assert "| 20 streams | p95 of E2E |" in markdown.output
    assert r"Slower \<b\>and\</b\> \| worse" in markdown.output


def test_several_reports_are_each_compared_with_the_first(pair: tuple[Signed, Signed], tmp_path: Path) -> None:
    third = report(tmp_path, seed=33)
    comparison = compare([side(each) for each in (*pair, third)])
    assert [each.other.folder for each in comparison.pairs] == [str(pair[1].path), str(third.path)]
    assert render_page(comparison) == render_page(comparison)
    assert "Report 3 against the base" in render_page(comparison)


def test_an_edited_report_is_refused_unless_it_is_asked_for_and_then_named(
    pair: tuple[Signed, Signed], tmp_path: Path
) -> None:
    edited = pair[1].copy(tmp_path / "edited")
    path = edited.path / files.REPORT
    path.write_bytes(path.read_bytes().replace(b'"requests": 450', b'"requests": 451'))
    refused = invoke(pair[0].path, edited.path, *keys(*pair))
    assert isinstance(refused.exception, StreamproofError)
    assert "was changed after it was signed" in refused.exception.message
    assert "--unverified" in refused.exception.remedy
    shown = invoke(pair[0].path, edited.path, "--unverified", *keys(*pair))
    assert shown.exit_code == 0, shown.output
    assert "is not verified" in shown.output
    # The figures are those of the records, whatever the edited file says.
    assert read_side(edited.path, {}, unverified=True).report == pair[1].report


def test_the_page_of_a_single_report_names_the_command(pair: tuple[Signed, Signed], tmp_path: Path) -> None:
    claim = make_claim(against="old", against_value_s=2.0)
    alone = report(tmp_path, runs=1, recipe=recipe_of(runs=1, claims=[claim]))
    assert alone.report.claims[0].verdict == "not comparable"
    assert "just compare BASE OTHER" in (alone.path / files.PAGE).read_text()
    assert "just compare BASE OTHER" not in (pair[0].path / files.PAGE).read_text()


def test_pages_that_another_commit_drew_decide_no_figure(pair: tuple[Signed, Signed], tmp_path: Path) -> None:
    redrawn = pair[1].copy(tmp_path / "redrawn")
    page = redrawn.path / files.PAGE
    page.write_bytes(page.read_bytes() + b"<!-- drawn otherwise -->")
    redrawn.sign_again()
    shown = invoke(pair[0].path, redrawn.path, *keys(*pair))
    assert shown.exit_code == 0, shown.output
    assert "are verified, its pages are not" in shown.output


def test_what_is_not_verified_may_hold_anything(pair: tuple[Signed, Signed], tmp_path: Path) -> None:
    hostile = pair[1].copy(tmp_path / "hostile")
    (hostile.path / files.RECORDS).write_bytes(b"PAR1 nothing")
    with pytest.raises(StreamproofError):
        read_side(hostile.path, {}, unverified=True)
    (hostile.path / files.RECORDS).unlink()
    with pytest.raises(StreamproofError):
        read_side(hostile.path, {}, unverified=True)


def test_an_unsigned_report_is_refused(pair: tuple[Signed, Signed], tmp_path: Path) -> None:
    unsigned = pair[1].copy(tmp_path / "unsigned")
    (unsigned.path / files.ATTESTATION).unlink()
    refused = invoke(pair[0].path, unsigned.path, *keys(*pair))
    assert isinstance(refused.exception, StreamproofError)
    assert "not verified" in refused.exception.message


def test_a_report_of_a_newer_schema_is_refused_by_name(pair: tuple[Signed, Signed], tmp_path: Path) -> None:
    newer = pair[1].copy(tmp_path / "newer")
    path = newer.path / files.REPORT
    path.write_bytes(path.read_bytes().replace(b'"schema_version": "1.0"', b'"schema_version": "7.0"'))
    newer.sign_again()
    refused = invoke(pair[0].path, newer.path, *keys(*pair))
    assert isinstance(refused.exception, StreamproofError)
    assert "7.0" in refused.exception.message
    assert "the version of streamproof that made it" in refused.exception.remedy


@pytest.mark.parametrize("count", [0, 1])
def test_too_few_reports_are_said(pair: tuple[Signed, Signed], count: int) -> None:
    refused = invoke(*(pair[0].path for _ in range(count)))
    assert isinstance(refused.exception, UsageError)
    assert "two reports or more" in refused.exception.message


def test_a_folder_that_is_none_is_said(pair: tuple[Signed, Signed], tmp_path: Path) -> None:
    refused = invoke(pair[0].path, tmp_path, *keys(*pair))
    assert isinstance(refused.exception, UsageError)
    assert "holds no report.json" in refused.exception.message


def test_the_same_report_twice_is_said(pair: tuple[Signed, Signed]) -> None:
    refused = invoke(pair[0].path, pair[0].path, *keys(*pair))
    assert isinstance(refused.exception, UsageError)
    assert "the same report" in refused.exception.message
