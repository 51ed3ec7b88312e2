"""Searches driven by a law of latency instead of a server: pure, so that hundreds of them take seconds."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from bench.explain.search.boundary import Search, Told, search
from bench.explain.search.question import Question
from bench.explain.slo.parse import parse_slo
from bench.stats.clustered import Counts
from recipes.schema import Point, TurnGap

Share: TypeAlias = Callable[[float], float]
"""A setting's value to its true share of bad requests."""


def asked(**changes: Any) -> Question:
    """How many of 1 to 64 streams hold p95 of E2E at 1 s? Begins with 4."""
    values: dict[str, Any] = {
        "slo": parse_slo("e2e:p95:1s"),
        "axis": "streams",
        "values": tuple(float(count) for count in range(1, 65)),
        "base": Point(streams=1),
        "turn_gap": TurnGap(distribution="exponential", mean_s=4.0),
        "start": 3,
        "looks": 5,
        "most_points": 60,
    }
    return Question(**(values | changes))


def lognormal(slowdown: float, *, p50_s: float = 0.3, sigma: float = 0.35, limit_s: float = 1.0) -> Share:
    """E2E is lognormal, and its median grows by the share `slowdown` with each stream."""

    def share(streams: float) -> float:
        return 0.5 * math.erfc(math.log(limit_s / (p50_s * (1 + slowdown * streams))) / sigma / math.sqrt(2))

    return share


def true_boundary(question: Question, share: Share) -> int:
    """Index of the hardest setting that holds; -1 where none does."""
    return max((k for k, value in enumerate(question.values) if share(value) <= 1 - question.slo.share), default=-1)


def drive(question: Question, share: Share, *, seed: int, requests: int = 300, keep: float = 0.0) -> Search:
    """A whole search.

    Args:
        question: what is asked.
        share: the law.
        seed: of what is drawn.
        requests: of a window.
        keep: how likely a request is like the one before, instead of drawn anew: late ones come in bursts then.
    """
    rng = np.random.default_rng(seed)
    state = Search()
    course = search(question, state)
    index = next(course, None)
    while index is not None:
        fresh = rng.random(requests) < share(question.values[index])
        anew = rng.random(requests) >= keep
        anew[0] = True
        bad = fresh[np.maximum.accumulate(np.where(anew, np.arange(requests), 0))]
        try:
            index = course.send(Told(Counts.of(bad)))
        except StopIteration:
            index = None
    return state


def inside(question: Question, state: Search, truth: int) -> bool:
    """Whether what is certified encloses the truth."""
    holds = -1 if state.holds is None else state.holds
    fails = len(question.values) if state.fails is None else state.fails
    return holds <= truth < fails
