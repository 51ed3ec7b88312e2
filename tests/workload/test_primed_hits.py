"""Priming every prefix twice leaves no doubt about later hits, also where these end inside blocks."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from bench.workload.prefix_cache_bounds import ServedPrompt, predict_served
from bench.workload.prefix_cache_rules import CacheRules
from bench.workload.tokens import CheckpointTokenizer
from bench.workload.voice import VoiceWorkload
from quantize.checkpoint import TOY
from recipes.load import load_recipe

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bench.workload.turn import Turn

BLOCK = 2160
"""Of the recipe on its card, measured."""


@pytest.fixture(scope="module")
def source() -> VoiceWorkload:
    spec = load_recipe("h200-fp8-fast-dummy").workload
    return VoiceWorkload(spec, tokenizer=CheckpointTokenizer.from_folder(TOY), model="m", seed=("primed",))


def served(turn: Turn, start_s: float, end_s: float) -> ServedPrompt:
    return ServedPrompt(
        segments=turn.segments, output_tokens=turn.output_tokens, start_s=start_s, end_s=end_s, complete=True
    )


def side_by_side(source: VoiceWorkload, primes: Sequence[Turn]) -> Iterator[ServedPrompt]:
    """The primes one after another, then 20 streams whose requests overlap as chance has it."""
    for number, prime in enumerate(primes):
        yield served(prime, number - 100, number - 99.5)
    rng = random.Random(7)  # noqa: S311  reproducibility is the point
    for stream in range(20):
        now = rng.random() * 5
        for turn in source.call(stream, 0).turns:
            end = now + rng.uniform(0.3, 0.9)
            yield served(turn, now, end)
            now = end + rng.expovariate(0.5)


@pytest.mark.parametrize(("unit", "first_hit"), [(None, 6480), (60, 8640)])
def test_hits_behind_two_primes_are_certain(source: VoiceWorkload, unit: int | None, first_hit: int) -> None:
    rules = CacheRules(block_size=BLOCK, hybrid=True, chunk_tokens=4100, draft_tokens=4, match_unit=unit)
    primes = source.primes()
    predictions = predict_served(list(side_by_side(source, primes)), rules)
    assert all(each.least == each.expected == each.most for each in predictions)
    assert min(each.expected for each in predictions[len(primes) :]) == first_hit


def test_one_prime_alone_leaves_doubt_where_hits_end_inside_blocks(source: VoiceWorkload) -> None:
    """Which of several first calls finds the state, and which leaves it, is the engine's order."""
    rules = CacheRules(block_size=BLOCK, hybrid=True, chunk_tokens=4100, draft_tokens=4, match_unit=60)
    once = source.primes()[: len(source.spec.agents)]
    predictions = predict_served(list(side_by_side(source, once)), rules)
    assert any(each.least < each.most for each in predictions)
    assert min(each.expected for each in predictions[len(once) :]) == 6480
