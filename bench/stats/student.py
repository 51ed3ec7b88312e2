"""Student's t: how far a mean of few values may be off when their spread is known from these few values only.

"Student" 1908, "The probable error of a mean", Biometrika 6. The distribution is summed by the finite series for whole
degrees of freedom of Abramowitz & Stegun 1964, "Handbook of Mathematical Functions", 26.7.3 and 26.7.4.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Final

MOST_DEGREES: Final = 1000
"""Beyond this the distribution no longer moves; fewer degrees of freedom than there are only widen an interval."""


@lru_cache(maxsize=4096)
def student(confidence: float, degrees: int) -> float:
    """The t within which |T| lies with a chance of `confidence`, e.g. 2.776 at 95 % and 4 degrees of freedom.

    Args:
        confidence: in (0, 1).
        degrees: of freedom, 1 or more; whole: round what is not whole down.

    Raises:
        ValueError: an argument outside its range.
    """
    if degrees < 1 or not 0 < confidence < 1:
        raise ValueError(f"student needs a confidence in (0, 1) and one degree of freedom or more: {degrees}")
    degrees = min(degrees, MOST_DEGREES)
    low, high = 0.0, math.pi / 2
    for _ in range(80):  # bisection of the angle: t itself has no upper end
        middle = (low + high) / 2
        low, high = (middle, high) if _within(middle, degrees) < confidence else (low, middle)
    return math.tan(low) * math.sqrt(degrees)


def _within(angle: float, degrees: int) -> float:
    """P(|T| <= t) for t = tan(angle) * sqrt(degrees)."""
    cosine = math.cos(angle)
    odd = degrees % 2 == 1
    total, term = 0.0, cosine if odd else 1.0
    for power in range(1 if odd else 0, degrees - 1, 2):
        total += term
        term *= cosine * cosine * (power + 1) / (power + 2)
    return (angle + math.sin(angle) * total) * 2 / math.pi if odd else math.sin(angle) * total
