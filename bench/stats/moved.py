"""How far log-probabilities moved between two requests, and whether they moved to those of another prompt.

A **row** is what an engine tells of one place: its K most likely tokens with their log-probabilities. Two rows need not
name the same tokens. A token that a row does not name is at most as likely as the last one that it names, and is given
that value: so a completed row is the log-probabilities of the whole vocabulary, cut off from below at their K-th
largest (K of the shortest row, should they differ). Cutting off never adds to a movement: where no log-probability
moves by more than m, neither does the K-th largest (K of them stay above it less m), and max(x, c) moves by no more
than the further of x and c. Where the same distribution is told with other tokens at a tie of the last places, the
completed rows are equal.

**Distance** of two rows: over the tokens that any row of one judgement names, the mean absolute difference of the
completed rows, less what all differences have in common (the constant that makes it least: their median). What logits
have in common says nothing of the tokens; the softmax takes it out. This is a norm of the difference (of L1, modulo
constants), so the triangle inequality holds between all rows of a judgement, and it is at most the largest movement of
any log-probability. A mean, because BF16 logits lie on a grid: single tokens move by whole steps of it or not at all.

Tokens that lead a row are left out. It takes equal replies to ask for rows at all, so that they say little; and a logit
that stands out lies on a coarser grid: with vLLM's dummy weights the output head has the values of the embedding, so
the last token's own logit is 2048 * 1e-6 / 3 / 5.8e-4 = 1.2 where the others spread by 0.03, and one step of it, 2^-7,
would outweigh nineteen others of 2^-11.

**Judgement**: the same if the movement is a quarter of the way to the other prompt at most; another one if it ends
within a quarter of that from the other prompt's row, or beyond it in the same direction; unknown in between, and
elsewhere. It follows from the triangle inequality that no movement is both. `tests/stats/test_moved.py` simulates how
often each is said, for stated rounding on BF16's grid and without it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import chain
from statistics import median
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Row: TypeAlias = "Mapping[int, float]"
"""Token to log-probability, in nats."""

NEAR: Final = 0.25
"""Of the distance between the two prompts. The same limit holds for the rounding that repeats show: a prompt that is
not four times as far away as that is not told apart."""
FEWEST_TOKENS: Final = 5
"""That the distance between two prompts is spread over, before moving to the other one's row is called that: one or two
tokens next to a step of the grid are moved by rounding as easily as by another prompt."""
FLOAT_STEPS: Final = 4
"""Of float32, which log-probabilities are computed in: distances below are not told from 0."""


@dataclass(frozen=True, slots=True)
class Moved:
    """What became of a row.

    Attributes:
        says: "same", "different" (it moved to the other prompt's), or "unknown".
        by: distance that it moved, nats.
        apart: distance between the two prompts, nats.
        rounding: largest distance between repeats, nats.
        share: of the way to the other prompt's row that it moved, by least squares; 0 where there is no way.
        tokens: compared.
        clear: whether the prompts can be told apart at all.
    """

    says: Literal["same", "different", "unknown"]
    by: float
    apart: float
    rounding: float
    share: float
    tokens: int
    clear: bool


def moved(
    first: Row,
    second: Row,
    *,
    apart: Sequence[tuple[Row, Row]],
    repeats: Sequence[tuple[Row, Row]],
    others: Sequence[Row],
) -> Moved:
    """Judges the way from one row to another of the same prompt.

    Args:
        first: the row before; as all rows here, of one token at least.
        second: the row after it.
        apart: pairs of a row of this prompt and one of another prompt, each pair computed in one way; the first pair
            such that neither can have reached the other. Nothing is the same that is not near by all of them.
        repeats: pairs of this prompt's rows that nothing but rounding can set apart.
        others: rows of the other prompt, to which `second` may have moved; in all ways that may have been its own.
    """
    rows = [first, second, *chain.from_iterable([*apart, *repeats]), *others]
    tokens, resolution = _tokens(rows)
    fewest = min(map(len, rows))

    def completed(row: Row) -> list[float]:
        last = sorted(row.values())[-fewest]
        return [max(row.get(token, last), last) for token in tokens]

    def gap(pair: tuple[Row, Row]) -> float:
        return distance(completed(pair[0]), completed(pair[1]))

    here, there = completed(first), completed(second)
    by, wide, least = distance(here, there), gap(apart[0]), min(map(gap, apart))
    rounding = max(map(gap, repeats))

    def told_apart(far: float) -> bool:
        return len(tokens) >= FEWEST_TOKENS and far >= resolution and NEAR * far >= rounding

    ways = [completed(other) for other in others]
    says: Literal["same", "different", "unknown"] = "unknown"
    if told_apart(least) and by <= NEAR * least:
        says = "same"
    elif (
        told_apart(wide)
        and _whole(completed(apart[0][0]), completed(apart[0][1]), resolution)
        and any(_reached(here, there, way, wide) for way in ways)
    ):
        says = "different"
    share = max(_share(here, there, way) for way in ways)
    return Moved(says, by, least, rounding, share, len(tokens), told_apart(least))


def distance(one: Sequence[float], other: Sequence[float]) -> float:
    """Mean absolute difference of two completed rows, less what the differences have in common; nats."""
    return _mean([abs(each) for each in _ways(one, other)])


def _tokens(rows: Sequence[Row]) -> tuple[list[int], float]:
    """What to compare, named by any row and leading none; and what a distance is told from 0 by.

    The latter are some steps of float32 (24 significant bits) at the largest log-probability.
    """
    leading = {max(row, key=row.__getitem__) for row in rows}
    largest = max(abs(figure) for row in rows for figure in row.values())
    return sorted(set().union(*rows) - leading), FLOAT_STEPS * math.ldexp(1.0, math.frexp(largest)[1] - 24)


def _ways(one: Sequence[float], other: Sequence[float]) -> list[float]:
    """What each token moved by, less the median."""
    ways = [b - a for a, b in zip(one, other, strict=True)]
    common = median(ways) if ways else 0.0
    return [way - common for way in ways]


def _whole(one: Sequence[float], other: Sequence[float], resolution: float) -> bool:
    """Whether a distance is more than single tokens that crossed a step of the grid, or one that outweighs the others.

    The mean is a step at least, the smallest movement that there is; and it is spread over enough tokens, by Kish's
    effective sample size (1965), (sum |w|)^2 / sum w^2: k tokens that moved by the same amount give k, one that moved
    by much more than all others gives 1.
    """
    ways = [abs(way) for way in _ways(one, other)]
    steps = [way for way in ways if way > resolution]
    if not steps or _mean(ways) < min(steps):
        return False
    return math.fsum(ways) ** 2 >= FEWEST_TOKENS * math.fsum(way * way for way in ways)


def _share(here: Sequence[float], there: Sequence[float], other: Sequence[float]) -> float:
    """Of the way from `here` to `other` that `there` went along it, by least squares."""
    went, way = _ways(here, there), _ways(here, other)
    length = math.fsum(each * each for each in way)
    return math.fsum(a * b for a, b in zip(went, way, strict=True)) / length if length else 0.0


def _reached(here: Sequence[float], there: Sequence[float], other: Sequence[float], wide: float) -> bool:
    """Whether the way from `here` to `there`, of a length that matters, ends at `other` or beyond it."""
    beyond = max(1.0, _share(here, there, other))
    goal = [a + beyond * (b - a) for a, b in zip(here, other, strict=True)]
    return distance(here, other) >= (1 - NEAR) * wide and distance(goal, there) <= NEAR * wide


def _mean(figures: Sequence[float]) -> float:
    return math.fsum(figures) / len(figures) if figures else 0.0
