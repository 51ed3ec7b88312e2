from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from bench.affinity import NO_STREAM, prime_stream, rank_of, ranks_of, replica_of


@given(st.integers(1, 64), st.integers(0, 10_000))
def test_a_stream_has_one_rank_and_neighbours_have_others(ranks: int, stream: int) -> None:
    assert 0 <= rank_of(stream, ranks) < ranks
    assert {rank_of(stream + step, ranks) for step in range(ranks)} == set(range(ranks))


@given(st.integers(1, 64).flatmap(lambda ranks: st.tuples(st.just(ranks), st.integers(0, ranks - 1))))
def test_priming_requests_belong_to_no_stream_and_to_one_rank(of: tuple[int, int]) -> None:
    ranks, rank = of
    assert prime_stream(rank) <= NO_STREAM
    assert rank_of(prime_stream(rank), ranks) == rank


@given(st.integers(1, 64), st.lists(st.integers(-64, 10_000)))
def test_of_many_as_of_one(ranks: int, streams: list[int]) -> None:
    found = ranks_of(np.array(streams, dtype=np.int64), ranks)
    assert found.tolist() == [rank_of(stream, ranks) for stream in streams]


@given(st.integers(2, 16), st.integers(1, 16))
def test_ranks_are_counted_through_all_replicas(replicas: int, each: int) -> None:
    places = [replica_of(rank, each) for rank in range(replicas * each)]
    assert places == [(n, own if each > 1 else None) for n in range(replicas) for own in range(each)]
    assert replica_of(None, each) == (0, None)
