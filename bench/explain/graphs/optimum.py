"""The best list of capture sizes for the steps that a run really made, exactly.

A step of n tokens replays the smallest graph of at least n tokens and computes the difference for nothing; a step of
more tokens than the largest graph has runs without one. Given a number of graphs, which sizes make padding and misses
together cheapest?

Some best list holds only sizes that a step needs, rounded up to a multiple of k + 1: lowering a size to the largest
such step below it changes no assignment and only saves padding, and a size below all of them is of no use. Over these
n candidates in order, the cost of the first i steps with j graphs, the last of which is candidate i, is

    best[j][i] = min over h < i of best[j - 1][h] + padding of the steps between h and i when padded to candidate i

and a list that ends at i costs what all steps beyond i cost without a graph. That is the one-dimensional quantization
problem, solved by dynamic programming in O(graphs x n^2) (Bruce 1965, "Optimum quantization", MIT RLE report 429).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from bench.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

MOST_GRAPHS: Final = 128
"""Sizes of the longest list that is looked for: more than any start has time to capture."""
MOST_CANDIDATES: Final = 20_000
"""Different sizes of steps; an engine makes none above its max_num_batched_tokens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Suggestion:
    """A list of capture sizes and what it would do for the observed steps.

    Attributes:
        sizes: in order.
        padded: tokens computed for nothing.
        missed: steps that would run without a graph.
        steps: all steps.
        tokens: of all steps.
        cost: padded + missed x the cost of a miss, in tokens.
    """

    sizes: tuple[int, ...]
    padded: int
    missed: int
    steps: int
    tokens: int
    cost: float

    @property
    def covered(self) -> float:
        """Share of the steps that would replay a graph."""
        return 1 - self.missed / self.steps

    @property
    def padding(self) -> float:
        """Padding as a share of the tokens of all steps."""
        return self.padded / self.tokens if self.tokens else 0.0


def best_lists(histogram: Mapping[int, int], *, most: int, step: int, miss_tokens: float) -> list[Suggestion]:
    """The best list of 1, 2, ... sizes, up to `most` or as many as can be of use.

    Args:
        histogram: tokens of a step to the number of such steps.
        most: sizes of the longest list.
        step: every size is a multiple of it: k + 1 with k draft tokens.
        miss_tokens: a step without a graph is as bad as so many padded tokens.

    Raises:
        UsageError: no steps, or numbers that cannot be.
    """
    if not histogram or min(histogram) < 1 or min(histogram.values()) < 1 or len(histogram) > MOST_CANDIDATES:
        raise UsageError("there are no steps to choose sizes for.", remedy="Take a report with cudagraph metrics.")
    if not (1 <= most <= MOST_GRAPHS and step >= 1 and miss_tokens >= 0):
        raise UsageError(
            f"{most} graphs, multiples of {step}, {miss_tokens:g} tokens a miss: no list can be chosen.",
            remedy=f"Graphs are 1 to {MOST_GRAPHS}; a miss costs 0 tokens or more.",
        )
    counts: Counter[int] = Counter()
    sums: Counter[int] = Counter()
    for tokens, count in histogram.items():
        size = -(-tokens // step) * step
        counts[size] += count
        sums[size] += tokens * count
    candidates = np.array(sorted(counts), dtype=np.int64)
    steps = np.concatenate(([0], np.cumsum([counts[int(size)] for size in candidates])))
    tokens_below = np.concatenate(([0], np.cumsum([sums[int(size)] for size in candidates])))
    return _solve(candidates, steps, tokens_below, min(most, len(candidates)), miss_tokens)


def apply(sizes: tuple[int, ...], histogram: Mapping[int, int], *, miss_tokens: float) -> Suggestion:
    """What a given list would do for the observed steps."""
    ordered = np.array(sorted(sizes), dtype=np.int64)
    padded = missed = 0
    for tokens, count in histogram.items():
        place = int(np.searchsorted(ordered, tokens))
        if place == len(ordered):
            missed += count
        else:
            padded += (int(ordered[place]) - tokens) * count
    return Suggestion(
        sizes=tuple(int(size) for size in ordered),
        padded=padded,
        missed=missed,
        steps=sum(histogram.values()),
        tokens=sum(tokens * count for tokens, count in histogram.items()),
        cost=padded + missed * miss_tokens,
    )


def enough(lists: list[Suggestion], waste: float) -> Suggestion:
    """The shortest list whose cost is within `waste` of all tokens of the best one.

    Args:
        lists: from `best_lists`, shortest first.
        waste: share of the tokens of all steps.
    """
    best = min(found.cost for found in lists)
    return next(found for found in lists if found.cost <= best + waste * found.tokens)


def _solve(
    candidates: NDArray[np.int64],
    steps: NDArray[np.int64],
    tokens_below: NDArray[np.int64],
    most: int,
    miss_tokens: float,
) -> list[Suggestion]:
    """The dynamic program.

    Args:
        candidates: sizes in order, shape (n,).
        steps: number of steps of the first i candidates, shape (n + 1,).
        tokens_below: their tokens, shape (n + 1,).
        most: sizes of the longest list, at most n.
        miss_tokens: cost of a step without a graph.
    """
    n = len(candidates)
    # best[i]: cost of the first i candidates' steps with j graphs, the last of which is candidate i - 1.
    best = np.full(n + 1, np.inf)
    best[0] = 0.0
    came_from: list[NDArray[np.int64]] = []
    beyond = (steps[n] - steps) * miss_tokens
    found = []
    for _ in range(most):
        following = np.full(n + 1, np.inf)
        origin = np.zeros(n + 1, dtype=np.int64)
        for i in range(1, n + 1):
            padding = candidates[i - 1] * (steps[i] - steps[:i]) - (tokens_below[i] - tokens_below[:i])
            costs = best[:i] + padding
            origin[i] = int(np.argmin(costs))
            following[i] = costs[origin[i]]
        came_from.append(origin)
        best = following
        end = int(np.argmin(best + beyond))
        sizes, place = [], end
        for origins in reversed(came_from):
            sizes.append(int(candidates[place - 1]))
            place = int(origins[place])
        missed = int(steps[n] - steps[end])
        found.append(
            Suggestion(
                sizes=tuple(reversed(sizes)),
                padded=round(float(best[end])),
                missed=missed,
                steps=int(steps[n]),
                tokens=int(tokens_below[n]),
                cost=float(best[end]) + missed * miss_tokens,
            )
        )
    return found
