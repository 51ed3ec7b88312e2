"""What the engine computes of each prompt, and in which steps, for requests one after another: the rest is cached.

The rules and their sources are in `bench.workload.prefix_cache_rules`. Requests that overlap in time are bounded by
`bench.workload.prefix_cache_bounds`.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from bench.workload.prefix_cache_blocks import Block, BlockPool, Name, Names, PromptNames
from bench.workload.prefix_cache_rules import CacheRules
from bench.workload.turn import Segment


@dataclass(frozen=True, slots=True)
class Prefill:
    """How one prompt is computed by an engine that does nothing else meanwhile.

    Attributes:
        hit: prompt tokens that come from the cache.
        ends: where each step of the scheduler ends, in tokens, increasing; the last one is the end of the prompt.
    """

    hit: int
    ends: tuple[int, ...]

    @property
    def computed(self) -> int:
        """Prompt tokens that are computed."""
        return self.ends[-1] - self.hit

    @property
    def steps(self) -> int:
        """Steps of the scheduler that compute them, 1 at least."""
        return len(self.ends)

    def misnames(self, block_size: int) -> bool:
        """Whether a step leaves a recurrent state under the name of a block's end at which it is not (rule 9)."""
        starts = (self.hit, *self.ends)
        return any(
            start % block_size and (start // block_size + 1) * block_size < end
            for start, end in zip(starts, self.ends, strict=False)
        )


class PrefixCacheModel:
    """The prefix cache of one engine since its start.

    Args:
        rules: the engine.
    """

    def __init__(self, rules: CacheRules) -> None:
        self.rules = rules
        self._names = Names()
        self._pool = BlockPool(rules.usable_blocks)
        self._served = 0

    @property
    def evicted(self) -> int:
        """Cached blocks that were given up for others so far; while it is 0, capacity has changed no hit."""
        return self._pool.evicted

    @property
    def used(self) -> int:
        """Blocks that a request holds or a lookup can find."""
        return self._pool.used

    def serve(self, segments: Sequence[Segment], output_tokens: int) -> Prefill:
        """Serve one request from its lookup to its last token.

        Args:
            segments: the prompt.
            output_tokens: length of the reply, 1 at least.

        Returns:
            How its prompt was computed.

        Raises:
            StreamproofError: the request does not fit the pool beside those that run.
        """
        running = self.begin(segments, output_tokens)
        running.end()
        return running.prefill

    def begin(self, segments: Sequence[Segment], output_tokens: int) -> Running:
        """Look a request up, compute its prompt and its first token's successor, and let it run.

        Args and errors: as of `serve`.

        Returns:
            The running request. It holds its blocks until its `end`.
        """
        self._served += 1
        prompt_tokens = sum(segment.tokens for segment in segments)
        # Keys of segments are not negative, so no prompt ever contains this reply: what it leaves in the cache only
        # takes room. Its last token is sampled and never computed.
        reply = Segment(key=-self._served, tokens=output_tokens - 1)
        request = _Request(self.rules, self._pool, self._names.of([*segments, reply]), prompt_tokens)
        hit, match = request.look_up()
        ends = tuple(self.rules.prefill_ends(prompt_tokens, hit, match))
        for start, end in pairwise((hit, *ends)):
            request.compute(start, end)
        decodes = _decode_ends(prompt_tokens, output_tokens, self.rules)
        for end in decodes[:1]:
            request.decode(end)
        return Running(Prefill(hit, ends), request, decodes[1:])

    def serve_at_once(self, requests: Iterable[tuple[Sequence[Segment], int]], at_once: int) -> Iterator[Prefill]:
        """Serve requests, so many beside each other: each next one begins when the oldest has ended.

        Args:
            requests: (segments, output tokens) in the order in which they are sent.
            at_once: that run at most.

        Yields:
            How each prompt was computed.

        Raises:
            StreamproofError: what runs at once does not fit the pool.
        """
        running: deque[Running] = deque()
        for segments, output_tokens in requests:
            if len(running) == at_once:
                running.popleft().end()
            running.append(self.begin(segments, output_tokens))
            yield running[-1].prefill


class Running:
    """A request that was begun and has not ended.

    Args:
        prefill: how its prompt was computed.
        request: what it holds.
        decodes: ends of the decoding steps left that change that.
    """

    def __init__(self, prefill: Prefill, request: _Request, decodes: Sequence[int]) -> None:
        self.prefill = prefill
        self._request = request
        self._decodes = decodes

    def end(self) -> None:
        """Decode to the last token; then it lets go of everything."""
        for end in self._decodes:
            self._request.decode(end)
        self._request.finish()


def predict_prefills(prompts: Iterable[tuple[Sequence[Segment], int]], rules: CacheRules) -> list[Prefill]:
    """How a fresh engine computes prompts that it serves one after another.

    Args:
        prompts: (segments, output tokens) in order of service.
        rules: the engine.

    Returns:
        One per prompt.
    """
    model = PrefixCacheModel(rules)
    return [model.serve(segments, output_tokens) for segments, output_tokens in prompts]


def predict_hits(prompts: Iterable[tuple[Sequence[Segment], int]], rules: CacheRules) -> list[int]:
    """Hit tokens of the same prompts, one per prompt; arguments as of `predict_prefills`."""
    return [prefill.hit for prefill in predict_prefills(prompts, rules)]


class _Request:
    """What one running request holds: attention blocks, and per group of recurrent layers its last states."""

    def __init__(self, rules: CacheRules, pool: BlockPool, names: PromptNames, prompt_tokens: int) -> None:
        self._rules = rules
        self._pool = pool
        self._names = names
        self._prompt_tokens = prompt_tokens
        self._tail = rules.tail(prompt_tokens)
        self._attention: list[Block] = []
        self._groups = range(rules.state_groups if rules.hybrid else 0)
        self._states: list[dict[int, Block]] = [{} for _ in self._groups]
        self._spare: list[list[Block]] = [[] for _ in self._groups]
        self._copy_hit = False
        self._move_tail = False

    def look_up(self) -> tuple[int, int]:
        """Find and take what is cached: (hit, attention match) in tokens."""
        size = self._rules.block_size
        found, blocks = self._find_attention()
        hit = match = self._rules.match(found)
        while self._rules.hybrid and hit and not self._take_states(hit):
            hit -= self._rules.unit
        self._attention = blocks[: math.ceil(hit / size)]
        for block in self._attention:
            self._pool.touch(block)
        self._copy_hit = hit % size > 0
        return hit, match

    def compute(self, start: int, end: int, *, drafts: int = 0) -> None:
        """One step of the scheduler: tokens [start, end), and this many drafts after them."""
        size = self._rules.block_size
        for states in self._states:
            # The state at `start` is the source of this step; what lies before it is needed no more.
            self._pool.release(
                [states.pop(index) for index in sorted(states, reverse=True) if index < (start - 1) // size]
            )
        copied = self._copy_on_write(start // size)
        index = (end + drafts - 1) // size
        for states, spare in zip(self._states, self._spare, strict=True):
            if not spare:
                spare.extend(self._pool.take(self._rules.draft_tokens))
            if index not in states:
                states[index] = self._pool.take(1)[0]
        # The next drafts get their attention slots before they are drafted.
        slots = math.ceil((end + drafts + self._rules.draft_tokens) / size)
        self._attention += self._pool.take(slots - len(self._attention))
        self._cache(start // size, end)
        self._pool.release(copied)

    def decode(self, end: int) -> None:
        """One step of the scheduler that decodes the token before `end`, with drafts after it."""
        self.compute(end - 1, end, drafts=self._rules.draft_tokens)

    def finish(self) -> None:
        """Free everything, the last block first."""
        for states, spare in zip(self._states, self._spare, strict=True):
            self._pool.release(spare)
            self._pool.release(states[index] for index in sorted(states, reverse=True))
        self._pool.release(reversed(self._attention))

    def _find_attention(self) -> tuple[int, list[Block]]:
        """The longest beginning of the prompt whose attention blocks are cached, and those blocks."""
        size, unit, longest = self._rules.block_size, self._rules.unit, self._prompt_tokens - 1
        blocks: list[Block] = []
        for end in range(size, longest + 1, size):
            block = self._pool.find(self._names.at(end))
            if block is None:
                break
            blocks.append(block)
        full = len(blocks) * size
        last_inside = min(longest // unit * unit, full + size - unit)
        for end in range(last_inside, full, -unit):
            block = self._pool.find(self._names.at(end))
            if block is not None:
                return end, [*blocks, block]
        return full, blocks

    def _copy_on_write(self, index: int) -> list[Block]:
        """Copy what others can find before this step overwrites it; the blocks to release when the step is done."""
        copied: list[Block] = []
        if self._copy_hit:  # a hit inside a block: the request goes on in copies of its own
            for states in self._states:
                copied.append(states[index])
                states[index] = self._pool.take(1)[0]
            copied.append(self._attention[index])
            self._attention[index] = self._pool.take(1)[0]
            self._copy_hit = False
        if self._move_tail:  # it just left a state inside a block: it goes on in that block, and the copy is cached
            for states in self._states:
                (copy,) = self._pool.take(1)
                self._pool.move_names(states[self._tail // self._rules.block_size], copy)
                copied.append(copy)
            self._move_tail = False
        return copied

    def _cache(self, first: int, end: int) -> None:
        """Make what a step has computed known: blocks from the first one on that are full, and the prompt's tail."""
        size = self._rules.block_size
        for index in range(first, end // size):
            tokens = (index + 1) * size
            self._pool.cache(self._attention[index], self._names.at(tokens), tokens)
            for group, states in zip(self._groups, self._states, strict=True):
                if index in states:  # drafts of more than a block skip states
                    self._pool.cache(states[index], _state_name(group, self._names.at(tokens)), tokens)
        if 0 < self._tail <= end:
            index, name = self._tail // size, self._names.at(self._tail)
            self._pool.cache(self._attention[index], name, self._tail)
            if self._tail == end:
                for group, states in zip(self._groups, self._states, strict=True):
                    self._pool.cache(states[index], _state_name(group, name), self._tail)
                self._move_tail = True

    def _take_states(self, tokens: int) -> bool:
        """Take the states of all groups after so many tokens; False, and nothing taken, unless all are cached."""
        name = self._names.at(tokens)
        states = []
        for group in self._groups:
            state = self._pool.find(_state_name(group, name))
            if state is None:
                return False
            states.append(state)
        for held, state in zip(self._states, states, strict=True):
            self._pool.touch(state)
            held[(tokens - 1) // self._rules.block_size] = state
        return True


def _state_name(group: int, name: int) -> Name:
    return group, name


def _decode_ends(prompt_tokens: int, output_tokens: int, rules: CacheRules) -> list[int]:
    """The decoding steps that change what a request holds: the first, and those near a block boundary.

    One token a step: how many drafts will be accepted is not known, and matters only to when a block is taken.
    """
    first, last = prompt_tokens + 1, prompt_tokens + output_tokens - 1
    before, after = 2 * rules.draft_tokens, 2
    return [
        end for end in range(first, last + 1) if end == first or (end + before) % rules.block_size <= before + after
    ]
