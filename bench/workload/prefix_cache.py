"""How many prompt tokens the engine's prefix cache will serve, request by request, for requests one after another.

The rules and their sources are in `bench.workload.prefix_cache_rules`. Requests that overlap in time are bounded by
`bench.workload.prefix_cache_bounds`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from bench.workload.prefix_cache_blocks import Block, BlockNames, BlockPool, Name
from bench.workload.prefix_cache_rules import CacheRules
from bench.workload.turn import Segment


class PrefixCacheModel:
    """The prefix cache of one engine since its start.

    Args:
        rules: the engine.
    """

    def __init__(self, rules: CacheRules) -> None:
        self.rules = rules
        self._names = BlockNames(rules.block_size)
        self._pool = BlockPool(rules.usable_blocks)
        self._served = 0

    @property
    def evicted(self) -> int:
        """Cached blocks that were given up for others so far; while it is 0, capacity has changed no hit."""
        return self._pool.evicted

    def serve(self, segments: Sequence[Segment], output_tokens: int) -> int:
        """Serve one request from its lookup to its last token.

        Args:
            segments: the prompt.
            output_tokens: length of the reply, 1 at least.

        Returns:
            Prompt tokens that came from the cache.

        Raises:
            StreamproofError: the request alone does not fit the pool.
        """
        self._served += 1
        prompt_tokens = sum(segment.tokens for segment in segments)
        # Keys of segments are not negative, so no prompt ever contains this reply: what it leaves in the cache only
        # takes room. Its last token is sampled and never computed.
        reply = Segment(key=-self._served, tokens=output_tokens - 1)
        request = _Request(self.rules, self._pool, self._names.of([*segments, reply]))
        hit_blocks, match_blocks = request.look_up(prompt_tokens)
        position = hit_blocks * self.rules.block_size
        for end in self.rules.prefill_ends(prompt_tokens, hit_blocks, match_blocks):
            request.compute(position, end)
            position = end
        for end in _decode_ends(prompt_tokens, output_tokens, self.rules):
            request.compute(end - 1, end, drafts=self.rules.draft_tokens)
        request.finish()
        return hit_blocks * self.rules.block_size


def predict_hits(prompts: Iterable[tuple[Sequence[Segment], int]], rules: CacheRules) -> list[int]:
    """Hit tokens of prompts that a fresh engine serves one after another.

    Args:
        prompts: (segments, output tokens) in order of service.
        rules: the engine.

    Returns:
        Hit tokens, one per prompt.
    """
    model = PrefixCacheModel(rules)
    return [model.serve(segments, output_tokens) for segments, output_tokens in prompts]


class _Request:
    """What one running request holds: attention blocks, and per group of recurrent layers its last states."""

    def __init__(self, rules: CacheRules, pool: BlockPool, names: Sequence[int]) -> None:
        self._rules = rules
        self._pool = pool
        self._names = names
        self._attention: list[Block] = []
        self._groups = range(rules.state_groups if rules.hybrid else 0)
        self._states: list[dict[int, Block]] = [{} for _ in self._groups]
        self._spare: list[list[Block]] = [[] for _ in self._groups]

    def look_up(self, prompt_tokens: int) -> tuple[int, int]:
        """Find and take what is cached: (hit, attention match) in blocks."""
        cached: list[Block] = []
        for name in self._names[: (prompt_tokens - 1) // self._rules.block_size]:
            block = self._pool.find(name)
            if block is None:
                break
            cached.append(block)
        match = self._rules.lookup_blocks(len(cached) * self._rules.block_size, prompt_tokens)
        hit = match
        while self._rules.hybrid and hit and not self._take_states(hit):
            hit -= 1
        self._attention = cached[:hit]
        for block in self._attention:
            self._pool.touch(block)
        return hit, match

    def compute(self, start: int, end: int, *, drafts: int = 0) -> None:
        """One step of the scheduler: tokens [start, end), and this many drafts after them."""
        size = self._rules.block_size
        for states in self._states:
            # The state at `start` is the source of this step; what lies before it is needed no more.
            self._pool.release(
                [states.pop(index) for index in sorted(states, reverse=True) if index < (start - 1) // size]
            )
        index = (end + drafts - 1) // size
        for states, spare in zip(self._states, self._spare, strict=True):
            if not spare:
                spare.extend(self._pool.take(self._rules.draft_tokens))
            if index not in states:
                states[index] = self._pool.take(1)[0]
        # The next drafts get their attention slots before they are drafted.
        slots = math.ceil((end + drafts + self._rules.draft_tokens) / size)
        self._attention += self._pool.take(slots - len(self._attention))
        if end % size == 0:
            self._keep_states(end // size - 1)
        for position in range(start // size, end // size):
            self._pool.cache(self._attention[position], self._names[position])

    def _keep_states(self, index: int) -> None:
        for group, states in zip(self._groups, self._states, strict=True):
            if index in states:  # drafts of more than a block skip states
                self._pool.cache(states[index], _state_name(group, self._names[index]))

    def finish(self) -> None:
        """Free everything, the last block first."""
        for states, spare in zip(self._states, self._spare, strict=True):
            self._pool.release(spare)
            self._pool.release(states[index] for index in sorted(states, reverse=True))
        self._pool.release(reversed(self._attention))

    def _take_states(self, end: int) -> bool:
        """Take the states of all groups at the end of block `end`; False, and nothing taken, unless all are cached."""
        found = [self._pool.find(_state_name(group, self._names[end - 1])) for group in self._groups]
        states = [block for block in found if block is not None]
        if len(states) < len(found):
            return False
        for held, state in zip(self._states, states, strict=True):
            self._pool.touch(state)
            held[end - 1] = state
        return True


def _state_name(group: int, block: int) -> Name:
    return group, block


def _decode_ends(prompt_tokens: int, output_tokens: int, rules: CacheRules) -> list[int]:
    """The decoding steps that change what a request holds: the first, and those near a block boundary.

    One token a step: how many drafts will be accepted is not known, and matters only to when a block is taken.
    """
    first, last = prompt_tokens + 1, prompt_tokens + output_tokens - 1
    before, after = 2 * rules.draft_tokens, 2
    return [
        end for end in range(first, last + 1) if end == first or (end + before) % rules.block_size <= before + after
    ]
