"""Client and engine on cores of their own, where both compute on the same CPU.

An engine on the CPU takes every core that it is given, its scheduler polls, and the client's stamps then wait for the
kernel to give it a turn: 80 to 280 ms late at 6 streams on 2 cores. Kept apart, they are not.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager


def split(cores: set[int]) -> tuple[set[int], set[int]]:
    """Cores for the engine and for the client: the client gets the last one; a single core cannot be split."""
    client = {max(cores)}
    return (cores - client or cores), client


def divide(cores: set[int], engines: int) -> list[set[int]]:
    """As many cores for each of several engines, so that none is slower; all for each, where they are too few."""
    each, ordered = len(cores) // engines, sorted(cores)
    if each == 0:
        return [set(cores) for _ in range(engines)]
    return [set(ordered[number * each : (number + 1) * each]) for number in range(engines)]


@contextmanager
def confined(cores: set[int] | None) -> Iterator[None]:
    """This thread, and whatever it starts meanwhile, runs on these cores only; None changes nothing."""
    before = os.sched_getaffinity(0)
    if cores is not None:
        os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
