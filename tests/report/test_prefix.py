"""Prefix hits: predicted from all requests of a run, summed by point."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from bench.records import Outcome
from bench.report import prefix
from bench.report.measurement import Measurement
from bench.report.prefix import CPU_SPLIT_TOKENS, DEFAULT_CHUNK_TOKENS, Hits, measured, predict, prefix_cache
from bench.workload.prefix_cache_bounds import HitPrediction, ServedPrompt, predict_served
from bench.workload.prefix_cache_rules import CacheRules
from bench.workload.turn import Segment
from tests.report.factories import (
    BLOCK,
    SHARED,
    healthy,
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
    from recipes.schema import Recipe


class Spy:
    """Predicts the tokens of a prompt's first segment as its hits, and remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[list[ServedPrompt], CacheRules]] = []

    def __call__(self, requests: Sequence[ServedPrompt], rules: CacheRules) -> list[HitPrediction]:
        self.asked.append((list(requests), rules))
        hits = [request.segments[0].tokens for request in requests]
        return [HitPrediction(expected=hit, least=hit - 1, most=hit + 1) for hit in hits]


def measurement(records: list[RequestRecord], *observations: Observation, recipe: Recipe | None = None) -> Measurement:
    return Measurement.of(make_evidence(records, observations, recipe=recipe))


def test_each_run_is_predicted_as_a_whole_and_summed_by_point() -> None:
    spy = Spy()
    records = [
        make_record(point=0, segments=((1, 5), (2, 95))),
        make_record(point=1, segments=((1, 7), (3, 93))),
        make_record(point=1, segments=((1, 8), (4, 92))),
        make_record(run=1, point=0, segments=((1, 9), (5, 91))),
    ]
    found = predict(measurement(records, make_started(run=0), make_started(run=1)), spy)
    assert found == {(0, 0): Hits(5, 4, 6), (0, 1): Hits(15, 13, 17), (1, 0): Hits(9, 8, 10)}
    assert [len(requests) for requests, _ in spy.asked] == [3, 1]


def test_the_predictor_sees_what_the_client_saw() -> None:
    spy = Spy()
    records = [
        make_record(sent_s=20.0, done_s=21.0, completion_tokens=7, segments=((11, 60), (12, 40))),
        make_failure(Outcome.CUT, sent_s=30.0, done_s=31.0, requested_tokens=9),
        make_failure(Outcome.CONNECT, sent_s=None),
    ]
    predict(measurement(records, make_started()), spy)
    ((requests, _),) = spy.asked
    assert requests[0] == ServedPrompt(
        segments=(Segment(11, 60), Segment(12, 40)), output_tokens=7, start_s=20.0, end_s=21.0, complete=True
    )
    assert (requests[1].output_tokens, requests[1].complete) == (9, False)
    assert len(requests) == 2  # the third never reached the engine


@pytest.mark.parametrize(
    ("flags", "chunk", "drafts"),
    [
        ({}, DEFAULT_CHUNK_TOKENS, 0),
        ({"max_num_batched_tokens": 16384}, 16384, 0),
        ({"speculative_config": '{"num_speculative_tokens": 2}'}, DEFAULT_CHUNK_TOKENS, 2),
        ({"speculative_config": {"method": "mtp", "num_speculative_tokens": 4}}, DEFAULT_CHUNK_TOKENS, 4),
    ],
)
def test_the_rules_are_those_of_the_recipe_and_the_engine(flags: dict[str, Any], chunk: int, drafts: int) -> None:
    spy = Spy()
    recipe = make_recipe(engine={"flags": flags})
    predict(measurement([make_record()], make_started(), recipe=recipe), spy)
    ((_, rules),) = spy.asked
    assert rules == CacheRules(block_size=BLOCK, hybrid=True, chunk_tokens=chunk, draft_tokens=drafts)


@pytest.mark.parametrize(("mode", "hybrid"), [(None, True), ("align", True), ("none", False)])
def test_whether_the_model_has_recurrent_layers_is_what_the_engine_says(mode: str | None, *, hybrid: bool) -> None:
    spy = Spy()
    predict(measurement([make_record()], make_started(mamba_cache_mode=mode)), spy)
    assert spy.asked[0][1].hybrid is hybrid


@pytest.mark.parametrize(("flags", "split"), [({}, CPU_SPLIT_TOKENS), ({"block_size": 128}, None)])
def test_the_cpu_build_steers_by_its_default_block_size(flags: dict[str, Any], split: int | None) -> None:
    spy = Spy()
    recipe = make_recipe(hardware={"kind": "cpu", "gpu": None}, engine={"flags": flags})
    predict(measurement([make_record()], make_started(), recipe=recipe), spy)
    assert spy.asked[0][1].split_tokens == split


