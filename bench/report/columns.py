"""Request records as numpy columns, and the latencies in them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bench.records import Outcome

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Integers = NDArray[np.int64]
    Truths = NDArray[np.bool_]

OUTCOMES = tuple(Outcome)
"""The order of the codes in `Columns.outcome`."""


@dataclass(frozen=True, eq=False)
class Columns:
    """All records, a value each, in one order; shape (n,) everywhere. Times are seconds since the run's epoch.

    Attributes:
        point, run, stream, primed, intended, done, prompt_expected, requested: as in `bench.records.RequestRecord`.
        sent, first_token, last_token, prompt, completion, status: NaN where the record has None.
        has_finish: whether there is a finish reason.
        outcome: index in `OUTCOMES`.
        segment_start: where the segments of a record begin in the two arrays below, and past the last one; (n + 1,).
        segment_key, segment_tokens: all segments of all records.
    """

    point: Integers
    run: Integers
    stream: Integers
    primed: Truths
    intended: Floats
    sent: Floats
    first_token: Floats
    last_token: Floats
    done: Floats
    prompt_expected: Integers
    prompt: Floats
    completion: Floats
    requested: Integers
    status: Floats
    has_finish: Truths
    outcome: Integers
    segment_start: Integers
    segment_key: Integers
    segment_tokens: Integers

    @classmethod
    def of(cls, table: pa.Table) -> Columns:
        """From a table that `bench.report.table.check_values` has accepted."""

        def floats(name: str) -> Floats:
            # An empty value becomes NaN on the way.
            return np.asarray(pc.cast(table.column(name), pa.float64()).to_numpy())

        def integers(name: str) -> Integers:
            return np.asarray(pc.cast(table.column(name), pa.int64()).to_numpy())

        segments: Any = table.column("segments")
        flat = pc.list_flatten(segments)
        lengths = np.asarray(pc.list_value_length(segments).to_numpy())
        outcomes = pa.array([outcome.value for outcome in OUTCOMES])
        return cls(
            point=integers("point"),
            run=integers("run"),
            stream=integers("stream"),
            primed=np.asarray(table.column("primed").to_numpy(), dtype=np.bool_),
            intended=floats("intended_s"),
            sent=floats("sent_s"),
            first_token=floats("first_token_s"),
            last_token=floats("last_token_s"),
            done=floats("done_s"),
            prompt_expected=integers("prompt_tokens_expected"),
            prompt=floats("prompt_tokens"),
            completion=floats("completion_tokens"),
            requested=integers("requested_tokens"),
            status=floats("status"),
            has_finish=np.asarray(pc.is_valid(table.column("finish_reason")).to_numpy(), dtype=np.bool_),
            outcome=np.asarray(pc.index_in(table.column("outcome"), value_set=outcomes).to_numpy(), dtype=np.int64),
            segment_start=np.concatenate((np.zeros(1, np.int64), np.cumsum(lengths, dtype=np.int64))),
            segment_key=np.asarray(pc.struct_field(flat, "key").to_numpy()),
            segment_tokens=np.asarray(pc.struct_field(flat, "tokens").to_numpy()),
        )

    def is_(self, outcome: Outcome) -> Truths:
        """Which records ended so."""
        return np.asarray(self.outcome == OUTCOMES.index(outcome))

    @cached_property
    def ok(self) -> Truths:
        """Which replies were complete."""
        return self.is_(Outcome.OK)

    @cached_property
    def sampled(self) -> Truths:
        """Which records are latency samples: all but priming requests and those that the caller interrupted."""
        return ~self.primed & ~self.is_(Outcome.BARGE_IN)

    @cached_property
    def e2e(self) -> Floats:
        """Seconds from the intended send time to the end of a complete reply; +infinity for a failure."""
        return np.where(self.ok, self.done - self.intended, np.inf)

    @cached_property
    def ttft(self) -> Floats:
        """Seconds from the intended send time to the first token of a complete reply; +infinity for a failure."""
        return np.where(self.ok & ~np.isnan(self.first_token), self.first_token - self.intended, np.inf)

    @cached_property
    def tpot(self) -> Floats:
        """Seconds per token after the first, by usage; +infinity for a failure, NaN where a single token was asked."""
        known = self.ok & (self.completion > 1) & ~np.isnan(self.first_token) & ~np.isnan(self.last_token)
        each = (self.last_token - self.first_token) / np.where(known, self.completion - 1, 1)
        return np.where(self.requested < 2, np.nan, np.where(known, each, np.inf))
