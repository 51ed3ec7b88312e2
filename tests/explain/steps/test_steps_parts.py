"""The parts of a reply: known ones are found, and they add up."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.errors import StreamproofError
from bench.explain.steps.kinds import kinds_of
from bench.explain.steps.parts import parts_of, slowest
from bench.explain.steps.replies import Replies, replies_of
from bench.records import RequestRecord
from bench.report.columns import Columns
from bench.report.table import table_of
from tests.explain.steps.schedules import END_S, LATE_S, LONG_S, SHORT_S, TTFT_S, served
from tests.report.factories import make_record


def replies(records: list[RequestRecord]) -> Replies:
    table = table_of(records)
    return replies_of(Columns.of(table), table.column("chunk_s"), np.arange(len(records)))


@settings(deadline=None, max_examples=40)
@given(
    seed=st.integers(0, 2**32 - 1),
    every=st.sampled_from([0, 2, 5, 11]),
    chunks=st.integers(1, 40),
    stall=st.sampled_from([None, (300, 9.2)]),
)
def test_parts_add_up_to_the_nanosecond(seed: int, every: int, chunks: int, stall: tuple[int, float] | None) -> None:
    of = replies(served(steps=600, seed=seed, every=every, chunks=chunks, stall=stall).records)
    parts = parts_of(of, kinds_of(of.gaps, of.begins))
    assert sum(part.mean_s for part in parts) == pytest.approx(of.e2e.mean(), abs=1e-9, rel=0)
    assert sum(part.share for part in parts) == pytest.approx(1, abs=1e-9)
    counted = sum(part.count or 0 for part in parts)
    assert counted == pytest.approx(chunks - 1)
    slow = slowest(of.e2e)
    assert slow is not None
    assert sum(part.slowest_s or 0 for part in parts) == pytest.approx(of.e2e[slow].mean(), abs=1e-9, rel=0)


def test_each_part_is_what_the_server_did() -> None:
    made = served(in_flight=16)
    of = replies(made.records)
    parts = {part.name: part for part in parts_of(of, kinds_of(of.gaps, of.begins))}
    assert parts.keys() == {"client", "first token", "long", "short", "end"}
    assert parts["client"].mean_s == pytest.approx(LATE_S, abs=1e-9)
    assert parts["first token"].mean_s == pytest.approx(TTFT_S, abs=1e-9)
    assert parts["end"].mean_s == pytest.approx(END_S, abs=1e-9)
    n = len(made.records)
    assert parts["long"].count == made.long_gaps / n
    assert parts["short"].count == made.chunks - 1 - made.long_gaps / n
    inside = [(first + 1, first + made.chunks) for first in made.first]
    long_s = sum(float(made.step_s[a:b][made.long[a:b]].sum()) for a, b in inside)
    assert parts["long"].mean_s == pytest.approx(long_s / n, abs=1e-9)
    assert parts["long"].p50_s == pytest.approx(LONG_S, rel=0.05)
    assert parts["short"].p50_s == pytest.approx(SHORT_S, rel=0.05)
    assert parts["short"].p95_s == pytest.approx(SHORT_S * np.exp(0.1 * 1.645), rel=0.05)


def test_one_kind_of_gap_is_one_part() -> None:
    of = replies(served(every=0).records)
    assert [part.name for part in parts_of(of, kinds_of(of.gaps, of.begins))] == [
        "client",
        "first token",
        "gaps",
        "end",
    ]


def test_the_slowest_are_a_twentieth_and_the_slowest() -> None:
    e2e = np.arange(100, dtype=np.float64)[::-1]
    which = slowest(e2e)
    assert which is not None
    assert sorted(e2e[which]) == [95, 96, 97, 98, 99]
    assert slowest(np.arange(19, dtype=np.float64)) is None


def test_replies_of_one_chunk_have_no_gaps() -> None:
    of = replies([make_record(chunk_s=(11.0,), first_token_s=11.0, last_token_s=11.0, done_s=11.5)] * 2)
    assert len(of.gaps) == 0
    names = [part.name for part in parts_of(of, kinds_of(of.gaps, of.begins))]
    assert names == ["client", "first token", "end"]


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"chunk_s": (10.4, 10.3, 10.45)}, "not in order"),
        ({"chunk_s": ()}, "none in a complete reply"),
        ({"chunk_s": (10.2, 10.6)}, "ended before it began"),
        ({"chunk_s": (9.0, 10.45)}, "ended before it began"),
        ({"chunk_s": (10.25, 10.45)}, "in no chunk"),
        ({"done_s": 1e300, "last_token_s": 1e299, "chunk_s": (10.2, 1e299)}, "ended before it began"),
    ],
)
def test_moments_that_contradict_each_other_are_refused(changes: dict[str, object], says: str) -> None:
    with pytest.raises(StreamproofError, match=says):
        replies([make_record(), make_record(**changes)])
