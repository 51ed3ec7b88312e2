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

What the counters mean: `vllm:prefix_cache_queries` and `vllm:prefix_cache_hits` are recorded at every *attempt* to
schedule a waiting request (`Scheduler.schedule` looks up before it knows whether the step has room), so a request that
has to wait for the budget of a step is counted again and again. `vllm:prompt_tokens_cached` is counted once, with the
first token, from the lookup that led to the prefill; that is what a prediction can be compared with. Prefills that
follow a preemption are in neither.

Not covered: `--prefix-match-unit`, `VLLM_PREFIX_CACHE_RETENTION_INTERVAL`, KV connectors, sliding windows, context
parallelism, `mamba_cache_mode = "all"`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from bench.errors import UsageError


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
        if self.hybrid and self.chunk_tokens < self.block_size:
            raise UsageError(
                f"prefix-cache rules: chunk_tokens ({self.chunk_tokens}) is below block_size ({self.block_size})",
                remedy="A hybrid model with prefix caching needs max_num_batched_tokens of one block at least.",
            )

    @property
    def usable_blocks(self) -> int | None:
        """Blocks of the pool that can hold tokens: all but the null block. None when nothing is ever evicted."""
        return None if self.num_gpu_blocks is None else self.num_gpu_blocks - 1

    def lookup_blocks(self, shared_tokens: int, prompt_tokens: int) -> int:
        """The attention match of a prompt that shares its first tokens with cached ones, in blocks (rules 2 and 3)."""
        match = min(shared_tokens, prompt_tokens - 1) // self.block_size
        return max(match - 1, 0) if self.draft_tokens else match

    def clearance(self, shared_tokens: int) -> int:
        """Tokens by which chance would have to lengthen a shared part before it completes another block.

        Two callers can begin with the same words, and then share a little more than their segments tell. A recipe keeps
        its shared prefix so far below the next boundary that this cannot complete a block.
        """
        return self.block_size - shared_tokens % self.block_size

    def forced_states(self, prompt_tokens: int) -> set[int]:
        """Boundaries at which the prefill of a prompt keeps a state in any case, in blocks (rule 6)."""
        ends = {self._last_stop(prompt_tokens), prompt_tokens}
        return {end // self.block_size for end in ends if end and end % self.block_size == 0}

    def prefill_ends(self, prompt_tokens: int, hit_blocks: int, match_blocks: int) -> Iterator[int]:
        """Ends of the prefill's steps, in tokens, for a request that has the engine for itself (rule 6).

        Args:
            prompt_tokens: length of the prompt.
            hit_blocks: blocks that need no computing.
            match_blocks: the attention match; where no state reached it, a step ends there.

        Yields:
            Increasing positions; the last one is the end of the prompt.
        """
        position = hit_blocks * self.block_size
        last = self._last_stop(prompt_tokens)
        mandatory = sorted({match_blocks * self.block_size, last}) if self.hybrid else []
        while position < prompt_tokens:
            end = min(position + self.chunk_tokens, prompt_tokens)
            if self.hybrid and end < last:
                end -= end % self._split
            position = next((stop for stop in mandatory if position < stop < end), end)
            yield position

    @property
    def _split(self) -> int:
        return self.split_tokens or self.block_size

    def _last_stop(self, prompt_tokens: int) -> int:
        """Where the last chunk of a prompt's prefill begins at the earliest, in tokens."""
        last = prompt_tokens - prompt_tokens % self._split
        return max(last - self._split, 0) if self.draft_tokens else last
