from __future__ import annotations

import struct
from collections import Counter
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.seeds import generator
from bench.stats.moved import FEWEST_TOKENS, NEAR, Moved, distance, moved

if TYPE_CHECKING:
    import random
    from collections.abc import Sequence

K = 20
TOKENS = 40
"""Of a vocabulary, the only ones that may be among the K most likely."""
VOCABULARY = 248_320
SPREAD = 0.026
"""Of logits under vLLM's dummy weights, hidden size 2048: sqrt(2048) * 1e-3 / sqrt(3)."""
LOGITS = [1.18, *(SPREAD * NormalDist().inv_cdf(1 - (at + 0.5) / VOCABULARY) for at in range(TOKENS))]
"""The last token's own, and the largest of so many normal deviates."""

figures = st.lists(st.floats(-20, 0, allow_subnormal=False), min_size=6, max_size=6)


def row(values: list[float], first: int = 1, leading: float = 0.0) -> dict[int, float]:
    """Values of consecutive tokens, behind one that leads."""
    return {0: leading} | {first + at: value for at, value in enumerate(values)}


def judged(
    mine: dict[int, float], others: dict[int, float], after: dict[int, float], *, again: dict[int, float] | None = None
) -> Moved:
    return moved(
        mine, after, apart=[(mine, others)], repeats=[(mine, mine if again is None else again)], others=[others]
    )


MINE = [-6.0, -6.1, -6.2, -6.3, -6.4, -6.5]
OTHERS = [-6.2, -6.0, -6.4, -6.2, -6.6, -6.4]
"""Each token moved by 0.2 down or 0.1 up, in turns: the median is in the middle, every token is 0.15 from it."""


def between(share: float) -> list[float]:
    return [mine + share * (other - mine) for mine, other in zip(MINE, OTHERS, strict=True)]


@pytest.mark.parametrize(
    ("share", "says"),
    [
        (0.0, "same"),
        (0.24, "same"),
        (0.26, "unknown"),
        (0.74, "unknown"),
        (0.76, "different"),
        (1.0, "different"),
        (1.6, "different"),
        (-0.26, "unknown"),
        (-1.0, "unknown"),
    ],
)
def test_by_hand(share: float, says: str) -> None:
    outcome = judged(row(MINE), row(OTHERS), row(between(share)))
    assert outcome.says == says
    assert outcome.apart == pytest.approx(0.15)
    assert outcome.by == pytest.approx(0.15 * abs(share))
    assert outcome.share == pytest.approx(share)
    assert (outcome.tokens, outcome.rounding, outcome.clear) == (6, 0.0, True)


def test_what_all_log_probabilities_have_in_common_is_no_movement() -> None:
    assert judged(row(MINE), row(OTHERS), row([value + 3.0 for value in MINE])).by == pytest.approx(0.0)
    assert not judged(row(MINE), row([value + 3.0 for value in MINE]), row(MINE)).clear


def test_the_leading_token_is_left_out() -> None:
    assert judged(row(MINE), row(OTHERS), row(MINE, leading=-0.5)).says == "same"
    assert not judged(row(MINE), row(MINE, leading=-0.5), row(MINE)).clear


def test_a_prompt_that_is_not_four_times_as_far_away_as_repeats_is_not_told_apart() -> None:
    for share, clear in ((0.9 * NEAR, True), (1.1 * NEAR, False)):
        outcome = judged(row(MINE), row(OTHERS), row(MINE), again=row(between(share)))
        assert (outcome.clear, outcome.says) == (clear, "same" if clear else "unknown")
        assert outcome.rounding == pytest.approx(0.15 * share)


def test_steps_of_float32_tell_nothing() -> None:
    step = 2.0**-21  # of values in [4, 8)
    for steps, clear in ((2, False), (16, True)):
        near = [value + steps * step * (-1) ** at for at, value in enumerate(MINE)]
        assert judged(row(MINE), row(near), row(MINE)).clear is clear


def test_too_few_tokens_tell_nothing() -> None:
    few = FEWEST_TOKENS - 1
    assert judged(row(MINE[:few]), row(OTHERS[:few]), row(MINE[:few])).says == "unknown"
    assert judged(row(MINE[: few + 1]), row(OTHERS[: few + 1]), row(MINE[: few + 1])).says == "same"


def test_single_tokens_next_to_a_step_of_the_grid_are_no_other_prompt() -> None:
    """They do show that equal rows are equal, where nothing rounds; rounding could move them just as far."""
    base = [-6 - at / 100 for at in range(19)]
    step = [value + (2.0**-11 if at < 6 else 0.0) for at, value in enumerate(base)]
    assert judged(row(base), row(step), row(base)).says == "same"
    assert judged(row(base), row(step), row(step)).says == "unknown"


