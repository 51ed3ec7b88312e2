"""The parts of a prefix cache: names of what blocks hold, and the pool that holds and evicts them."""

from __future__ import annotations

from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Hashable, Iterable
from typing import TypeAlias

from bench.errors import StreamproofError
from bench.workload.turn import Segment

Name: TypeAlias = Hashable


class Names:
    """Names beginnings of prompts: the same name exactly for the same tokens.

    Stands for the engine's chained hashes (`hash_block_tokens` in `vllm/v1/core/kv_cache_utils.py`), without hashing:
    names are small integers, given out as new contents are met.
    """

    def __init__(self) -> None:
        self._names: dict[tuple[int, int, int], int] = {}

    def of(self, segments: Iterable[Segment]) -> PromptNames:
        """The names of the beginnings of one prompt."""
        return PromptNames(self._names, segments)


class PromptNames:
    """The names of all beginnings of one prompt.

    Args:
        names: those given out so far: (name of what lies before a segment, its key, tokens of it) to name.
        segments: the prompt.

    Attributes:
        ends: of its segments, in tokens.
    """

    def __init__(self, names: dict[tuple[int, int, int], int], segments: Iterable[Segment]) -> None:
        self._names = names
        self.ends: list[int] = []
        self._pieces: list[tuple[int, int, int]] = []
        position, before = 0, -1
        for segment in segments:
            if segment.tokens:
                self._pieces.append((before, segment.key, position))
                before = names.setdefault((before, segment.key, segment.tokens), len(names))
                position += segment.tokens
                self.ends.append(position)

    def at(self, tokens: int) -> int:
        """The name of the first `tokens` tokens, 1 at least and all of the prompt at most."""
        before, key, start = self._pieces[bisect_left(self.ends, tokens)]
        return self._names.setdefault((before, key, tokens - start), len(self._names))


class Block:
    """A block of the pool.

    Attributes:
        names: what lookups find it under, its first name first; empty when none can find it.
        tokens: how long the beginning is that its first name stands for.
        users: running requests that hold it; it is free without one.
    """

    __slots__ = ("names", "tokens", "users")

    def __init__(self) -> None:
        self.names: list[Name] = []
        self.tokens = 0
        self.users = 1


class BlockPool:
    """Blocks in use, free blocks, and which of them a lookup can find (`vllm/v1/core/block_pool.py`).

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

    @property
    def used(self) -> int:
        """Blocks in use, and free ones that a lookup can find."""
        return self._in_use + len(self._free_named)

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
            if self._blocks is not None and self.used == self._blocks:
                self._evict()
            self._in_use += 1
        return [Block() for _ in range(count)]

    def touch(self, block: Block) -> None:
        """A request uses this cached block, too: it cannot be evicted until everybody has released it."""
        if not block.users:
            del self._free_named[block]
            self._in_use += 1
        block.users += 1

    def cache(self, block: Block, name: Name, tokens: int) -> None:
        """Lookups find this block under this name, of a beginning of so many tokens, from now on.

        The names that the block has already stay if they are of longer beginnings: it still holds those. Those of
        shorter ones go, as the engine has it (`BlockPool.cache_partial_block`, `BlockPool.cache_full_blocks`).
        """
        if name in block.names:
            return
        if block.names and block.tokens < tokens:
            self._forget(block)
        if not block.names:
            block.tokens = tokens
        block.names.append(name)
        self._by_name.setdefault(name, OrderedDict())[block] = None

    def move_names(self, source: Block, target: Block) -> None:
        """Lookups find another, nameless block from now on (`BlockPool.move_block_hashes`)."""
        names, target.tokens = source.names[:], source.tokens
        self._forget(source)
        for name in names:
            target.names.append(name)
            self._by_name.setdefault(name, OrderedDict())[target] = None

    def release(self, blocks: Iterable[Block]) -> None:
        """A request lets go of these blocks; of those that nobody holds then the first will be evicted first."""
        for block in blocks:
            block.users -= 1
            if block.users:
                continue
            self._in_use -= 1
            if block.names:
                self._free_named[block] = None

    def _evict(self) -> None:
        if not self._free_named:
            raise StreamproofError(
                f"prefix-cache prediction: what runs at once needs more than the {self._blocks} blocks of the pool",
                remedy="The engine could never serve it so: give it more cache memory, or shorten the prompts.",
            )
        block, _ = self._free_named.popitem(last=False)
        self._forget(block)
        self.evicted += 1

    def _forget(self, block: Block) -> None:
        for name in block.names:
            holders = self._by_name[name]
            del holders[block]
            if not holders:
                del self._by_name[name]
        block.names = []
