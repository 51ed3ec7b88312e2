from __future__ import annotations

import pytest

from bench.errors import StreamproofError
from bench.workload.prefix_cache_blocks import BlockNames, BlockPool
from bench.workload.turn import Segment


class TestNames:
    def test_only_full_blocks_have_names(self) -> None:
        names = BlockNames(10)
        assert [len(names.of([Segment(1, tokens)])) for tokens in (0, 9, 10, 19, 20)] == [0, 0, 1, 1, 2]

    def test_equal_tokens_after_equal_tokens_have_equal_names(self) -> None:
        names = BlockNames(10)
        shared = Segment(1, 24)
        a, b = names.of([shared, Segment(2, 6)]), names.of([shared, Segment(3, 6)])
        assert a[:2] == b[:2]
        assert a[2] != b[2]

    def test_equal_tokens_after_other_tokens_have_other_names(self) -> None:
        names = BlockNames(10)
        a, b = names.of([Segment(1, 10), Segment(9, 10)]), names.of([Segment(2, 10), Segment(9, 10)])
        assert set(a).isdisjoint(b)

    def test_segments_without_tokens_change_nothing(self) -> None:
        names = BlockNames(10)
        assert names.of([Segment(1, 7), Segment(2, 3)]) == names.of([Segment(1, 7), Segment(5, 0), Segment(2, 3)])


class TestPool:
    def test_nameless_blocks_are_reused_before_named_ones(self) -> None:
        pool = BlockPool(2)
        named, nameless = pool.take(2)
        pool.cache(named, "name")
        pool.release([named, nameless])
        pool.take(1)
        assert pool.find("name") is named
        pool.take(1)
        assert pool.find("name") is None
        assert pool.evicted == 1

    def test_what_is_released_first_is_evicted_first(self) -> None:
        pool = BlockPool(2)
        first, second = pool.take(2)
        pool.cache(first, "first")
        pool.cache(second, "second")
        pool.release([second, first])
        pool.take(1)
        assert pool.find("second") is None
        assert pool.find("first") is first

    def test_a_touched_block_is_not_evicted(self) -> None:
        pool = BlockPool(1)
        (block,) = pool.take(1)
        pool.cache(block, "name")
        pool.release([block])
        pool.touch(block)
        with pytest.raises(StreamproofError, match="more than the 1 blocks"):
            pool.take(1)

    def test_of_two_blocks_with_one_name_the_other_stays_when_one_goes(self) -> None:
        pool = BlockPool(2)
        older, newer = pool.take(2)
        pool.cache(older, "name")
        pool.cache(newer, "name")
        pool.release([older, newer])
        assert pool.find("name") is older
        pool.take(1)
        assert pool.find("name") is newer

    def test_a_pool_without_limit_never_evicts(self) -> None:
        pool = BlockPool(None)
        (block,) = pool.take(1)
        pool.cache(block, "name")
        pool.release([block])
        pool.take(1000)
        assert pool.find("name") is block