def test_one_token_that_outweighs_all_others_is_no_other_prompt() -> None:
    base = [-6 - at / 100 for at in range(19)]
    one = [value + (0.5 if at == 9 else 0.001 * (-1) ** at) for at, value in enumerate(base)]
    assert judged(row(base), row(one), row(one)).says == "unknown"


def test_the_same_distribution_told_with_another_token_at_a_tie_of_the_last_place() -> None:
    here = row([*MINE, -6.5])
    there = {**row(MINE), 99: -6.5}
    assert judged(here, row(OTHERS), there).by == 0.0


def test_a_row_that_names_more_tokens_is_cut_to_the_length_of_the_others() -> None:
    assert judged(row(MINE), row(OTHERS), {**row(MINE), 99: -9.0, 98: -9.5}).by == 0.0
    assert judged({**row(MINE), 99: -9.0}, row(OTHERS), row(between(0.5))).by == pytest.approx(
        judged(row(MINE), row(OTHERS), {**row(between(0.5)), 99: -9.0}).by
    )


def test_nothing_is_the_same_that_is_not_near_by_every_pair() -> None:
    """The cache may hold less of a difference than the prompts have."""
    close = row(between(0.1))
    mine, others, after = row(MINE), row(OTHERS), row(between(0.05))
    pairs = [(mine, others), (mine, close)]
    assert moved(mine, after, apart=pairs[:1], repeats=[(mine, mine)], others=[others]).says == "same"
    assert moved(mine, after, apart=pairs, repeats=[(mine, mine)], others=[others]).says == "unknown"


@given(figures, figures, figures)
def test_distances_obey_the_triangle_inequality(one: list[float], two: list[float], three: list[float]) -> None:
    assert distance(one, three) <= distance(one, two) + distance(two, three) + 1e-12
    assert distance(one, two) == distance(two, one)
    assert distance(one, one) == 0.0


@given(st.lists(st.floats(-9, 0), min_size=12, max_size=12), st.lists(st.floats(-1, 1), min_size=12, max_size=12))
def test_no_distance_is_more_than_the_most_that_a_log_probability_moved(before: list[float], by: list[float]) -> None:
    """Of the whole vocabulary, of which rows name half."""

    def listed(values: list[float]) -> dict[int, float]:
        return {at: values[at] for at in sorted(range(12), key=lambda at: -values[at])[:6]}

    after = [value + way for value, way in zip(before, by, strict=True)]
    outcome = judged(listed(before), listed(after), listed(after))
    assert outcome.by <= max(map(abs, by)) + 1e-12


@given(figures, figures, figures, figures)
def test_no_verdict_depends_on_the_order_of_tokens_and_none_is_two(
    one: list[float], two: list[float], three: list[float], four: list[float]
) -> None:
    turned = [list(reversed(values)) for values in (one, two, three, four)]
    there = judged(row(one), row(two), row(three), again=row(four))
    back = judged(row(turned[0]), row(turned[1]), row(turned[2]), again=row(turned[3]))
    assert there.says == back.says
    if there.says == "different":
        assert there.by >= (1 - 2 * NEAR) * there.apart


@dataclass(frozen=True)
class Engine:
    """A made-up engine whose logits lie on BF16's grid, or do not.

    Attributes:
        apart: standard deviation of what another prompt moves a logit by, nats.
        rounding: of what each request does.
        path: of what being computed from the first token does, to each prompt.
        leak: share of the other prompt's state that A has after B, or from the cache.
        bf16: whether logits are rounded to BF16.
        two_ways: standard deviation of what every second request, at random, moves them by in one and the same way.
    """

    apart: float
    rounding: float
    path: float
    leak: float = 0.0
    bf16: bool = True
    two_ways: float = 0.0

    def verdicts(self, *, cached: bool, times: int = 100) -> Counter[str]:
        """Of so many agents, each with other prompts."""
        drawn = generator(repr(self), str(cached))
        return Counter(self._verdict(drawn, cached=cached) for _ in range(times))

    def _verdict(self, drawn: random.Random, *, cached: bool) -> str:

        def deviates(scale: float) -> list[float]:
            return [drawn.gauss(0, scale) for _ in LOGITS]

        nothing, second_way = [0.0] * len(LOGITS), deviates(self.two_ways)
        other, cold_a, cold_b = deviates(self.apart), deviates(self.path), deviates(self.path)

        def told(share: float, path: Sequence[float] = nothing) -> dict[int, float]:
            way = second_way if self.two_ways and drawn.random() < 0.5 else nothing
            parts = zip(LOGITS, other, path, way, deviates(self.rounding), strict=True)
            logits = [base + share * towards + sum(rest) for base, towards, *rest in parts]
            if self.bf16:
                logits = to_bf16(logits)
            common = 12.42 + drawn.gauss(0, 1e-6)
            best = sorted(range(len(logits)), key=lambda at: -logits[at])[:K]
            return dict(zip(best, to_float32([logits[at] - common for at in best]), strict=True))

        a1, a2 = (told(self.leak if cached else 0.0) for _ in range(2))
        b, b0, a3, a0 = told(1.0), told(1.0, cold_b), told(self.leak), told(0.0, cold_a)
        # As after the ladder.
        repeats = [(a1, a2), (told(0.0), told(0.0)), (a0, told(0.0, cold_a)), (b0, told(1.0, cold_b))]
        if cached:
            return moved(a0, a2, apart=[(a0, b0)], repeats=repeats, others=[b0]).says
        return moved(a2, a3, apart=[(a0, b0), (a2, b)], repeats=repeats, others=[b, b0]).says


