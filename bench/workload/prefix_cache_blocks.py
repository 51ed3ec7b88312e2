"""The parts of a prefix cache: names of blocks, and the pool that holds and evicts them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterable
from typing import TypeAlias

from bench.errors import StreamproofError
from bench.workload.turn import Segment

Name: TypeAlias = Hashable


class BlockNames:
    """Names full blocks: the same name exactly for the same tokens after the same tokens.

    Stands for the engine's chained block hashes (`hash_block_tokens` in `vllm/v1/core/kv_cache_utils.py`), without
    hashing: names are small integers, given out as new contents are met.
    """

    def __init__(self, block_size: int) -> None:
        self._block_size = block_size
        self._names: dict[tuple[int, tuple[tuple[int, int, int], ...]], int] = {}

    def of(self, segments: Iterable[Segment]) -> list[int]:
        """Names of the full blocks of these tokens, in order; what is left over has none."""
        names: list[int] = []
        parent = -1
        pieces: list[tuple[int, int, int]] = []
        room = self._block_size
        for segment in segments:
            offset = 0
            while offset < segment.tokens:
                length = min(room, segment.tokens - offset)
                pieces.append((segment.key, offset, length))
                offset += length
                room -= length
                if room == 0:
                    parent = self._names.setdefault((parent, tuple(pieces)), len(self._names))
                    names.append(parent)
                    pieces, room = [], self._block_size
        return names


class Block:
    """A block of the pool.

    Attributes:
        name: what it is cached as; None when no lookup can find it.
    """

    __slots__ = ("name",)

    def __init__(self) -> None:
        self.name: Name | None = None


class BlockPool:
    """Blocks in use, free blocks, and which of them a lookup can find (`vllm/v1/core/block_pool.py`).

    For one request at a time: a block has one user or none.

    Args:
        blocks: how many there are; None for a pool that never runs out.
    """

    def __init__(self, blocks: int | None) -> None:
        self._blocks = blocks
        self._in_use = 0
        self._by_name: dict[Name, OrderedDict[Block, None]] = {}
        self._free_named: OrderedDict[Block, None] = OrderedDict()
        self.evicted = 0
        """Named blocks that were reused so far."""

    def find(self, name: Name) -> Block | None:
        """The oldest block cached under this name."""
        blocks = self._by_name.get(name)
        return next(iter(blocks)) if blocks else None

    def take(self, count: int) -> list[Block]:
        """New blocks for a request: nameless free ones first, then the least recently used named ones.

        Raises:
            StreamproofError: more blocks are needed than the pool has.
        """
        for _ in range(count):
            if self._blocks is not None and self._in_use + len(self._free_named) == self._blocks:
                self._evict()
            self._in_use += 1
        return [Block() for _ in range(count)]

    def touch(self, block: Block) -> None:
        """A request uses this free cached block: it cannot be evicted until it is released."""
        del self._free_named[block]
        self._in_use += 1

    def cache(self, block: Block, name: Name) -> None:
        """Lookups find this nameless block under this name from now on."""
        block.name = name
        self._by_name.setdefault(name, OrderedDict())[block] = None

    def release(self, blocks: Iterable[Block]) -> None:
        """A request lets go of these blocks; the first of them will be evicted first."""
        for block in blocks:
            self._in_use -= 1
            if block.name is not None:
                self._free_named[block] = None

    def _evict(self) -> None:
        if not self._free_named:
            raise StreamproofError(
                f"prefix-cache prediction: a request needs more than the {self._blocks} blocks of the pool",
                remedy="The engine could never serve it: give it more cache memory, or shorten the prompts.",
            )
        block, _ = self._free_named.popitem(last=False)
        holders = self._by_name[block.name]
        del holders[block]
        if not holders:
            del self._by_name[block.name]
        self.evicted += 1
