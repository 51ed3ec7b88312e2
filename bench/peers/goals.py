"""What our own client must show beside its peers. Theirs are shown, not judged."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from bench.peers.ours import NAME
from bench.peers.row import Row

ERROR_MS: Final = 1.0
"""Of every percentile of E2E and of TTFT, either way."""
CPU_S: Final = 5.0
"""Per 1,000 requests, from start to end."""
CPU_SHARE: Final = 0.1
"""Of what the best peer takes in the same round."""
IN_FLIGHT: Final = 0.01
"""By how much of what was asked for it may be off."""
FIRST_S: Final = 3.0
"""From the start of the process to its first request."""


def broken(rows: Sequence[Row]) -> list[str]:
    """The goals that our rows miss, each in a line."""
    return [line for row in rows if row.tool == NAME and row.cannot is None for line in _missed(row, rows)]


def _missed(row: Row, rows: Sequence[Row]) -> list[str]:
    where = f"{NAME}, {row.load}, round {row.round}"
    comparison = row.comparison
    if row.error is not None or comparison is None:
        return [f"{where}: {row.error}"]
    values = [
        ("E2E error", max(map(abs, comparison.e2e_error_ms)), ERROR_MS, "ms"),
        ("TTFT error", max(map(abs, comparison.ttft_error_ms)), ERROR_MS, "ms"),
        ("requests miscounted", comparison.miscounted, 0, ""),
        ("first request", row.first_s, FIRST_S, "s"),
        ("CPU per 1,000 requests", row.cpu_s, CPU_S, "s"),
    ]
    peers = [
        other.cpu_s
        for other in rows
        if other.tool != NAME and (other.load, other.round) == (row.load, row.round) and other.cpu_s is not None
    ]
    if peers:
        values.append(("CPU, against a tenth of the best peer's", row.cpu_s, CPU_SHARE * min(peers), "s"))
    if row.asked is not None:
        values.append(("in flight, off by", abs(comparison.in_flight / row.asked - 1), IN_FLIGHT, ""))
    return [
        f"{where}: {what} {value:.3g} > {limit:.3g} {unit}".rstrip()
        for what, value, limit, unit in values
        if value is not None and value > limit
    ]
