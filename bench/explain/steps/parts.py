"""The mean reply, taken apart: the parts add up to its E2E, because each begins where the one before it ends."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from bench.explain.steps.kinds import Kinds
    from bench.explain.steps.replies import Replies

    Floats = NDArray[np.float64]
    Truths = NDArray[np.bool_]

Name: TypeAlias = Literal["client", "first token", "long", "short", "gaps", "rare", "together", "end"]
"""client: from the intended to the real sending. first token: from there to the first chunk. long, short, rare,
together: gaps between chunks, by kind; gaps: short and long where there are not two kinds. end: from the last chunk to
the last byte."""

SLOWEST: Final = 0.05
"""Share of the replies that are looked at apart: those that decide a p95."""
ENOUGH: Final = 20
"""Values that a p95 needs, and replies that have a slowest twentieth."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One part of the mean reply.

    Attributes:
        name: which.
        mean_s: seconds of it a reply.
        share: of the mean E2E.
        count: gaps of it a reply; None where it is no gaps.
        p50_s, p95_s: of one gap, or of one reply's part; p95 None where there are too few.
        slowest_s: seconds of it in each of the slowest replies; None where there are too few replies.
    """

    name: Name
    mean_s: float
    share: float
    count: float | None
    p50_s: float
    p95_s: float | None
    slowest_s: float | None


def parts_of(replies: Replies, kinds: Kinds) -> tuple[Part, ...]:
    """The parts in order of time, gaps by kind; a kind that has no gaps is left out.

    Args:
        replies: at least one.
        kinds: of their gaps.
    """
    slow = slowest(replies.e2e)
    mean = float(replies.e2e.mean())

    def plain(name: Name, each: Floats) -> Part:
        seconds = float(each.mean())
        p50_s, p95_s = _quantiles(each)
        return Part(
            name=name,
            mean_s=seconds,
            share=seconds / mean if mean else 0.0,
            count=None,
            p50_s=p50_s,
            p95_s=p95_s,
            slowest_s=None if slow is None else float(each[slow].mean()),
        )

    return (
        plain("client", replies.sent - replies.intended),
        plain("first token", replies.first - replies.sent),
        *_gaps(replies, kinds, slow, mean),
        plain("end", replies.done - replies.last),
    )


def slowest(e2e: Floats) -> Truths | None:
    """Which replies are the slowest twentieth, shape (n,); None where there are too few."""
    if len(e2e) < ENOUGH:
        return None
    which = np.zeros(len(e2e), dtype=np.bool_)
    which[np.argsort(e2e, kind="stable")[-max(1, round(SLOWEST * len(e2e))) :]] = True
    return which


def _gaps(replies: Replies, kinds: Kinds, slow: Truths | None, mean: float) -> Iterator[Part]:
    gaps, n = replies.gaps, len(replies.e2e)
    of: tuple[tuple[Name, Truths], ...] = (
        ("long", kinds.long(gaps)),
        ("short" if kinds.cut_s is not None else "gaps", kinds.short(gaps)),
        ("rare", kinds.rare(gaps)),
        ("together", kinds.together(gaps)),
    )
    for name, which in of:
        these = gaps[which]
        if not len(these):
            continue
        seconds = float(these.sum()) / n
        p50_s, p95_s = _quantiles(these)
        of_slow = None if slow is None else these[slow[replies.owners[which]]]
        yield Part(
            name=name,
            mean_s=seconds,
            share=seconds / mean if mean else 0.0,
            count=len(these) / n,
            p50_s=p50_s,
            p95_s=p95_s,
            slowest_s=None if of_slow is None or slow is None else float(of_slow.sum()) / int(slow.sum()),
        )


def _quantiles(values: Floats) -> tuple[float, float | None]:
    """(p50, p95) of at least one value."""
    p50, p95 = np.quantile(values, (0.5, 0.95))
    return float(p50), float(p95) if len(values) >= ENOUGH else None
