"""A rule about the workload: prompts never repeat between points and runs, so that no cache is warm by accident."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from bench.report.checks import Finding, together

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from bench.report.columns import Columns
    from bench.report.measurement import Measurement
    from bench.report.model import Check

_ODD: Final = np.uint64(0x9E3779B97F4A7C15)
"""2 ** 64 over the golden ratio: an odd multiplier whose multiples spread evenly (Knuth, TAOCP 3, section 6.4)."""
_MIX: Final = np.uint64(0xBF58476D1CE4E5B9)
"""The first multiplier of the splitmix64 generator's output function (Steele, Lea & Flood 2014)."""


def fresh_prompts(measurement: Measurement) -> list[Check]:
    """No prompt occurs at two points or in two runs."""
    columns = measurement.columns
    expected = "no prompt at two points or in two runs"
    prompts = prompt_hashes(columns)
    place = columns.run * len(measurement.recipe.load.ladder) + columns.point
    order = np.lexsort((place, prompts))
    prompts, place = prompts[order], place[order]
    repeated = int(((np.diff(prompts) == 0) & (np.diff(place) != 0)).sum())
    if repeated:
        finding = Finding(
            "broken",
            f"prompts that were also sent at another point or in another run: {repeated:,}",
            expected,
            "Prompts are seeded by fingerprint, run and point, and these were not: measure again with a client as it "
            "was released.",
        )
    else:
        different = 1 + int((np.diff(prompts) != 0).sum()) if len(prompts) else 0
        finding = Finding("kept", f"different prompts: {different:,}, requests: {len(prompts):,}", expected)
    return [together("prompts never repeat between points", None, {0: finding})]


def prompt_hashes(columns: Columns) -> NDArray[np.uint64]:
    """A 64-bit hash of each prompt, over its segments in order; shape (n,).

    A polynomial hash (Karp & Rabin 1987) with wrapping arithmetic, so that a million prompts need no Python loop. Among
    a million prompts two that differ have the same hash with a probability of 3e-8.
    """
    start = columns.segment_start[:-1]
    lengths = np.diff(columns.segment_start)
    position = np.arange(len(columns.segment_key)) - np.repeat(start, lengths)
    powers = np.cumprod(np.full(int(lengths.max(initial=0)) + 1, _ODD))
    value = columns.segment_key.astype(np.uint64) * _ODD + columns.segment_tokens.astype(np.uint64)
    value ^= value >> np.uint64(30)
    value *= _MIX
    value ^= value >> np.uint64(27)
    value *= powers[position]
    upto = np.concatenate((np.zeros(1, np.uint64), np.cumsum(value)))
    # Their number as well, so that a segment whose value happens to be 0 is not as good as none.
    return np.asarray(upto[columns.segment_start[1:]] - upto[start] + lengths.astype(np.uint64) * _MIX)
