"""`just plan` on report folders: what one replica holds, what it costs, what is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from bench.cli import app
from bench.errors import StreamproofError, UsageError
from bench.explain.compare.side import Side
from bench.explain.fleet.command import parse_price
from bench.explain.fleet.measured import replica_of
from bench.explain.fleet.plan import plan_fleet
from bench.explain.search.outcome import SearchOutcome
from bench.explain.slo.parse import parse_slo
from tests.explain.compare.sides import recipe_of, report, side
from tests.report.folders import Signed


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Signed:
    """20 streams with a p95 of about 0.51 s, 40 with 0.62 s; 450 requests each."""
    return report(tmp_path_factory.mktemp("fleet"))


@pytest.fixture(scope="module")
def ladder(measured: Signed) -> Side:
    return side(measured)


@pytest.mark.parametrize(
    ("slo", "certified", "likely", "refuted"),
    [
        (None, 40, 40, None),  # p95 of E2E at 1 s
        ("e2e:p95:550ms", 20, 20, 40),
        ("e2e:p50:420ms", 20, 20, 40),
        ("ttft:p95:1s", 40, 40, None),
        ("goodput:95%:e2e<1s,ttft<400ms", 40, 40, None),
        ("goodput:95%:e2e<1s,ttft<220ms", 20, 20, 40),
    ],
)
def test_one_replica_holds_what_its_records_show(
    ladder: Side, slo: str | None, certified: int, likely: int, refuted: int | None
) -> None:
    found = replica_of(ladder, slo)
    assert (found.certified, found.likely, found.refuted) == (certified, likely, refuted)


def searched(ladder: Side, **changes: Any) -> Side:
    """The same report, as if it had searched."""
    question = {
        "slo": parse_slo("ttft:p95:300ms"),
        "axis": "streams",
        "values": (1.0, 30.0, 40.0),
        "base": {"streams": 1},
        "turn_gap": ladder.evidence.recipe.load.turn_gap,
        "start": 0,
        "looks": 3,
        "most_points": 9,
    }
    outcome: dict[str, Any] = {
        "question": question,
        "answer": "boundary",
        "says": "",
        "holds": 30.0,
        "fails": 40.0,
        "confidence": 0.95,
        "crossing": 33.7,
        "proofs": (),
        "measured": (),
        "cliffs": (),
    }
    found = SearchOutcome.model_validate(outcome | changes)
    return replace(ladder, report=ladder.report.model_copy(update={"searches": (found,)}))


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, (30, 33, 40)),
        ({"crossing": None, "fails": None}, (30, 30, None)),
        ({"crossing": 12.0}, (30, 30, 40)),  # the fit is no certificate
    ],
)
def test_a_search_says_what_one_replica_holds(
    ladder: Side, changes: dict[str, Any], expected: tuple[int, int, int | None]
) -> None:
    found = replica_of(searched(ladder, **changes), None)
    assert found.slo.text == "ttft:p95:300ms"
    assert (found.certified, found.likely, found.refuted, found.source) == (*expected, "the search")


@pytest.mark.parametrize("changes", [{"holds": None}, {"answer": "not in order"}])
def test_a_search_that_found_nothing_to_hold_is_no_ground(ladder: Side, changes: dict[str, Any]) -> None:
    with pytest.raises(StreamproofError, match="shows no number of streams"):
        replica_of(searched(ladder, **changes), None)


def test_of_another_limit_the_search_says_nothing(ladder: Side) -> None:
    assert replica_of(searched(ladder), "e2e:p95:1s").source == "the ladder"


def test_what_is_not_ruled_out_stands_last(ladder: Side) -> None:
    plan = plan_fleet(searched(ladder), 390, slo=None, price=None)
    assert [(case.case, case.per_replica, case.replicas) for case in plan.cases] == [
        ("certified", 30, 14),
        ("likely", 33, 13),
        ("refuted", 39, 11),
    ]


def test_what_is_likely_and_not_shown_stands_apart(ladder: Side) -> None:
    p95 = ladder.report.points[1].e2e.p95.value
    assert p95 is not None
    plan = plan_fleet(ladder, 400, slo=f"e2e:p95:{p95 * 1000 + 1:.0f}ms", price=2.0)
    assert [(case.case, case.per_replica, case.replicas) for case in plan.cases] == [
        ("certified", 20, 21),
        ("likely", 40, 11),
    ]
    assert plan.cases[0].per_stream_hour == pytest.approx(21 * 2.0 / 400)


def test_a_limit_that_nothing_holds_names_the_search(ladder: Side) -> None:
    with pytest.raises(StreamproofError, match="shows no number of streams") as refused:
        replica_of(ladder, "e2e:p95:100ms")
    assert "just capacity" in refused.value.remedy


def test_a_partial_report_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StreamproofError, match="is partial"):
        replica_of(side(report(tmp_path, finished=False)), None)


def test_an_invalid_report_is_refused(tmp_path: Path) -> None:
    # As many requests in flight as asked for there never were.
    broken = side(report(tmp_path, recipe=recipe_of(load={"ladder": [{"concurrent": 20}, {"streams": 40}]})))
    assert not broken.report.valid
    with pytest.raises(StreamproofError, match="is invalid"):
        replica_of(broken, None)


def test_a_report_without_streams_is_refused(tmp_path: Path) -> None:
    gap = {"distribution": "exponential", "mean_s": 9.0}  # of these points only: the plan would be for another gap
    own = [{"streams": streams, "turn_gap": gap} for streams in (20, 40)]
    with pytest.raises(UsageError, match="measured no open streams"):
        replica_of(side(report(tmp_path, recipe=recipe_of(load={"ladder": own}))), None)


def invoke(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["plan", *arguments])


def test_the_command_shows_the_fleet_and_gives_it_to_scripts(measured: Signed) -> None:
    trusted = ("--from", str(measured.path), "--key", str(measured.path / "signer.pub.pem"))
    shown = invoke("--streams", "5000", "--price", "3.50/h", *trusted)
    assert shown.exit_code == 0, shown.output
    assert "126 replicas" in shown.output
    assert "441.00" in shown.output
    assert "turn gap" in shown.output
    data = json.loads(invoke("--streams", "5000", "--json", *trusted).output)
    assert data["cases"][0]["gpus"] == 126
    assert data["price"] is None


def test_a_report_that_nobody_trusts_is_refused(measured: Signed) -> None:
    refused = invoke("--streams", "5000", "--from", str(measured.path))
    assert isinstance(refused.exception, StreamproofError)
    assert "not verified" in refused.exception.message


@pytest.mark.parametrize("arguments", [("--streams", "10"), ("--streams", "10", "--from", "nowhere")])
def test_a_report_that_is_missing_is_said(arguments: tuple[str, ...]) -> None:
    assert isinstance(invoke(*arguments).exception, UsageError)


@pytest.mark.parametrize(("text", "price"), [("3.50/h", 3.5), ("2", 2.0), (None, None)])
def test_prices(text: str | None, price: float | None) -> None:
    assert parse_price(text) == price


@pytest.mark.parametrize("text", ["", "cheap", "-1", "3.50/month", "1e9"])
def test_a_price_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="no price"):
        parse_price(text)