@pytest.mark.parametrize(("flags", "unit"), [({}, None), ({"prefix_match_unit": BLOCK // 2}, BLOCK // 2)])
def test_hits_inside_blocks_follow_the_recipes_unit(flags: dict[str, Any], unit: int | None) -> None:
    spy = Spy()
    predict(measurement([make_record()], make_started(), recipe=make_recipe(engine={"flags": flags})), spy)
    assert spy.asked[0][1].match_unit == unit


@pytest.mark.parametrize(
    ("started", "flags"),
    [
        ({"kind_of_engine": "external"}, {}),
        ({"block_size": None}, {}),
        ({"mamba_cache_mode": "all"}, {}),
        ({"prefix_caching": None}, {}),
        ({"block_size": 0}, {}),
        ({"block_size": 4097}, {"max_num_batched_tokens": 4096}),
        ({}, {"max_num_batched_tokens": "16k"}),
        ({}, {"speculative_config": {"num_speculative_tokens": -1}}),
        ({}, {"speculative_config": {"num_speculative_tokens": "few"}}),
        ({}, {"prefix_match_unit": BLOCK - 1}),
        ({}, {"prefix_match_unit": "fine"}),
        ({}, {"mamba_cache_mode": "all"}),
    ],
)
def test_what_is_not_known_is_not_predicted(started: dict[str, Any], flags: dict[str, Any]) -> None:
    recipe = make_recipe(engine={"flags": flags})
    assert predict(measurement([make_record()], make_started(**started), recipe=recipe), Spy()) == {}


def test_a_run_without_an_engine_or_a_request_is_not_predicted() -> None:
    assert predict(measurement([make_record()]), Spy()) == {}
    assert predict(measurement([], make_started()), Spy()) == {}


def test_too_many_requests_are_not_predicted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prefix, "MOST_PREDICTED", 2)
    assert predict(measurement([make_record()] * 2, make_started()), Spy()) != {}
    assert predict(measurement([make_record()] * 3, make_started()), Spy()) == {}


def test_without_prefix_caching_nothing_hits() -> None:
    spy = Spy()
    found = predict(measurement([make_record()], make_started(prefix_caching=False, block_size=None)), spy)
    assert found == {(0, 0): Hits(0, 0, 0)}
    assert spy.asked == []


def test_the_real_predictor_finds_the_shared_prefix() -> None:
    found = predict(Measurement.of(healthy([0.1] * 50)), predict_served)
    # The priming request has nothing to hit, and the first one after it no recurrent state yet.
    assert found[0, 0].expected == found[0, 1].expected == SHARED * 49


def test_hits_that_the_engine_counts_once_are_preferred() -> None:
    records = healthy_records([0.1] * 10)
    both = healthy_observations(records, prefix_hits=900.0, prompt_tokens_cached=500.0)
    assert measured(measurement(records, *both), 0, 0) == 500.0
    assert measured(measurement(records, *healthy_observations(records, prefix_hits=900.0)), 0, 0) == 900.0


def test_rates_are_over_all_prompts_that_were_sent() -> None:
    records = [
        *healthy_records([0.1] * 7),
        make_failure(Outcome.CUT, segments=((900, 100),)),
        make_failure(Outcome.CONNECT, sent_s=None, segments=((901, 100),)),
    ]
    found = measurement(records, make_started(), *healthy_observations(records, prefix_hits=450.0))
    assert prefix_cache(found, {(0, 0): Hits(360, 360, 360)}, 0).model_dump() == {
        "block_size": BLOCK,
        "predicted_hit_tokens": 360,
        "measured_hit_tokens": 450,
        "prompt_tokens": 900,
        "predicted_rate": 0.4,
        "measured_rate": 0.5,
    }


def test_hits_are_unknown_when_one_run_does_not_know() -> None:
    both = healthy([0.1] * 5, runs=2, points=1)
    found = prefix_cache(Measurement.of(both), {(0, 0): Hits(1, 1, 1)}, 0)
    assert found.predicted_hit_tokens is None
    assert found.measured_hit_tokens == 2 * SHARED * 4
    first_only = [seen for seen in both.observations if seen.kind != "counters" or seen.run == 0]
    again = Measurement.of(make_evidence(healthy_records([0.1]) + healthy_records([0.1], run=1), first_only))
    assert prefix_cache(again, {}, 0).measured_hit_tokens is None


def test_two_block_sizes_are_none() -> None:
    found = measurement(
        [make_record(), make_record(run=1)], make_started(block_size=16), make_started(run=1, block_size=32)
    )
    assert prefix_cache(found, {}, 0).block_size is None


def test_a_point_without_prompts_has_no_rates() -> None:
    found = measurement([], make_started(), *healthy_observations([]))
    assert prefix_cache(found, {(0, 0): Hits(0, 0, 0)}, 0).predicted_rate is None
    assert prefix_cache(found, {(0, 0): Hits(0, 0, 0)}, 0).measured_rate is None
