"""What a run's probe asks: prompts of the recipe's own workload, that no point of it has."""

from __future__ import annotations

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.load.probe import ProbePrompts
from bench.plan import RunPlan, plan_run
from bench.probe_prompts import AGENTS, probe_of
from bench.turns import jobs
from bench.workload.prefix_cache import predict_hits
from bench.workload.prefix_cache_rules import CacheRules
from bench.workload.tokens import CheckpointTokenizer
from bench.workload.turn import Segment
from recipes.load import load_recipe


@pytest.fixture(scope="module")
def plan() -> RunPlan:
    return plan_run(load_recipe("cpu", {"workload.sampling.temperature": "0.7"}))


@pytest.fixture(scope="module")
def tokenizer(plan: RunPlan) -> CheckpointTokenizer:
    return CheckpointTokenizer.from_folder(plan.checkpoint.tokenizer)


def prompts(plan: RunPlan, tokenizer: CheckpointTokenizer, *, run: int = 0, nonce: str = "") -> list[ProbePrompts]:
    return list(probe_of(plan, run=run, model="m", nonce=nonce, tokenizer=tokenizer).prompts)


def test_two_agents_each_with_a_prompt_and_one_that_shares_nothing_with_it(
    plan: RunPlan, tokenizer: CheckpointTokenizer
) -> None:
    asked = prompts(plan, tokenizer)
    assert [each.agent for each in asked] == plan.recipe.workload.agents[:AGENTS]
    bodies = [orjson.loads(turn.body) for each in asked for turn in (each.first, each.other)]
    for body, turn in zip(bodies, [turn for each in asked for turn in (each.first, each.other)], strict=True):
        assert len(body["prompt"]) == turn.prompt_tokens > plan.recipe.workload.shared_prefix_tokens
        assert (body["temperature"], body["max_tokens"]) == (0.0, plan.recipe.workload.output_tokens)
        assert body["return_token_ids"] is True
        assert body["model"] == "m"
    beginnings = {tuple(body["prompt"][:16]) for body in bodies}
    assert len(beginnings) == len(bodies)
    assert {each.rank for each in asked} == {None}


def test_they_differ_between_runs_jobs_and_from_every_point(plan: RunPlan, tokenizer: CheckpointTokenizer) -> None:
    seen = {
        prompts(plan, tokenizer, run=run, nonce=nonce)[0].first.segments for run, nonce in ((0, ""), (1, ""), (0, "x"))
    }
    assert len(seen) == 3
    assert prompts(plan, tokenizer)[0].first.segments in seen  # and come again from the same seed
    point = jobs(plan, run=0, model="m", nonce="")[0].source.using(tokenizer)
    # A message's opening is everybody's; the code of the prompt behind it is not.
    assert {turn.segments[:12] for turn in point.primes()}.isdisjoint({segments[:12] for segments in seen})


@given(st.integers(200, 12_000), st.sampled_from([0, 1, 4]), st.sampled_from([None, 60, 120, 720]), st.booleans())
def test_the_two_replies_that_are_compared_are_computed_in_the_same_pieces(
    tokens: int, draft_tokens: int, unit: int | None, hybrid: bool
) -> None:
    """A2 and A3 take the same from the cache, whatever its rules; A1 may take less, and A takes nothing."""
    rules = CacheRules(block_size=2160, hybrid=hybrid, chunk_tokens=4100, draft_tokens=draft_tokens, match_unit=unit)
    a, b = [Segment(key=1, tokens=tokens)], [Segment(key=2, tokens=tokens)]
    cold, _, second, _, third = predict_hits([(prompt, 100) for prompt in (a, a, a, b, a)], rules)
    assert cold == 0
    assert second == third
