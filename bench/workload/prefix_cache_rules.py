"""When vLLM 0.26.0 keeps a prefix, and how much of it a later prompt can use.

Read in the released source (folder `vllm/v1/core` unless said otherwise), checked against the engine's own counters;
`tests/workload/prefix_cache_measured.json` holds the measurements. In blocks of B tokens, for a prompt of n tokens:

1.  *Attention blocks.* Every full block of computed tokens is cached, replies included (all but the last token of a
    reply is computed): `KVCacheManager.allocate_slots`, `BlockPool.cache_full_blocks`. It is cached when it is
    scheduled, so a request may already use what another one is still computing.
2.  *At least one token is computed.* A lookup sees (n - 1) // B blocks at most: `KVCacheManager.get_computed_blocks`.
3.  *Attention match.* The longest run of cached blocks from the start: `FullAttentionManager.find_longest_cache_hit`.
    MTP and EAGLE drop its last block, because the draft head needs the hidden states before the first new token.
4.  *Full-attention models* have one group of layers; the match is the hit: `UnitaryKVCacheCoordinator`.
5.  *Hybrid models* (attention and recurrent layers) can resume only where a recurrent state was kept. The hit is the
    last such boundary within the attention match: `HybridKVCacheCoordinator`, `MambaManager.find_longest_cache_hit`.
    Draft models have no recurrent layers, so nothing is dropped twice.
6.  *Where a state is kept* (`mamba_cache_mode = "align"`): where a step of the scheduler ends on a block boundary.
    `Scheduler._mamba_block_aligned_split` steers the ends of prefill chunks there: a chunk that cannot reach the last
    boundary of the prompt ends on the last boundary that it can reach; none runs past that last boundary, n // B blocks
    (one less with MTP or EAGLE, to meet rule 3); and none runs past the end of an attention match that no state
    reached (rule 5), so that the *next* prompt with this prefix finds one. Decoding keeps a state at each boundary that
    it crosses.
    The CPU build steers by 128 tokens unless it was started with `--block-size`, whatever its blocks are: after
    the caches are made, `EngineCoreProc._perform_handshakes` (`vllm/v1/engine/core.py`) checks the configuration again,
    and `CpuPlatform.check_and_update_config` puts the scheduler's block size back to its default. A prompt whose last
    multiple of 128 is no block boundary then leaves no state at its end. With `--block-size 128` (blocks are enlarged
    all the same) the rule holds. `CudaPlatform`'s checks leave the block size alone.
7.  *Eviction.* All groups of layers share one pool. Freed blocks are reused least recently used first, blocks that
    carry no name before those that do; a request frees its last block first: `BlockPool.free_blocks`. A state is freed
    one step after it was left behind, the rest when the request ends.
8.  *`--prefix-match-unit`* U, a divisor of B, for hybrid models. A prompt also leaves a partial entry at its tail, its
    last multiple of U: of the attention block that the tail lies in, and of the state there, for which a step ends
    exactly there (`FullAttentionManager` and `MambaManager._cache_partial_tail_block`, `_mamba_block_aligned_split`).
    None is left at any other multiple of U. A lookup goes on from the last full block to the furthest partial entry
    in the next one, and MTP or EAGLE drop U tokens of that instead of a block. So with them a prompt never resumes at
    the tail of the prompt that it extends: the match ends U before it. It resumes at the tail before that one, which
    the later entry vouches for; and a new prompt behind a shared prefix can resume inside a block only where two
    prompts, one at least U longer than the other, ended inside that prefix (proposed change upstream:
    https://github.com/vllm-project/vllm/pull/52244).
    A prompt that resumes inside a block copies it first, and one that leaves a state at its tail moves the entry to a
    copy and goes on in the original (`SingleTypeKVCacheManager._apply_cow`, `BlockPool.move_block_hashes`): copies are
    blocks of the pool, and are freed at the end of their step. A prompt that resumes inside a block stops at its end
    first, unless that lies behind the last boundary of rule 6. An entry inside a block goes when the block is filled,
    except the prompt's own tail, which is entered again.
    An entry that only vouches is not used by the hits that end before it: it is as old as the prompt that left it,
    and goes once the pool has been through, however often the prefix is used. No later prompt leaves it again. So
    these hits are of a server's first minutes (`bench.explain.preflight.lasting`).
9.  *A state that is not what its name says.* Where a step crosses a block boundary from inside the block without ending
    on it, `MambaManager.cache_blocks` enters the block under the name of its end, although it holds the state at the
    point where the step began. Rule 6 avoids such steps, but with MTP or EAGLE it lets the last chunk cross one
    boundary; so it happens when that chunk begins inside a block: after a hit there (rule 8), or where the step's token
    budget cut a prefill behind its last stop. Prompts that resume from such a state continue from the wrong one (later
    releases cut otherwise: https://github.com/vllm-project/vllm/pull/51113). The prediction counts these hits as the
    engine does.

What the counters mean: `vllm:prefix_cache_queries` and `vllm:prefix_cache_hits` are recorded at every *attempt* to
schedule a waiting request (`Scheduler.schedule` looks up before it knows whether the step has room), so a request that
has to wait for the budget of a step is counted again and again. `vllm:prompt_tokens_cached` is counted once, with the
first token, from the lookup that led to the prefill; that is what a prediction can be compared with. Prefills that
follow a preemption are in neither.

Not covered: `VLLM_PREFIX_CACHE_RETENTION_INTERVAL`, KV connectors, sliding windows, context
parallelism, `mamba_cache_mode = "all"`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from bench.errors import UsageError

HIT_TOLERANCE: Final = 0.02
"""Of the predicted hit tokens. Hits come in whole blocks, so a wrong prediction (another block size, a cache that was
warm or full, prompts that repeat) is off by far more; 2 % leave room for a failed request or two."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheRules:
    """The facts about an engine that decide its prefix hits.

    Attributes:
        block_size: tokens of one prefix-cache block, as `vllm:cache_config_info` reports it after start-up.
        hybrid: whether the model has recurrent layers beside attention (`mamba_cache_mode` is "align"); False for
            full attention alone.
        chunk_tokens: the most prompt tokens of one scheduler step (`max_num_batched_tokens`).
        draft_tokens: `num_speculative_tokens` of MTP or EAGLE; 0 without.
        num_gpu_blocks: size of the block pool, as `vllm:cache_config_info` reports it; None: nothing is ever evicted.
        state_groups: groups of recurrent layers in a hybrid model: its number of recurrent layers over its number of
            attention layers (the MTP layer is one of these), rounded up. Decides only how fast the pool fills.
        split_tokens: what the ends of prefill chunks are multiples of where that is not `block_size`: 128 for a CPU
            engine started without `--block-size`; None otherwise.
        match_unit: `--prefix-match-unit`, which must divide the block size; None without. It changes nothing for full
            attention alone, nor when it is the block size.

    Raises:
        UsageError: values that no engine can have.
    """

    block_size: int
    hybrid: bool
    chunk_tokens: int
    draft_tokens: int = 0
    num_gpu_blocks: int | None = None
    state_groups: int = 3
    split_tokens: int | None = None
    match_unit: int | None = None

    def __post_init__(self) -> None:
        least = {"block_size": 1, "chunk_tokens": 1, "draft_tokens": 0, "state_groups": 1}
        for name, bound in least.items():
            if getattr(self, name) < bound:
                raise UsageError(
                    f"prefix-cache rules: {name} is {getattr(self, name)}",
                    remedy=f"It must be at least {bound}; read it from the engine's vllm:cache_config_info or flags.",
                )
        if self.num_gpu_blocks is not None and self.num_gpu_blocks < 2:
            raise UsageError(
                f"prefix-cache rules: num_gpu_blocks is {self.num_gpu_blocks}",
                remedy="A pool has at least 2 blocks, one of which is never used.",
            )
        if self.match_unit is not None and (self.match_unit < 1 or self.block_size % self.match_unit):
            raise UsageError(
                f"prefix-cache rules: match_unit is {self.match_unit}, in blocks of {self.block_size} tokens",
                remedy="It must divide the block size; the engine refuses to start with any other.",
            )
        if self.hybrid and self.chunk_tokens < self.block_size:
            raise UsageError(
                f"prefix-cache rules: chunk_tokens ({self.chunk_tokens}) is below block_size ({self.block_size})",
                remedy="A hybrid model with prefix caching needs max_num_batched_tokens of one block at least.",
            )

    @property
    def usable_blocks(self) -> int | None:
        """Blocks of the pool that can hold tokens: all but the null block. None when nothing is ever evicted."""
        return None if self.num_gpu_blocks is None else self.num_gpu_blocks - 1

    @property
    def unit(self) -> int:
        """Tokens that hits are multiples of."""
        return self.match_unit if self.match_unit and self.hybrid else self.block_size

    @property
    def fine(self) -> bool:
        """Whether hits may end inside a block (rule 8)."""
        return self.unit < self.block_size

    def match(self, found_tokens: int) -> int:
        """The attention match, in tokens, where lookups found so much of a prompt (rules 3 and 8)."""
        return max(found_tokens - self.unit, 0) if self.draft_tokens else found_tokens

    def full(self, shared_tokens: int, prompt_tokens: int) -> int:
        """What full blocks give of a prompt that shares its first tokens with cached ones (rules 2 and 3)."""
        shared = min(shared_tokens, prompt_tokens - 1)
        return shared - shared % self.block_size

    def ends_inside(self, shared_tokens: int, prompt_tokens: int) -> range:
        """Where behind those a partial entry may be found, the furthest first (rule 8)."""
        shared = min(shared_tokens, prompt_tokens - 1)
        return range(shared - shared % self.unit, shared - shared % self.block_size, -self.unit)

    def tail(self, prompt_tokens: int) -> int:
        """Where a prompt leaves its partial entries, in tokens; 0 where it leaves none (rule 8)."""
        end = prompt_tokens - prompt_tokens % self.unit
        return end if end % self.block_size else 0

    def lookup_blocks(self, shared_tokens: int, prompt_tokens: int) -> int:
        """The attention match that full blocks give, in blocks."""
        return self.match(self.full(shared_tokens, prompt_tokens)) // self.block_size

    def clearance(self, shared_tokens: int) -> int:
        """Tokens by which chance would have to lengthen a shared part before it completes another block.

        Two callers can begin with the same words, and then share a little more than their segments tell. A recipe keeps
        its shared prefix so far below the next boundary that this cannot complete a block.
        """
        return self.unit - shared_tokens % self.unit

    def forced_states(self, prompt_tokens: int) -> set[int]:
        """Where the prefill of a prompt keeps a state in any case, in tokens (rules 6 and 8)."""
        ends = {self.last_stop(prompt_tokens), prompt_tokens}
        return {end for end in ends if end and end % self.block_size == 0} | ({self.tail(prompt_tokens)} - {0})

    def prefill_ends(self, prompt_tokens: int, hit: int, match: int) -> Iterator[int]:
        """Ends of the prefill's steps, in tokens, for a request that has the engine for itself (rules 6 and 8).

        Args:
            prompt_tokens: length of the prompt.
            hit: tokens that need no computing.
            match: the attention match in tokens; where no state reached it, a step ends at the block before it.

        Yields:
            Increasing positions; the last one is the end of the prompt.
        """
        start = hit
        while start < prompt_tokens:
            end = min(start + self.chunk_tokens, prompt_tokens)
            if self.hybrid:
                end = self._steered(start, end, prompt_tokens, match if match > hit else 0)
            yield end
            start = end

    def states_left(self, prompt_tokens: int, hit: int, match: int) -> set[int]:
        """Where the prefill of a request that has the engine for itself leaves states, in tokens.

        Among them those that the engine takes for the state at a block's end, while they are those at a point inside it
        (rule 9).
        """
        size, tail = self.block_size, self.tail(prompt_tokens)
        left, start = set(), hit
        for end in self.prefill_ends(prompt_tokens, hit, match):
            held = {(start - 1) // size, (end - 1) // size}
            left |= {(index + 1) * size for index in held if start // size <= index < end // size}
            if end == tail:
                left.add(end)
            start = end
        return left

    def _steered(self, start: int, end: int, prompt_tokens: int, junction: int) -> int:
        """`Scheduler._mamba_block_aligned_split`."""
        split, last = self._split, self.last_stop(prompt_tokens)
        if end < last:
            end -= end % split
        next_boundary = (start // split + 1) * split
        tail = prompt_tokens - prompt_tokens % self.unit if self.fine else 0
        stops = [last]
        if start % split and next_boundary <= last:
            stops.append(next_boundary)
        if last < tail < prompt_tokens:
            stops.append(tail)
        if start < junction < end:
            stops.append(start + (junction - start) // split * split)
        return min((stop for stop in stops if start < stop < end), default=end)

    @property
    def _split(self) -> int:
        return self.split_tokens or self.block_size

    def last_stop(self, prompt_tokens: int) -> int:
        """The last block boundary that the prefill of a prompt may not run past, in tokens (rule 6)."""
        last = prompt_tokens - prompt_tokens % self._split
        return max(last - self._split, 0) if self.draft_tokens else last
