"""Prefix hits before a run, against those that were measured."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.explain.preflight.prefix import PrefixPlan, reusable
from bench.workload.prefix_cache_rules import CacheRules
from tests.explain.preflight.planned import UNIT, basis, lines


@pytest.mark.parametrize(
    ("target", "measured"),
    [
        pytest.param("h200-fp8-dummy", 0.644, id="evidence/h200, 1,300 prompts"),
        pytest.param("cpu", 0.698, id="a report of the cpu target"),
    ],
)
def test_the_rate_is_that_of_the_run(target: str, measured: float) -> None:
    assert basis(target).prefix.rate == pytest.approx(measured, rel=0.02)


def test_a_longer_prefix_gives_what_was_said() -> None:
    plan = basis("h200-fp8").prefix
    assert (plan.shared_hit, plan.enough, plan.next_length, plan.next_hit) == (6480, 8640, 10800, 8640)
    longer = basis("h200-fp8", ("workload.shared_prefix_tokens", "10800"), ("workload.prompt_tokens", "11800")).prefix
    assert longer.shared_hit == 8640
    same = basis("h200-fp8", ("workload.shared_prefix_tokens", "8640")).prefix
    assert same.shared_hit == 6480


def test_without_a_cache_everything_is_computed() -> None:
    plan = basis("cpu-mtp").prefix
    assert plan.rate == 0
    assert plan.computed == plan.prompts


def test_hits_inside_blocks_depend_on_how_prompts_end() -> None:
    """A priming prompt ends 44 tokens behind the prefix: a unit of 60 ends inside it, and one of 16 does not."""
    inside, behind = (basis("h200-fp8", ("engine.flags.prefix_match_unit", unit)).prefix for unit in ("60", "16"))
    assert (inside.shared_hit, behind.shared_hit) == (8640, 6480)
    assert inside.rate == pytest.approx(0.888, abs=0.005)
    assert behind.rate == pytest.approx(0.684, abs=0.01)


def test_what_a_unit_gives_the_fast_recipe() -> None:
    """What it was chosen for, and what the recipe computes without it."""
    assert basis("h200-fp8-fast-dummy", UNIT).prefix.computed == pytest.approx(1110, rel=0.01)
    assert basis("h200-fp8-fast-dummy").prefix.computed == pytest.approx(3520, rel=0.01)
    assert basis("h200-fp8-dummy").prefix.computed == pytest.approx(3520, rel=0.01)

    def with_unit(unit: int) -> PrefixPlan:
        return basis("h200-fp8-dummy", ("engine.flags.prefix_match_unit", str(unit))).prefix

    assert {with_unit(unit).shared_hit for unit in (15, 24, 30, 36, 40)} == {6480}
    well = [with_unit(unit) for unit in (45, 60, 72, 90, 120)]
    assert {plan.shared_hit for plan in well} == {8640}
    assert [plan.computed for plan in well] == pytest.approx(len(well) * [1110], rel=0.02)


def test_a_unit_that_does_not_divide_the_block_has_no_rate() -> None:
    plan = basis("h200-fp8", ("engine.flags.prefix_match_unit", "64"))
    assert (plan.prefix.rate, plan.prefix.steps) == (None, None)
    assert "prefix.steps" not in lines(plan)


def test_a_unit_saves_tokens_and_doubles_the_steps() -> None:
    """The figures of evidence/h200/attribution-20261130."""
    fast = basis("h200-fp8-fast-dummy", UNIT).prefix
    assert fast.steps == 2.0
    assert fast.without_unit is not None
    whole = basis("h200-fp8-fast-dummy", ("engine.flags.prefix_match_unit", "2160")).prefix
    assert (fast.without_unit.computed, fast.without_unit.steps) == (whole.computed, whole.steps) == (3520, 1.0)
    assert whole.without_unit is None


@pytest.mark.parametrize(
    ("target", "overrides", "steps", "how"),
    [
        (
            "h200-fp8-fast-dummy",
            (UNIT,),
            2.0,
            (
                "1,106 tokens in 2.0 steps: after hits, to the prompt's last multiple of 60, then the rest; "
                "at most 4,100 tokens a step, one request at a time; --blocks tries other block sizes"
            ),
        ),
        (
            "h200-fp8-dummy",
            (),
            1.0,
            "3,520 tokens in 1.0 steps: after hits, all at once; at most 16,384 tokens a step, one request at a time",
        ),
        (
            "vanilla",
            (),
            1.62,
            (
                "1,181 tokens in 1.6 steps: after hits, to the prompt's last block boundary, then the rest; "
                "at most 8,192 tokens a step, one request at a time; --blocks tries other block sizes"
            ),
        ),
        (
            "h200-fp8",
            (("engine.flags.mamba_ssm_cache_dtype", "bfloat16"),),
            1.78,
            (
                "2,785 tokens in 1.8 steps: after hits, to the prompt's last block boundary but one (MTP), then the "
                "rest; at most 16,384 tokens a step, one request at a time; --blocks tries other block sizes"
            ),
        ),
        (
            "cpu-mtp",
            (("engine.flags.max_num_batched_tokens", "1500"),),
            2.0,
            "2,000 tokens in 2.0 steps: nothing is cached; at most 1,500 tokens a step, one request at a time",
        ),
    ],
)
def test_the_line_says_how_a_prompt_is_computed(
    target: str, overrides: tuple[tuple[str, str], ...], steps: float, how: str
) -> None:
    line = lines(basis(target, *overrides))["prefix.steps"]
    assert (line.label, line.unit) == ("prefill steps of a prompt", "steps")
    assert line.value == pytest.approx(steps, abs=0.005)
    assert line.how == how
    assert line.source == "bench.workload.prefix_cache_rules, 6 and 8"


def test_a_prompt_longer_than_a_step_takes_more_of_them() -> None:
    long, short = (
        basis("cpu", ("engine.flags.max_num_batched_tokens", str(tokens))).prefix.steps for tokens in (4096, 300)
    )
    assert long is not None
    assert short is not None
    assert long < short


@given(shared=st.integers(1, 40_000), draft=st.integers(0, 4), block=st.sampled_from([256, 1056, 2160]))
def test_reuse_is_whole_blocks_and_never_more_than_is_shared(shared: int, draft: int, block: int) -> None:
    rules = CacheRules(block_size=block, hybrid=True, chunk_tokens=16384, draft_tokens=draft)
    found = reusable(shared, rules)
    assert found % block == 0
    assert 0 <= found <= shared
    assert found <= reusable(shared + 1, rules) <= found + block
    assert shared - found < block * (2 if draft else 1)
