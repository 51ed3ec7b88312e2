"""The longest standstill: among known ones, and against a search by hand."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.explain.steps.standstill import Standstill, longest


def found(
    requests: list[tuple[float, float]], chunks: list[float], *, since_s: float = 0.0, until_s: float = 100.0
) -> Standstill | None:
    sent, done = np.array([r[0] for r in requests]), np.array([r[1] for r in requests])
    return longest(sent, done, np.array(chunks), since_s=since_s, until_s=until_s)


def test_idle_time_is_no_standstill() -> None:
    assert found([(1.0, 2.0), (50.0, 51.0)], [1.5, 1.9, 50.25]) == Standstill(seconds=0.75, start_s=50.25, in_flight=1)


def test_a_chunk_for_anybody_ends_it() -> None:
    both = [(1.0, 9.0), (1.0, 9.0)]
    assert found(both, [2.0, 8.0]) == Standstill(seconds=6.0, start_s=2.0, in_flight=2)
    assert found(both, [2.0, 5.0, 8.0]) == Standstill(seconds=3.0, start_s=2.0, in_flight=2)


def test_it_must_begin_in_the_window_and_may_end_after_it() -> None:
    requests, chunks = [(0.0, 40.0)], [5.0, 9.0, 12.0, 30.0]
    assert found(requests, chunks, since_s=4.0, until_s=11.0) == Standstill(seconds=4.0, start_s=5.0, in_flight=1)
    assert found(requests, chunks, since_s=6.0, until_s=20.0) == Standstill(seconds=18.0, start_s=12.0, in_flight=1)
    assert found(requests, chunks, since_s=50.0, until_s=60.0) is None
    assert found([], []) is None


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 60), st.integers(1, 20)), min_size=1, max_size=8),
    st.lists(st.integers(0, 80), max_size=12),
)
def test_it_is_the_longest_of_all(made: list[tuple[int, int]], ticks: list[int]) -> None:
    requests = [(float(at), float(at + took)) for at, took in made]
    chunks = [float(tick) for tick in ticks if any(a <= tick <= b for a, b in requests)]
    longest_s = run = 0
    for second in range(100):  # by hand: second by second
        busy = any(a <= second and second + 1 <= b for a, b in requests)
        fresh = float(second) in chunks or not any(a <= second - 1 and second <= b for a, b in requests)
        # Replies that meet without overlapping: one goes on where the other ended.
        run = (1 if fresh else run + 1) if busy else 0
        longest_s = max(longest_s, run)
    result = found(requests, chunks)
    assert result is not None
    assert result.seconds == longest_s
    assert result.in_flight >= 1
