"""Verdicts: what public reports ran into is said before the start, with the flag that changes it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.explain.preflight.blocks import Blocks, Choice
from bench.explain.preflight.budget import budget_of, forward_peak, graph_pool, rejection_logits, sampler_peak
from bench.explain.preflight.captures import captures_of
from bench.explain.preflight.gpus import GIB
from bench.explain.preflight.plan import Basis, Verdict
from bench.explain.preflight.verdicts import verdicts_of, worst
from tests.explain.preflight.planned import FULL_SIZE, REPOSITORY, UNIT, basis, full_size

NAMED = FULL_SIZE.parent


def verdict(name: str, target: str, *overrides: tuple[str, str], config: Path | None = NAMED) -> Verdict:
    found = [v for v in verdicts_of(basis(target, *overrides, config=config)) if v.name == name]
    assert len(found) == 1, [v.name for v in found]
    return found[0]


def flag(name: str, value: str) -> tuple[str, str]:
    return f"engine.flags.{name}", value


def test_the_scratch_cache_of_an_old_release_takes_399_gb() -> None:
    old = basis("h200-fp8", ("engine.version", "0.25.1"), config=NAMED)
    assert old.budget.scratch == 16384 * old.cache.block_bytes == pytest.approx(399e9, rel=0.002)
    found = verdict("scratch KV of graph profiling", "h200-fp8", ("engine.version", "0.25.1"))
    assert found.verdict == "cannot"
    assert "kv_cache_memory_bytes" in found.change
    assert worst(verdicts_of(old)) == "cannot"


def test_the_fixed_release_has_one_block_a_sequence() -> None:
    assert basis("h200-fp8").budget.scratch == 64 * basis("h200-fp8").cache.block_bytes
    assert verdict("scratch KV of graph profiling", "h200-fp8").verdict == "fits"
    many = basis("h200-fp8", flag("max_num_seqs", "1024"))
    assert many.budget.scratch == pytest.approx(24.9e9, rel=0.002)
    given_size = basis("h200-fp8", flag("kv_cache_memory_bytes", "80000000000"))
    assert given_size.budget.scratch == 0


def test_a_list_that_is_cut_in_silence_is_said_with_the_size_to_end_in() -> None:
    found = verdict("capture list", "h200-fp8")
    assert found.verdict == "tight"
    assert "12,290" in found.why
    assert "16380" in found.change


def test_a_prefix_that_loses_a_block_is_said_with_the_length_that_does_not() -> None:
    found = verdict("prefix cache", "h200-fp8")
    assert found.verdict == "tight"
    assert "6,480" in found.why
    assert "10,800 tokens reuses 8,640" in found.change
    assert "--prefix-match-unit" not in found.change  # with drafts its hits do not last
    alone = verdict(
        "prefix cache", "h200-fp8", flag("speculative_config", "{}"), ("workload.shared_prefix_tokens", "8000")
    )
    assert alone.change == "a prefix of 8,384 tokens reuses 8,384, or --prefix-match-unit"
    assert verdict("prefix cache", "vanilla").verdict == "fits"
    assert "inert" in verdict("prefix cache", "h200-fp8", ("workload.shared_prefix_tokens", "2000")).why


def test_a_match_unit_must_divide_the_block_and_suit_the_prompts() -> None:
    assert verdict("prefix cache", "h200-fp8", flag("prefix_match_unit", "60")).verdict == "fits"
    unsuited = verdict("prefix cache", "h200-fp8", flag("prefix_match_unit", "16"))
    assert (unsuited.verdict, unsuited.change) == ("tight", "another divisor of the block")
    wrong = verdict("prefix match unit", "h200-fp8", flag("prefix_match_unit", "64"))
    assert wrong.verdict == "cannot"
    assert "prefix_match_unit = 16" in wrong.change


def test_a_second_step_is_said_beside_what_it_saves_and_is_no_fault() -> None:
    found = verdict("prefill steps", "h200-fp8-fast-dummy", UNIT)
    assert (found.verdict, found.change) == ("fits", "")
    assert found.why.startswith("1,106 tokens of a prompt in 2.0 steps; 3,520 in 1.0 with no prefix_match_unit. On an")
    assert "evidence/h200/attribution-20261130" in found.why
    evidence = (REPOSITORY / "evidence/h200/attribution-20261130/README.md").read_text(encoding="utf-8")
    for words in ("1,106 | 2.0 | 70 to 99 ms", "3,520 | 1.0 | 86 to 104 ms"):
        assert words in evidence


@pytest.mark.parametrize("target", ["h200-fp8-dummy", "vanilla", "cpu", "cpu-mtp"])
def test_steps_are_not_judged_where_nothing_better_is_known(target: str) -> None:
    assert "prefill steps" not in {v.name for v in verdicts_of(basis(target))}


def test_blocks_that_were_tried_are_named() -> None:
    few = (Choice(block_size=1792, match_unit=None, computed=1040.0, steps=1.0, sequences=221.1, hits=0.9),)
    of = basis("vanilla")
    named = judged(of, tried(few))
    assert named.why == (
        "1,181 tokens of a prompt in 1.6 steps; 1,040 in 1.0 with block_size = 1792 (221 sequences of the workload fit)"
    )
    assert (named.verdict, named.change) == ("fits", "block_size = 1792")
    dearer = judged(of, tried([replace(few[0], match_unit=896, computed=2000.0)]))
    assert dearer.change == ""
    assert "with block_size = 1792, prefix_match_unit = 896 (" in dearer.why
    assert "On an H200" in dearer.why
    without = judged(basis("h200-fp8-fast-dummy", UNIT), tried(few))
    assert without.change == "block_size = 1792, no prefix_match_unit"


def test_blocks_that_take_two_steps_as_well_are_not_named() -> None:
    slow = Choice(block_size=1792, match_unit=None, computed=10.0, steps=1.1, sequences=1.0, hits=0.9)
    assert "prefill steps" not in {v.name for v in verdicts_of(basis("vanilla"), tried([slow]))}
    assert worst(verdicts_of(basis("vanilla"), tried([slow]))) == worst(verdicts_of(basis("vanilla")))


def tried(front: Sequence[Choice]) -> Blocks:
    sizes = range(1056, 2113, 16)
    return Blocks(sizes=sizes, smallest=1056, units=True, tried=700, misnaming=0, front=tuple(front), current=None)


def judged(of: Basis, blocks: Blocks) -> Verdict:
    (found,) = [v for v in verdicts_of(of, blocks) if v.name == "prefill steps"]
    return found


@pytest.mark.parametrize(
    ("name", "target", "overrides", "expected", "change"),
    [
        ("KV cache", "h200-fp8", [flag("kv_cache_memory_bytes", "1000")], "cannot", "max_model_len"),
        ("KV cache", "h200-fp8", [flag("gpu_memory_utilization", "0.25")], "cannot", "gpu_memory_utilization"),
        ("KV cache", "vanilla", [flag("kv_cache_memory_bytes", "20000000000")], "cannot", "max_num_seqs at most 924"),
        ("weights", "h200-fp8", [flag("gpu_memory_utilization", "0.2")], "cannot", "larger card"),
        ("headroom", "h200-fp8", [flag("gpu_memory_utilization", "0.995")], "tight", "gpu_memory_utilization at most"),
        ("decoding graphs", "vanilla", [], "tight", "max_num_seqs = 512"),
        ("max_num_seqs", "h200-fp8", [flag("max_num_seqs", "32")], "tight", "max_num_seqs = 60"),
        ("flags", "h200-fp8", [flag("cpu_offload_gb", "10")], "tight", "without it"),
        ("release", "h200-fp8", [("engine.version", "0.28.0")], "tight", "0.26.0"),
    ],
)
def test_each_rule_names_its_flag(
    name: str, target: str, overrides: list[tuple[str, str]], expected: str, change: str
) -> None:
    found = verdict(name, target, *overrides)
    assert found.verdict == expected
    assert change in found.change


def test_a_block_larger_than_a_step_cannot_be() -> None:
    small = [
        flag("max_num_batched_tokens", "2048"),
        flag("compilation_config.cudagraph_capture_sizes", "[5]"),
        flag("compilation_config.max_cudagraph_capture_size", "5"),
    ]
    found = verdict("block and step", "h200-fp8", *small)
    assert found.verdict == "cannot"
    assert "max_num_batched_tokens at least 2160" in found.change


def test_pieces_with_drafts_that_are_no_multiples_are_warned_of() -> None:
    found = verdict("graphs in pieces with drafts", "h200-fp8", flag("compilation_config.cudagraph_mode", "PIECEWISE"))
    assert found.verdict == "tight"


def test_an_assumed_checkpoint_is_said() -> None:
    found = verdict("checkpoint", "b200-nvfp4", config=None)
    assert "nvfp4_experts_only" in found.why
    assert "--config" in found.change


def test_fp4_on_a_card_without_it_is_no_measurement_of_it() -> None:
    found = [v for v in verdicts_of(basis("b200-nvfp4", gpu="H200")) if v.name == "FP4"]
    assert [v.verdict for v in found] == ["tight"]


def test_the_cpu_has_no_card_to_judge() -> None:
    names = {v.name for v in verdicts_of(basis("cpu"))}
    assert names == {"KV cache", "prefix cache"}


def test_the_rejection_sampler_counts_every_draft() -> None:
    settings = basis("h200-fp8").settings
    assert rejection_logits(full_size(), replace(settings, max_num_seqs=256)) == pytest.approx(1.3e9, rel=0.03)
    assert rejection_logits(full_size(), replace(settings, max_num_seqs=1024)) == pytest.approx(5.1e9, rel=0.01)
    assert rejection_logits(full_size(), basis("vanilla").settings) == 0


def _budget(of: Basis, seqs: int, tokens: int, utilization: float) -> int:
    settings = replace(
        of.settings, max_num_seqs=seqs, max_num_batched_tokens=tokens, utilization=utilization, capture_sizes=(5,)
    )
    settings = replace(settings, max_capture=None)
    return budget_of(of.model.shapes, settings, captures_of(settings), of.cache, of.card).available


@given(seqs=st.integers(1, 2000), tokens=st.integers(5, 40_000), utilization=st.floats(0.3, 0.99))
def test_what_costs_memory_leaves_less_for_the_cache(seqs: int, tokens: int, utilization: float) -> None:
    of = basis("h200-fp8")
    left = _budget(of, seqs, tokens, utilization)
    assert _budget(of, seqs + 100, tokens, utilization) <= left
    assert _budget(of, seqs, tokens + 1000, utilization) <= left
    assert _budget(of, seqs, tokens, min(utilization + 0.01, 1.0)) > left


def test_parts_add_up_to_the_share() -> None:
    budget = basis("vanilla").budget
    spent = budget.weights + budget.peak + budget.non_torch + budget.graph_pool + budget.available
    assert spent == budget.share
    assert budget.share + budget.headroom == budget.total


def test_estimates_grow_with_what_they_estimate() -> None:
    settings = basis("vanilla").settings
    assert forward_peak(full_size(), 2000) == 2 * forward_peak(full_size(), 1000)
    assert sampler_peak(full_size(), replace(settings, max_num_seqs=2048)) > sampler_peak(full_size(), settings)
    assert graph_pool(basis("h200-fp8").captures) > graph_pool(basis("h200-fp8-dummy").captures) > GIB // 2
    assert graph_pool(basis("cpu").captures) == 0


def test_the_second_model_runner_keeps_nothing_free_for_graphs() -> None:
    """`profile_cudagraph_memory` of its model_runner.py gives 0."""
    first = basis("h200-fp8-dummy").budget
    second = basis("h200-fp8-dummy", ("engine.env.VLLM_USE_V2_MODEL_RUNNER", "'1'")).budget
    assert (second.graph_pool, second.scratch) == (0, 0)
    assert second.available == first.available + first.graph_pool
