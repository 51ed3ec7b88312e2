"""Turn gaps: how long a stream is silent between the end of a reply and its next request."""

from __future__ import annotations

import math
from collections.abc import Iterator

from bench.seeds import generator
from recipes.schema import TurnGap


def gaps(gap: TurnGap, *, seed: int, stream: int) -> Iterator[float]:
    """The gaps of one stream, seconds, without end; each stream has its own generator.

    Exponential: a memoryless caller. Lognormal: its logarithm has the standard deviation `sigma` and the mean
    log(mean) - sigma^2 / 2, which gives the gap the mean asked for. Fixed: the mean itself.
    """
    random = generator(seed, "gap", stream)
    mean, sigma = gap.mean_s, gap.sigma or 0.0
    center = math.log(mean) - sigma * sigma / 2
    while True:
        match gap.distribution:
            case "fixed":
                yield mean
            case "exponential":
                yield random.expovariate(1 / mean)
            case "lognormal":
                yield random.lognormvariate(center, sigma)


def opening(stream: int, streams: int, ramp_s: float) -> float:
    """When a stream opens, seconds after the ramp began: the streams open evenly over it, the first one at once."""
    return ramp_s * stream / streams


def most_turns(gap: TurnGap, *, seed: int, stream: int, open_s: float) -> int:
    """The most turns that a stream can need in its first `open_s` seconds: as if every reply were instant."""
    turns, at_s = 1, 0.0
    for silence in gaps(gap, seed=seed, stream=stream):
        at_s += silence
        if at_s >= open_s:
            break
        turns += 1
    return turns