def to_float32(values: list[float]) -> list[float]:
    layout = f"<{len(values)}f"
    return list(struct.unpack(layout, struct.pack(layout, *values)))


def to_bf16(values: list[float]) -> list[float]:
    floats, words = f"<{len(values)}f", f"<{len(values)}I"
    bits = struct.unpack(words, struct.pack(floats, *values))
    return list(struct.unpack(floats, struct.pack(words, *((each + 0x8000) & 0xFFFF0000 for each in bits))))


@pytest.mark.parametrize("cached", [False, True], ids=["repeated", "cached"])
@pytest.mark.parametrize("bf16", [True, False], ids=["bf16", "float32"])
@pytest.mark.parametrize(
    ("apart", "rounding", "path"),
    [
        (0.0, 1e-4, 1e-4),  # another prompt does nothing: all is rounding
        (0.0, 1e-5, 1e-5),
        (0.0, 0.0, 1e-3),
        (2e-5, 2e-5, 2e-5),
        (1e-4, 1e-4, 1e-4),
        (1e-4, 1e-5, 1e-3),  # another path does more than another prompt
        (1e-3, 5e-4, 5e-4),
        (1e-3, 1e-4, 1e-3),
        (1e-3, 1e-4, 2e-3),
    ],
)
def test_rounding_is_never_taken_for_another_prompt(
    apart: float, rounding: float, path: float, *, bf16: bool, cached: bool
) -> None:
    verdicts = Engine(apart, rounding, path, bf16=bf16).verdicts(cached=cached)
    assert verdicts["different"] == 0


@pytest.mark.parametrize("cached", [False, True], ids=["repeated", "cached"])
@pytest.mark.parametrize("bf16", [True, False], ids=["bf16", "float32"])
@pytest.mark.parametrize(
    ("apart", "rounding", "path", "least"),
    [(1e-3, 0.0, 0.0, 95), (1e-3, 5e-5, 5e-5, 85), (2e-3, 1e-4, 1e-4, 95), (2e-2, 1e-4, 1e-4, 100)],
)
def test_what_is_told_apart_is_decided_both_ways(
    apart: float, rounding: float, path: float, least: int, *, bf16: bool, cached: bool
) -> None:
    """Of 100: the same where nothing leaks, different where all does, neither where half does."""

    def verdicts(leak: float) -> Counter[str]:
        return Engine(apart, rounding, path, leak, bf16=bf16).verdicts(cached=cached)

    nothing, half, everything = verdicts(0.0), verdicts(0.5), verdicts(1.0)
    assert nothing["same"] >= least
    assert nothing["different"] == 0
    assert half["unknown"] >= least
    assert everything["different"] >= least
    assert everything["same"] == 0


@pytest.mark.parametrize("leak", [0.0, 1.0])
def test_below_the_grid_another_prompt_is_not_found_and_equal_rows_are_seldom_called_the_same(leak: float) -> None:
    """Where another prompt moves a logit by a twentieth of a step, and so does rounding."""
    verdicts = Engine(2e-5, 2e-5, 2e-5, leak).verdicts(cached=False)
    assert verdicts["different"] == 0
    assert verdicts["unknown"] >= 75


@pytest.mark.parametrize("cached", [False, True], ids=["repeated", "cached"])
@pytest.mark.parametrize(("apart", "most"), [(0.0, 25), (1e-3, 0)])
def test_an_engine_that_rounds_in_two_ways_each_as_often_is_the_worst_case(
    apart: float, most: int, *, cached: bool
) -> None:
    """Of 1000. Where a prompt does nothing, four repeats must agree by chance, and A's and B's rows fall apart, then
    together: one in 64 from the cache, three in 256 again. Where it does more than a quarter of that, that is not B's
    row."""
    verdicts = Engine(apart, 0.0, 0.0, two_ways=2e-3).verdicts(cached=cached, times=1000)
    assert verdicts["different"] <= most
    assert verdicts["unknown"] >= 900
