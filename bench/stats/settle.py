"""When several settings are tested, some of them several times: certificates whose errors add up to a stated one.

A search tests a setting, looks, measures more if it cannot tell, looks again, and goes on to another setting. Each look
is a chance to be wrong. The total error is spent over settings and looks beforehand (alpha spending: Lan & DeMets 1983,
"Discrete sequential boundaries for clinical trials", Biometrika 70), in the simplest way that needs no joint
distribution: the errors of all looks add up to it (Bonferroni). How much a look may spend depends on when its setting
first became a candidate and on the number of the look, never on what it shows, so the sum bounds the chance that any
verdict of a search is wrong, however the search chooses.

Each look is then a certificate of its own (`bench.stats.certificate`): a setting either holds or does not, so only one
of the two verdicts can be wrong, and both may use the whole error of the look.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Literal, TypeAlias

from bench.stats.certificate import allowed_over, refuting_over

if TYPE_CHECKING:
    from bench.stats.clustered import Counts

Settled: TypeAlias = Literal["holds", "does not hold"]


def error_of_look(error: float, rank: int, looks: int) -> float:
    """What one look may spend.

    Candidates come in pairs, one that should hold and one that should not. Pair k gets error / (k (k + 1)), which adds
    up to the whole error over all k; its two settings share it, and so do the looks at each.

    Args:
        error: of the whole search, e.g. 0.05.
        rank: when the setting became a candidate, from 1.
        looks: the most looks at one setting.
    """
    pair = (rank + 1) // 2
    return error / (pair * (pair + 1)) / 2 / looks


def settle(counts: Counts, q: float, error: float, effect: float = 1.0) -> Settled | None:
    """Whether at least a share `q` of all requests is good.

    Args:
        counts: of all looks at the setting so far.
        q: the share asked for, e.g. 0.95.
        error: of this look.
        effect: design effect of the counts, see `bench.stats.clustered`.

    Returns:
        None where the counts prove neither.
    """
    n, bad = worth(counts, effect)
    allowed, refuting = allowed_over(n, q, 1 - error), refuting_over(n, q, 1 - error)
    if allowed is not None and math.ceil(bad) <= allowed:
        return "holds"
    if refuting is not None and math.floor(bad) >= refuting:
        return "does not hold"
    return None


def worth(counts: Counts, effect: float) -> tuple[int, float]:
    """(requests, bad ones) that as many independent requests are worth; the second may be no integer."""
    n = math.floor(counts.n / effect)
    return n, round(n * counts.share, 9)  # so that 12.000000000000002 of them are 12
