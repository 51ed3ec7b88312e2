"""One row: one tool, one load, one round."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from bench.peers.compare import Comparison
from bench.peers.cost import Cost
from bench.peers.tool import Counted


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What became of one start of one tool. A tool that failed or cannot do the load has a row too.

    Attributes:
        tool: its name.
        version: of it.
        load: `Load.name`.
        round: from 1.
        asked: requests in flight that were asked for; None where the load does not say.
        note: what a reader must know of its rows.
        cannot: why it cannot do this load; then it was not started.
        error: why there are no figures; None when there are.
        command: command line, with OUT for the result folder, ENV for its environment and SERVER for the address.
        seconds: from its start to its end.
        first_s: from its start until the server received its first request.
        cpu_s: CPU seconds of its process tree per 1,000 requests sent, from start to end.
        cpu_window_s: likewise only while it measured (`Comparison.window_s`): per 1,000 requests of that span.
        peak_mb: resident memory of its process tree, shared pages counted for each process.
        counted: what it says (without the tags).
        comparison: that against the truth.
    """

    tool: str
    version: str
    load: str
    round: int
    asked: int | None
    note: str = ""
    cannot: str | None = None
    error: str | None = None
    command: tuple[str, ...] = ()
    seconds: float | None = None
    first_s: float | None = None
    cpu_s: float | None = None
    cpu_window_s: float | None = None
    peak_mb: float | None = None
    counted: dict[str, Any] | None = None
    comparison: Comparison | None = None


def figures(counted: Counted, comparison: Comparison, cost: Cost, sent: int) -> dict[str, Any]:
    """The fields of a `Row` that a tool's results and cost fill; `sent` is all that the server received."""
    window_cpu = cost.cpu_between(*comparison.window_s)
    said = asdict(counted)
    del said["tags"]
    return {
        "first_s": comparison.first_s - cost.started_s,
        "cpu_s": cost.cpu_s / sent * 1000,
        "cpu_window_s": (
            None
            if window_cpu is None or not comparison.window_requests
            else window_cpu / comparison.window_requests * 1000
        ),
        "counted": said,
        "comparison": comparison,
    }
