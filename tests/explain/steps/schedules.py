"""Servers whose every step is known: which replies it served, when it began, and how long it took."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from bench.observe.observations import Finished
from tests.report.factories import STEADY, healthy_observations, make_record, make_started
from tests.report.folders import Signed, signed

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from bench.observe.observations import Observation
    from bench.records import RequestRecord
    from recipes.schema import Recipe

    Floats = NDArray[np.float64]

SHORT_S, LONG_S = 0.010, 0.080
TTFT_S, END_S, LATE_S = 0.090, 0.0002, 0.0003
"""From sending to the first chunk, from the last chunk to the end, and from the intended to the real sending."""


@dataclass(frozen=True)
class Served:
    """What a server of known steps did.

    Attributes:
        records: complete replies, all in the window of run 0, point 0.
        step_s: how long each step took.
        long: which of them had a prompt.
        first: the step that ends with the first chunk of each reply.
        chunks: of each reply.
    """

    records: list[RequestRecord]
    step_s: Floats
    long: NDArray[np.bool_]
    first: list[int]
    chunks: int

    @property
    def long_gaps(self) -> int:
        """Gaps of all replies that are steps with a prompt."""
        return sum(int(self.long[first + 1 : first + self.chunks].sum()) for first in self.first)


def served(
    *,
    steps: int = 1200,
    in_flight: int = 8,
    chunks: int = 30,
    every: int = 7,
    stall: tuple[int, float] | None = None,
    seed: int = 1,
    jitter: float = 0.1,
) -> Served:
    """Replies of `chunks` chunks, `in_flight` at a time; every so many steps one computes a prompt.

    Args:
        steps: of the server.
        in_flight: replies at a time.
        chunks: of each.
        every: how often a step has a prompt; 0 for never.
        stall: (step, seconds): that step stands still for so long.
        seed: of the jitter.
        jitter: standard deviation of the logarithm of a step.
    """
    dice = np.random.default_rng(seed)
    long = np.arange(steps) % every == 0 if every else np.zeros(steps, dtype=np.bool_)
    step_s = np.where(long, LONG_S, SHORT_S) * dice.lognormal(0, jitter, steps)
    if stall is not None:
        step_s[stall[0]] = stall[1]
    starts = STEADY + 1.0 + np.concatenate(([0.0], np.cumsum(step_s)))
    records: list[RequestRecord] = []
    firsts: list[int] = []
    for seat in range(in_flight):
        for turn, first in enumerate(range(seat * 3, steps - chunks, chunks + 2)):
            stamps = starts[first + 1 : first + 1 + chunks]  # a step's chunk comes when it ends
            sent = float(stamps[0]) - TTFT_S
            records.append(
                make_record(
                    request=len(records),
                    stream=seat,
                    conversation=turn,
                    intended_s=sent - LATE_S,
                    sent_s=sent,
                    headers_s=sent,
                    first_token_s=float(stamps[0]),
                    last_token_s=float(stamps[-1]),
                    done_s=float(stamps[-1]) + END_S,
                    chunk_s=tuple(stamps.tolist()),
                    completion_tokens=chunks,
                    requested_tokens=chunks,
                    segments=((1, 64), (1000 + len(records), 36)),
                )
            )
            firsts.append(first)
    return Served(records=records, step_s=step_s, long=long, first=firsts, chunks=chunks)


def report(base: Path, records: list[RequestRecord], **more: Recipe) -> Signed:
    """A signed report of these records: those of run 0, point 0."""
    seen: list[Observation] = [
        make_started(),
        *healthy_observations(records),
        Finished(t=200.0, run=0),
    ]
    return signed(base, records, seen, **more)


def gaps_of(records: list[RequestRecord]) -> tuple[Floats, Floats]:
    """(all gaps, when each began)."""
    pairs = [pair for record in records for pair in pairwise(record.chunk_s)]
    both = np.array(pairs)
    return both[:, 1] - both[:, 0], both[:, 0]
