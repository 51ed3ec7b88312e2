"""Is at least a share q of all requests within a limit? What n requests, of which m were over it, can prove.

If a share of more than 1 - q were over the limit, then m or fewer out of n would be seen with a probability of at most
P(Binomial(n, 1 - q) <= m). Where that is at most 1 - confidence, the limit is certified (Clopper & Pearson 1934, "The
use of confidence or fiducial limits", Biometrika 26; as sample sizes for tolerance limits: Wilks 1941, Annals of
Mathematical Statistics 12). The same bound from the other side refutes: so many were over it that a share of q within
the limit is as improbable. Between the two, n requests cannot tell.
"""

from __future__ import annotations

import math
from typing import Final

from bench.stats.binomial import largest_count

CERTIFICATE_CONFIDENCE: Final = 0.99
"""A report judges a handful of claims at once: at 99 % each, a report with five of them is right about all of them 95
times in 100. And a certificate is what others build on: it may cost some hundred requests more than an error bar."""


def allowed_over(n: int, q: float, confidence: float = CERTIFICATE_CONFIDENCE) -> int | None:
    """The most of n requests that may be over the limit with the limit still certified.

    For q = 0.95 at 99 %: 1 of 130, 6 of 300, 17 of 600, 34 of 1000.

    Returns:
        The count, or None where n is too small to certify anything (below 90 for q = 0.95 at 99 %).
    """
    return largest_count(n, 1 - q, 1 - confidence)


def refuting_over(n: int, q: float, confidence: float = CERTIFICATE_CONFIDENCE) -> int | None:
    """The fewest of n requests over the limit that refute it: P(Binomial(n, 1 - q) >= count) <= 1 - confidence.

    Returns:
        The count, or None where n is too small to refute anything.
    """
    within = largest_count(n, q, 1 - confidence)
    return None if within is None else n - within


def smallest_certifiable(q: float, confidence: float = CERTIFICATE_CONFIDENCE) -> int:
    """The fewest requests that can certify a limit, with none over it: the smallest n with q ** n <= 1 - confidence."""
    return math.ceil(math.log(1 - confidence) / math.log(q))
