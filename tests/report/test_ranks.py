"""Data-parallel ranks in a report: hits predicted for each cache, requests counted at each rank, routing named."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from bench.records import Outcome
from bench.report.counters import client_finished_by_rank, increase_by_rank
from bench.report.disclosure import assumptions
from bench.report.measurement import Measurement
from bench.report.prefix import Hits, predict
from bench.report.rules_engine import kept_to_ranks, prefix_hits
from bench.workload.prefix_cache_bounds import HitPrediction, ServedPrompt, predict_served
from tests.report.factories import (
    healthy_observations,
    healthy_records,
    make_evidence,
    make_failure,
    make_recipe,
    make_record,
    make_started,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.observe.observations import Observation
    from bench.records import RequestRecord
    from bench.report.model import Check
    from bench.workload.prefix_cache_rules import CacheRules
    from recipes.schema import Recipe

ONE = make_recipe()


def replicas(**changes: Any) -> Recipe:
    return make_recipe(**{"hardware": {"count": 2}, "engine": {"replicas": 2}, **changes})


def two(**changes: Any) -> Recipe:
    return make_recipe(**{"hardware": {"count": 2}, "engine": {"flags": {"data_parallel_size": 2}}, **changes})


def measurement(records: list[RequestRecord], *seen: Observation, recipe: Recipe | None = None) -> Measurement:
    return Measurement.of(make_evidence(records, seen, recipe=recipe or two()))


def twice(segments: tuple[tuple[int, int], ...], *streams: int) -> list[RequestRecord]:
    """The same prompt from these streams, one after the other."""
    return [
        make_record(stream=stream, intended_s=20.0 + place, segments=segments) for place, stream in enumerate(streams)
    ]


def test_each_rank_has_a_cache_of_its_own() -> None:
    asked: list[list[float]] = []

    def spy(requests: Sequence[ServedPrompt], _: CacheRules) -> list[HitPrediction]:
        asked.append([request.segments[0].tokens for request in requests])
        return [HitPrediction(expected=n, least=n, most=n) for n in range(1, len(requests) + 1)]

    records = [
        *(make_record(primed=True, stream=stream, segments=((1, 50 + stream), (2, 50))) for stream in (-1, -2)),
        *(make_record(stream=stream, segments=((1, stream + 1), (2, 9))) for stream in range(3)),
    ]
    found = predict(measurement(records, make_started()), spy)
    assert asked == [[49, 1, 3], [48, 2]]
    assert found == {(0, 0): Hits(1 + 2 + 3 + 1 + 2, 9, 9)}


def test_a_prompt_that_another_rank_has_seen_is_no_hit() -> None:
    segments = ((1, 64), (2, 36))
    expected = {}
    for name, streams in {"at one rank": (0, 2, 4), "at two": (0, 2, 1)}.items():
        found = predict(measurement(twice(segments, *streams), make_started()), predict_served)
        expected[name] = found[0, 0].expected
    assert expected["at one rank"] > expected["at two"]
    alone = predict(measurement(twice(segments, 0, 2, 1), make_started(), recipe=ONE), predict_served)
    assert alone[0, 0].expected == expected["at one rank"]


def test_what_the_engine_routes_is_not_predicted() -> None:
    records = twice(((1, 64), (2, 36)), 0, 1)
    found = measurement(records, make_started(), recipe=two(load={"affinity": "none"}))
    assert predict(found, predict_served) == {}
    (check,) = prefix_hits(found, {})
    assert (check.verdict, "load balancer" in check.measured) == ("unknown", True)
    assert "load.affinity" in check.advice


def counted(finished: tuple[float, ...] | None, records: list[RequestRecord]) -> list[Observation]:
    before, *between, after = healthy_observations(records)
    assert before.kind == after.kind == "counters"
    zero = None if finished is None else (0.0,) * len(finished)
    values = {"values": before.values.model_copy(update={"finished_by_rank": zero})}
    at_end = {"values": after.values.model_copy(update={"finished_by_rank": finished})}
    return [before.model_copy(update=values), *between, after.model_copy(update=at_end)]


@pytest.mark.parametrize(
    ("finished", "verdict"),
    [((6.0, 5.0), "kept"), ((5.0, 6.0), "broken"), ((6.0, 5.0, 0.0), "broken"), (None, "unknown")],
)
def test_calls_stay_at_their_rank(finished: tuple[float, ...] | None, verdict: str) -> None:
    records = healthy_records([0.5] * 10)  # streams 0 to 9, and one priming request of rank 0
    (check,) = kept_to_ranks(measurement(records, make_started(), *counted(finished, records)))
    assert check.verdict == verdict
    assert check.expected == "stream s at rank s modulo 2: 6, 5 requests"
    assert (check.advice == "") == (verdict == "kept")


def test_calls_stay_at_their_replica() -> None:
    records = healthy_records([0.5] * 10)

    def checked(*finished: float) -> Check:
        (check,) = kept_to_ranks(measurement(records, make_started(), *counted(finished, records), recipe=replicas()))
        return check

    kept, broken = checked(6.0, 5.0), checked(5.0, 6.0)
    assert (kept.rule, kept.verdict) == ("calls stayed at their replica", "kept")
    assert kept.expected == "stream s at replica s modulo 2: 6, 5 requests"
    assert kept.measured == "the replicas finished 6, 5 requests"
    assert "header" not in broken.advice
    assert broken.verdict == "broken"
    several = replicas(hardware={"count": 4}, engine={"replicas": 2, "flags": {"data_parallel_size": 2}})
    (check,) = kept_to_ranks(
        measurement(records, make_started(), *counted((3.0, 3.0, 3.0, 2.0), records), recipe=several)
    )
    assert check.expected == "stream s at rank s modulo 4: 4, 3, 2, 2 requests"
    assert "x-data-parallel-rank" in check.advice


def test_hits_are_predicted_for_each_replica() -> None:
    segments = ((1, 64), (2, 36))
    at_two, at_one = (
        predict(measurement(twice(segments, *streams), make_started(), recipe=replicas()), predict_served)[
            0, 0
        ].expected
        for streams in ((0, 2, 1), (0, 2, 4))
    )
    assert at_two < at_one


def test_a_failure_leaves_bounds_at_its_rank_only() -> None:
    records = [make_record(stream=0), make_record(stream=1), make_failure(Outcome.TIMEOUT, stream=3)]
    found = measurement(records, make_started(), *counted((1.0, 2.0), records))
    assert [(bounds.low, bounds.high) for bounds in client_finished_by_rank(found, 0, 0)] == [(1, 1), (1, 2)]
    assert increase_by_rank(found, 0, 0) == (1.0, 2.0)
    assert kept_to_ranks(found)[0].verdict == "kept"


@pytest.mark.parametrize("recipe", [ONE, two(load={"affinity": "none"})], ids=["one rank", "not pinned"])
def test_no_rule_where_nothing_is_pinned(recipe: Recipe) -> None:
    records = healthy_records([0.5] * 10)
    assert kept_to_ranks(measurement(records, make_started(), *counted((6.0, 5.0), records), recipe=recipe)) == []


def test_how_calls_were_routed_is_said() -> None:
    def routing(recipe: Recipe) -> list[tuple[str, str]]:
        return [(found.value, found.why) for found in assumptions(recipe) if found.key == "load.affinity"]

    assert routing(ONE) == []
    ((value, why),) = routing(two())
    assert (value, "rank s modulo 2" in why) == ("rank", True)
    ((value, why),) = routing(replicas())
    assert (value, "pinned to replica s modulo 2" in why) == ("rank", True)
    said = two(load={"affinity": "none"}, sources={"load.affinity": {"kind": "assumption", "why": "as it comes"}})
    assert routing(said) == [("none", "as it comes")]
