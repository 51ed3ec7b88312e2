"""At which rate does a tool's own error pass 5 ms? A ladder of rates, climbed until it does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from bench.peers.environments import Place
from bench.peers.load import Load
from bench.peers.row import Row
from bench.peers.runner import one
from bench.peers.tool import Tool

ERROR_MS: Final = 5.0
KEPT: Final = 0.95
"""A tool that sends less than this share of the rate does not keep it."""

RATES: Final = (10.0, 20.0, 40.0, 80.0, 160.0, 320.0)
"""The default ladder. At its top the reference server writes 11,000 chunks a second, still on one core."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """Where a tool's climb ended.

    Attributes:
        tool: its name.
        good: the highest rate, requests per second, at which its E2E errors were within the limit; None: none was.
        passed: the first rate at which they were not; None: it reached the top of the ladder.
        why: what was wrong there; empty at the top.
    """

    tool: str
    good: float | None
    passed: float | None
    why: str

    @property
    def text(self) -> str:
        """For the table."""
        if self.passed is None:
            return f"{self.tool}: within {ERROR_MS:g} ms up to {self.good:g} a second, the end of the ladder"
        below = "at no rate" if self.good is None else f"up to {self.good:g} a second"
        return f"{self.tool}: within {ERROR_MS:g} ms {below}; at {self.passed:g}: {self.why}"


def markdown(limits: Sequence[Limit], *, made_on: str) -> str:
    """The limits as Markdown; `made_on` says when and on what."""
    lines = ["# The rate at which a load generator's own error passes 5 ms", "", made_on, ""]
    return "\n".join([*lines, *(f"- {found.text}" for found in limits), ""])


def climb(
    tool: Tool, place: Place | str, *, rates: Sequence[float], seconds: float, server_core: int | None
) -> Iterator[Row | Limit]:
    """Climb the ladder; every step's row, then the limit."""
    good = None
    for rate in rates:
        row = one(tool, place, Load(rate=rate, requests=round(rate * seconds)), 1, server_core=server_core)
        yield row
        why = beyond(row, rate)
        if why:
            yield Limit(tool=tool.name, good=good, passed=rate, why=why)
            return
        good = rate
    yield Limit(tool=tool.name, good=good, passed=None, why="")


def beyond(row: Row, rate: float) -> str:
    """Why a row is beyond the limit; empty when it is not."""
    comparison = row.comparison
    if comparison is None:
        return row.cannot or row.error or "no figures"
    worst = max(comparison.e2e_error_ms, key=abs)
    begin, end = comparison.window_s
    sent = comparison.window_requests / (end - begin) if end > begin else 0.0
    reasons = [f"it sent {sent:.1f} a second"] if sent < KEPT * rate else []
    reasons += [f"its E2E is {worst:+.1f} ms off"] if abs(worst) > ERROR_MS else []
    return " and ".join(reasons)
