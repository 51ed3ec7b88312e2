"""The best curve that never falls: isotonic regression by pool-adjacent-violators.

Of all non-decreasing sequences it is the one with the smallest weighted sum of squares (Barlow, Bartholomew, Bremner &
Brunk 1972, "Statistical Inference under Order Restrictions", section 1.2; Ayer et al. 1955, Annals of Mathematical
Statistics 26), and for shares with their counts as weights it is also the maximum of the binomial likelihood. It
assumes the order and nothing else: no shape, no smoothness.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def isotonic(values: Sequence[float], weights: Sequence[float]) -> tuple[float, ...]:
    """The non-decreasing fit.

    Args:
        values: finite, in order of what they should not fall with, shape (n,).
        weights: of each, above 0, shape (n,).

    Returns:
        The fitted values, shape (n,).

    Raises:
        ValueError: other lengths, or a weight that is not above 0.
    """
    if len(values) != len(weights) or any(weight <= 0 for weight in weights):
        raise ValueError("isotonic needs a weight above 0 for each value")
    blocks: list[tuple[float, float, int]] = []  # mean, weight, how many values
    for value, weight in zip(values, weights, strict=True):
        mean, heavy, many = float(value), float(weight), 1
        while blocks and blocks[-1][0] > mean:
            before, its, members = blocks.pop()
            mean = (before * its + mean * heavy) / (its + heavy)
            heavy, many = its + heavy, members + many
        blocks.append((mean, heavy, many))
    return tuple(mean for mean, _, many in blocks for _ in range(many))
