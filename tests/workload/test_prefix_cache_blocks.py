from __future__ import annotations

import pytest

from bench.errors import StreamproofError
from bench.workload.prefix_cache_blocks import BlockPool, Names
from bench.workload.turn import Segment


class TestNames:
    def test_equal_tokens_have_equal_names(self) -> None:
        names = Names()
        shared = Segment(1, 24)
        a, b = names.of([shared, Segment(2, 6)]), names.of([shared, Segment(3, 6)])
        assert [a.at(end) == b.at(end) for end in (1, 23, 24, 25, 30)] == [True, True, True, False, False]

    def test_beginnings_of_other_lengths_have_other_names(self) -> None:
        prompt = Names().of([Segment(1, 24), Segment(2, 6)])
        assert len({prompt.at(end) for end in range(1, 31)}) == 30

    def test_equal_tokens_after_other_tokens_have_other_names(self) -> None:
        names = Names()
        a, b = names.of([Segment(1, 10), Segment(9, 10)]), names.of([Segment(2, 10), Segment(9, 10)])
        assert {a.at(end) for end in range(1, 21)}.isdisjoint({b.at(end) for end in range(1, 21)})

    def test_segments_without_tokens_change_nothing(self) -> None:
        names = Names()
        a = names.of([Segment(1, 7), Segment(2, 3)])
        b = names.of([Segment(1, 7), Segment(5, 0), Segment(2, 3)])
        assert a.ends == b.ends == [7, 10]
        assert [a.at(end) for end in range(1, 11)] == [b.at(end) for end in range(1, 11)]


class TestPool:
    def test_nameless_blocks_are_reused_before_named_ones(self) -> None:
        pool = BlockPool(2)
        named, nameless = pool.take(2)
        pool.cache(named, "name", 10)
        pool.release([named, nameless])
        pool.take(1)
        assert pool.find("name") is named
        pool.take(1)
        assert pool.find("name") is None
        assert pool.evicted == 1

    def test_what_is_released_first_is_evicted_first(self) -> None:
        pool = BlockPool(2)
        first, second = pool.take(2)
        pool.cache(first, "first", 10)
        pool.cache(second, "second", 10)
        pool.release([second, first])
        pool.take(1)
        assert pool.find("second") is None
        assert pool.find("first") is first

    def test_a_block_is_free_when_its_last_user_lets_go(self) -> None:
        pool = BlockPool(2)
        (shared,) = pool.take(1)
        pool.cache(shared, "name", 10)
        pool.touch(shared)
        assert pool.used == 1
        pool.release([shared])
        pool.take(1)
        with pytest.raises(StreamproofError):
            pool.take(1)  # one of its two users has it still
        pool.release([shared])
        pool.take(1)
        assert pool.find("name") is None
        assert (pool.used, pool.evicted) == (2, 1)

    def test_a_touched_block_is_not_evicted(self) -> None:
        pool = BlockPool(1)
        (block,) = pool.take(1)
        pool.cache(block, "name", 10)
        pool.release([block])
        pool.touch(block)
        with pytest.raises(StreamproofError, match="more than the 1 blocks"):
            pool.take(1)

    def test_of_two_blocks_with_one_name_the_other_stays_when_one_goes(self) -> None:
        pool = BlockPool(2)
        older, newer = pool.take(2)
        pool.cache(older, "name", 10)
        pool.cache(newer, "name", 10)
        pool.release([older, newer])
        assert pool.find("name") is older
        pool.take(1)
        assert pool.find("name") is newer

    def test_a_pool_without_limit_never_evicts(self) -> None:
        pool = BlockPool(None)
        (block,) = pool.take(1)
        pool.cache(block, "name", 10)
        pool.release([block])
        pool.take(1000)
        assert pool.find("name") is block


class TestSeveralNames:
    def test_a_block_keeps_the_names_of_longer_beginnings(self) -> None:
        pool = BlockPool(1)
        (block,) = pool.take(1)
        pool.cache(block, "full", 10)
        pool.cache(block, "inside", 7)
        assert pool.find("full") is pool.find("inside") is block

    def test_a_block_loses_the_names_of_shorter_ones(self) -> None:
        pool = BlockPool(1)
        (block,) = pool.take(1)
        pool.cache(block, "inside", 7)
        pool.cache(block, "full", 10)
        assert pool.find("inside") is None
        assert pool.find("full") is block

    def test_eviction_takes_all_names(self) -> None:
        pool = BlockPool(1)
        (block,) = pool.take(1)
        pool.cache(block, "full", 10)
        pool.cache(block, "inside", 7)
        pool.release([block])
        pool.take(1)
        assert pool.find("full") is pool.find("inside") is None
        assert pool.evicted == 1

    def test_names_can_move_to_a_copy(self) -> None:
        pool = BlockPool(2)
        source, copy = pool.take(2)
        pool.cache(source, "inside", 7)
        pool.move_names(source, copy)
        assert pool.find("inside") is copy
        pool.cache(copy, "full", 10)
        assert pool.find("inside") is None
        pool.release([source, copy])
        pool.take(1)
        assert pool.find("full") is copy
