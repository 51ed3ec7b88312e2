"""The engine's own totals over a point, and what the client's records say they must be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import numpy as np

from bench.affinity import ranks_of

if TYPE_CHECKING:
    from bench.report.columns import Columns
    from bench.report.measurement import Measurement, Rows

Total: TypeAlias = Literal["requests_finished", "prompt_tokens", "generation_tokens"]
"""What client and engine both count."""

TOTALS: Final[dict[Total, str]] = {
    "requests_finished": "requests",
    "prompt_tokens": "prompt tokens",
    "generation_tokens": "reply tokens",
}
"""In words."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """What the engine must have counted, from the client's side: between `low` and `high`, both included."""

    low: int
    high: int

    @property
    def exact(self) -> bool:
        """Whether only one value is possible."""
        return self.low == self.high

    def __contains__(self, value: float) -> bool:
        return self.low <= value <= self.high

    def __str__(self) -> str:
        return f"{self.low:,}" if self.exact else f"{self.low:,} to {self.high:,}"


def increase(measurement: Measurement, run: int, point: int, counter: str) -> float | None:
    """By how much a counter of `CounterValues` grew over a point, priming and drain included; None if unknown.

    Negative when the engine was started anew in the middle.
    """
    before, after = measurement.seen.before.get((run, point)), measurement.seen.after.get((run, point))
    if before is None or after is None:
        return None
    first, last = getattr(before, counter), getattr(after, counter)
    return None if first is None or last is None else float(last - first)


def increase_by_rank(measurement: Measurement, run: int, point: int) -> tuple[float, ...] | None:
    """Requests that each rank (`bench.affinity`) finished over a point; None if unknown, or if there is only one."""
    before, after = measurement.seen.before.get((run, point)), measurement.seen.after.get((run, point))
    first, last = (None if side is None else side.finished_by_rank for side in (before, after))
    if first is None or last is None or len(first) != len(last):
        return None
    return tuple(end - begin for begin, end in zip(first, last, strict=True))


def client_finished_by_rank(measurement: Measurement, run: int, point: int) -> tuple[Bounds, ...]:
    """What each rank must have finished when every request went to the rank of its stream; bounds as below."""
    columns, rows = measurement.columns, measurement.all_of(run, point)
    ranks = ranks_of(columns.stream[rows], measurement.recipe.ranks)
    return tuple(
        _totals_of(columns, rows[ranks == rank])["requests_finished"] for rank in range(measurement.recipe.ranks)
    )


def client_totals(measurement: Measurement, run: int, point: int) -> dict[Total, Bounds]:
    """What the engine must have counted for the requests of one point of one run, priming included.

    A request whose usage arrived is known to the token. One that never reached the engine (no connection, or refused
    with a 4xx status) counts nothing. One that ended without usage (cut, timed out, cancelled, interrupted by the
    caller, a 5xx status) is somewhere between: its prompt is counted with its first token and so is certain once that
    arrived; of its reply between one token (none, if none arrived) and all that were asked for; and it counts as a
    finished request if the engine ended it before it knew that nobody listened.
    """
    return _totals_of(measurement.columns, measurement.all_of(run, point))


def _totals_of(columns: Columns, rows: Rows) -> dict[Total, Bounds]:
    prompt, completion = columns.prompt[rows], columns.completion[rows]
    status, asked, expected = columns.status[rows], columns.requested[rows], columns.prompt_expected[rows]
    known = ~np.isnan(prompt) & ~np.isnan(completion)
    refused = (status >= 400) & (status < 500)
    open_ended = ~known & ~refused & ~np.isnan(columns.sent[rows])
    begun = open_ended & ~np.isnan(columns.first_token[rows])
    finished = int(known.sum())
    prompt_low = int(prompt[known].sum()) + int(expected[begun].sum())
    reply_low = int(completion[known].sum())
    return {
        "requests_finished": Bounds(finished, finished + int(open_ended.sum())),
        "prompt_tokens": Bounds(prompt_low, prompt_low + int(expected[open_ended & ~begun].sum())),
        "generation_tokens": Bounds(reply_low + int(begun.sum()), reply_low + int(asked[open_ended].sum())),
    }
