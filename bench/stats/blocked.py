"""Differences between treatments that were each tried once in every block.

A block holds one run of every treatment in random order, so what changes slowly (a warming room, a neighbour's work)
falls on all of them alike: the randomized complete block design (Fisher 1935, "The Design of Experiments", chapter 4;
Montgomery 2017, "Design and Analysis of Experiments", 9th ed., section 4.1). What blocks and treatments do not explain
is chance. Its variance is estimated from all runs together, with (blocks - 1)(treatments - 1) degrees of freedom, which
takes it as the same for every treatment: on logarithms of latencies that is the same share of each.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bench.stats.student import student

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Contrast:
    """A weighted sum of treatment means with its interval; None for the ends where nothing tells the chance."""

    value: float
    low: float | None
    high: float | None
    confidence: float


@dataclass(frozen=True, slots=True, eq=False)
class Blocked:
    """The figures of an experiment.

    Attributes:
        figures: shape (treatments, blocks), finite.
    """

    figures: NDArray[np.float64]

    @property
    def degrees(self) -> int:
        """Of freedom of the chance: 0 with a single block or treatment."""
        return (len(self.figures) - 1) * (len(self.figures[0]) - 1)

    @property
    def variance(self) -> float:
        """Of one figure, beyond its treatment and its block; 0.0 without degrees of freedom."""
        if not self.degrees:
            return 0.0
        rows, columns = self.figures.mean(axis=1, keepdims=True), self.figures.mean(axis=0, keepdims=True)
        rest = self.figures - rows - columns + self.figures.mean()
        return float((rest**2).sum()) / self.degrees

    def contrast(self, weights: Mapping[int, float], confidence: float) -> Contrast:
        """The sum of treatment means times weights.

        Args:
            weights: by treatment; they add up to 0, so that block effects fall out.
            confidence: of the interval.
        """
        means = self.figures.mean(axis=1)
        value = math.fsum(weight * float(means[row]) for row, weight in weights.items())
        if not self.degrees:
            return Contrast(value, None, None, confidence)
        squares = math.fsum(weight**2 for weight in weights.values())
        half = student(confidence, self.degrees) * math.sqrt(self.variance * squares / self.figures.shape[1])
        return Contrast(value, value - half, value + half, confidence)
