from dataclasses import replace
from typing import Any

import pytest

from bench.observe.observations import Finished, GpuSample, Observation
from bench.report.evidence import Evidence
from bench.report.verify_files import RefusedError
from bench.report.verify_work import STEPS_LIMIT, check_work
from tests.report.factories import (
    healthy,
    make_claim,
    make_client,
    make_evidence,
    make_recipe,
    make_record,
    make_started,
)


def evidence_with(records: list[dict[str, Any]], **started: Any) -> Evidence:
    return make_evidence(
        [make_record(request=number, **changes) for number, changes in enumerate(records)], [make_started(**started)]
    )


def gpu(index: int) -> GpuSample:
    nothing = dict.fromkeys(("power_w", "sm_clock_mhz", "memory_used_bytes", "utilization", "temperature_c"))
    return GpuSample.model_validate({"t": 1.0, "run": 0, "index": index, "uuid": "", "throttle_reasons": ()} | nothing)


def observed(*observations: Observation, **recipe: Any) -> Evidence:
    return make_evidence([], [make_started(), *observations], recipe=make_recipe(**recipe))


def test_an_honest_run_is_no_work() -> None:
    check_work(healthy([0.5] * 300, runs=2))


def test_prompts_that_no_engine_has_are_refused_before_anything_walks_over_them() -> None:
    evidence = evidence_with([{"segments": ((1, 10**12), (2, 5))}], block_size=256)
    with pytest.raises(RefusedError, match=r"requests\.parquet: names prompts and replies of 3\.91e\+09 cache blocks"):
        check_work(evidence)


@pytest.mark.parametrize("field", ["requested_tokens", "completion_tokens"])
def test_so_are_replies(field: str) -> None:
    with pytest.raises(RefusedError, match="in run 0"):
        check_work(evidence_with([{field: 2 * STEPS_LIMIT}]))


def test_tokens_that_add_up_to_more_than_64_bits_do_not_wrap_around() -> None:
    with pytest.raises(RefusedError):
        check_work(evidence_with([{"segments": ((1, 2**62), (2, 2**62), (3, 2**62), (4, 2**62))}], block_size=1))


def test_an_unknown_block_size_counts_as_one() -> None:
    with pytest.raises(RefusedError):
        check_work(evidence_with([{"segments": ((1, 2 * STEPS_LIMIT),)}], block_size=None))


def test_records_of_a_run_without_an_engine_are_not_predicted_and_not_counted() -> None:
    evidence = evidence_with([{"run": 5, "segments": ((1, 10**12),)}])
    check_work(replace(evidence, recipe=make_recipe(load={"runs": 6})))


def test_a_hit_that_can_end_inside_a_block_counts_by_what_it_can_end_at() -> None:
    """Blocks of a million tokens, and a place at every single one of them."""
    evidence = evidence_with([{"segments": ((1, 10**8),)}], block_size=10**6)
    check_work(evidence)
    recipe = make_recipe(engine={"flags": {"prefix_match_unit": 1}})
    with pytest.raises(RefusedError, match="cache blocks and tokens"):
        check_work(replace(evidence, recipe=recipe))


PLACES = [
    (observed(Finished(t=1.0, run=1)), "observations.jsonl: names run 1; the recipe has 1, counted from 0"),
    (observed(Finished(t=1.0, run=-1)), "observations.jsonl: names run -1"),
    (observed(make_client(point=2)), "observations.jsonl: names point 2; the recipe has 2, counted from 0"),
    (observed(make_client(point=-1)), "observations.jsonl: names point -1"),
    (observed(gpu(64)), "observations.jsonl: names GPU 64; no host has 64"),
    (evidence_with([{"run": 1}]), "requests.parquet: names run 1"),
    (evidence_with([{"point": 2}]), "requests.parquet: names point 2"),
    (observed(load={"runs": 1001}), "recipe.resolved.toml: asks for 1,001 runs of 2 points"),
    (observed(load={"runs": 10**18}), "recipe.resolved.toml: asks for 1,000,000,000,000,000,000 runs"),
    (
        observed(claims=[make_claim(id=f"c{number}") for number in range(1001)]),
        "recipe.resolved.toml: holds 1,001 claims",
    ),
    (
        observed(*[Finished(t=1.0, run=0)] * 30_000, load={"runs": 1000}),
        "observations.jsonl: has 30,001 lines for 2,000 points",
    ),
]


@pytest.mark.parametrize(("evidence", "reason"), PLACES, ids=[reason for _, reason in PLACES])
def test_runs_points_and_cards_that_there_are_not_are_refused(evidence: Evidence, reason: str) -> None:
    with pytest.raises(RefusedError) as caught:
        check_work(evidence)
    assert str(caught.value).startswith(reason)
