"""Prefix hits of requests that overlap in time: what is expected, and between which bounds it must lie.

The engine does not tell in which order it looked requests up, nor how it cut their prefills when they shared a step.
Both can matter: a prefix that two requests bring at once may be computed twice, and a prefill that was cut keeps a
state more (rule 6 of `bench.workload.prefix_cache_rules`). So besides the prediction for requests served one after
another in the order in which they were sent, each request gets

- `least`: hits that *every* order and every cut gives. Only requests that had ended before this one was sent are
  counted on, and of their states only those that rule 6 forces: at the last boundary of the prompt, and at the end of
  the attention match where all orders agree on it.
- `most`: hits that *no* order and no cut exceeds: the attention match with all requests that were sent before this one
  ended, nothing evicted, a state wherever one of them can have left one. A request leaves none but the forced ones
  unless it may have been cut, because the step's tokens did not suffice for all that was open beside it.

Conversations whose turns follow each other, behind a prefix that was primed before they began, leave no doubt: each
turn finds what its own conversation and the priming left, and all of that had ended. There `least` = `most`, however
many conversations run side by side, while the pool is large enough and prefills fit their steps. Priming a hybrid model
takes two prompts per prefix, one after the other, with different texts behind it: the first one alone leaves a state
at the end of its own prompt, which no other prompt can use; the second one leaves the one that it missed.

With `--prefix-match-unit` (rule 8) what a request leaves depends on where it began: at which boundary inside or behind
its hit. Where match and hit are certain and the prefill fits its step, that is the same as for a request alone; else
each bound assumes the worst, and both are narrowed in turn until nothing changes.

Eviction: the pool is least recently used first, so a block is safe as long as the blocks that were touched after it add
up to less than the pool. `least` counts on a block only if all requests that were open at any time between its last use
and this lookup fit the pool together, with every block that they can have held.
"""

from __future__ import annotations

import heapq
import math
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from bench.workload.prefix_cache import PrefixCacheModel
from bench.workload.prefix_cache_blocks import Names
from bench.workload.prefix_cache_rules import CacheRules
from bench.workload.turn import Segment


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedPrompt:
    """One request as the client saw it.

    Attributes:
        segments: the prompt.
        output_tokens: tokens of the reply, 1 at least.
        start_s: when it was sent.
        end_s: when its last byte came.
        complete: whether the engine surely read the whole prompt; False for a failed request that got no token.
    """

    segments: tuple[Segment, ...]
    output_tokens: int
    start_s: float
    end_s: float
    complete: bool = True

    @property
    def prompt_tokens(self) -> int:
        """Length of the prompt."""
        return sum(segment.tokens for segment in self.segments)


@dataclass(frozen=True, slots=True)
class HitPrediction:
    """Hit tokens of one request: in the order of sending, under any order at least, under any order at most."""

    expected: int
    least: int
    most: int


def predict_served(requests: Sequence[ServedPrompt], rules: CacheRules) -> list[HitPrediction]:
    """Predict the hits of all requests of one engine since its start.

    Args:
        requests: in any order; those of every point and of the warm-up, since they fill the same cache.
        rules: the engine.

    Returns:
        One prediction per request, in the order given; least <= expected <= most.

    Raises:
        StreamproofError: a request alone does not fit the pool.
    """
    model = PrefixCacheModel(rules)
    expected = [0] * len(requests)
    for index in _by_start(requests):
        expected[index] = model.serve(requests[index].segments, requests[index].output_tokens).hit
    least, most = _Timeline(requests, rules).bounds()
    return [
        HitPrediction(expected=hit, least=low, most=high) for hit, low, high in zip(expected, least, most, strict=True)
    ]


class _Timeline:
    """The requests, with what does not change between passes. All matches and hits are in tokens."""

    def __init__(self, requests: Sequence[ServedPrompt], rules: CacheRules) -> None:
        self._requests = requests
        self._rules = rules
        self._order = _by_start(requests)
        names = Names()
        self._names = [names.of(request.segments) for request in requests]
        self._highest = self._highest_matches()

    def bounds(self) -> tuple[list[int], list[int]]:
        """Hits that every order gives, and hits that no order exceeds.

        With hits inside blocks, what a request leaves depends on where it began, so that each bound sharpens the other.
        """
        least, most = [0] * len(self._requests), self._highest
        while True:
            before = least, most
            lowest, least = self._least_hits(least, most)
            most = self._most_hits(lowest, least, most)
            if not self._rules.fine or before == (least, most):
                return least, most

    def _highest_matches(self) -> list[int]:
        """Attention matches with every request that may have been looked up before."""
        texts, tails = _EarliestHolders(), _EarliestHolders()
        for index in self._order:
            start_s, names = self._requests[index].start_s, self._names[index]
            for end in names.ends:
                texts.add(names.at(end), start_s, index)
            if tail := self._tail(index):
                tails.add(names.at(tail), start_s, index)
        matches = []
        for index, request in enumerate(self._requests):
            names = self._names[index]
            shared = 0
            for end in names.ends:
                if not texts.any_before(names.at(end), request.end_s, besides=index):
                    break
                shared = end
            inside = (
                end
                for end in self._rules.ends_inside(shared, request.prompt_tokens)
                if tails.any_before(names.at(end), request.end_s, besides=index)
            )
            matches.append(self._rules.match(next(inside, self._rules.full(shared, request.prompt_tokens))))
        return matches

    def _least_hits(self, least: Sequence[int], most: Sequence[int]) -> tuple[list[int], list[int]]:
        """Attention matches and hits that every order gives."""
        whole = self._uncut(least)
        lowest, hits = self._least_pass(most, whole, _Room(None, [], []))
        while self._rules.usable_blocks is not None:
            # What a request takes from the pool depends on its own hit; fewer hits take more, so this ends.
            demand = [self._most_blocks(request, hit) for request, hit in zip(self._requests, hits, strict=True)]
            before = hits
            lowest, hits = self._least_pass(most, whole, _Room(self._rules.usable_blocks, self._requests, demand))
            if hits == before:
                break
        return lowest, hits

    def _most_hits(self, lowest: Sequence[int], least: Sequence[int], most: Sequence[int]) -> list[int]:
        """Hits that no order exceeds."""
        rules = self._rules
        if not rules.hybrid:
            return self._highest
        whole = self._uncut(least)
        holders = _EarliestHolders()
        for index in self._order:
            request, names = self._requests[index], self._names[index]
            for end in self._possible_states(index, lowest[index], least[index], most[index], whole=whole[index]):
                holders.add(names.at(end), request.start_s, index)
        hits = []
        for index, request in enumerate(self._requests):
            names = self._names[index]
            found = (
                end
                for end in range(most[index], 0, -rules.unit)
                if holders.any_before(names.at(end), request.end_s, besides=index)
            )
            hits.append(next(found, 0))
        return hits

    def _least_pass(self, most: Sequence[int], whole: Sequence[bool], room: _Room) -> tuple[list[int], list[int]]:
        rules = self._rules
        lowest, least = [0] * len(self._requests), [0] * len(self._requests)
        last_use = _LastUse(self._requests)

        def safe(used: dict[int, float], name: int, request: ServedPrompt) -> bool:
            used_s = used.get(name)
            return used_s is not None and room.fits(used_s, request.end_s)

        for index in self._order:
            request, names = self._requests[index], self._names[index]
            last_use.catch_up(request.start_s)
            shared = 0
            for end in names.ends:
                if not safe(last_use.of_text, names.at(end), request):
                    break
                shared = end
            inside = (
                end
                for end in rules.ends_inside(shared, request.prompt_tokens)
                if safe(last_use.of_tail, names.at(end), request)
            )
            match = rules.match(next(inside, rules.full(shared, request.prompt_tokens)))
            lowest[index] = least[index] = match
            kept: set[int] = set()
            if rules.hybrid:
                found = (end for end in range(match, 0, -rules.unit) if safe(last_use.of_state, names.at(end), request))
                least[index] = next(found, 0)
                kept = self._sure_states(index, match, least[index], most[index], whole=whole[index])
            if request.complete:
                tail = self._tail(index)
                last_use.will_end(
                    index,
                    texts=[names.at(end) for end in names.ends],
                    tails=[names.at(tail)] if tail else [],
                    states=[names.at(end) for end in kept],
                )
        return lowest, least

    def _sure_states(self, index: int, match: int, least: int, most: int, *, whole: bool) -> set[int]:
        """Where a request leaves a state in any case, in tokens."""
        rules, tokens = self._rules, self._requests[index].prompt_tokens
        sure_match = match == self._highest[index]
        if rules.fine and whole and sure_match and least == most:
            return rules.states_left(tokens, least, match)
        ends = {end for end in rules.forced_states(tokens) if most <= end}
        junction = match - match % rules.block_size
        if sure_match and most <= junction <= rules.last_stop(tokens):
            ends.add(junction)
        return ends - {0}

    def _possible_states(self, index: int, lowest: int, least: int, most: int, *, whole: bool) -> set[int]:
        """Where a request can have left a state, in tokens."""
        rules, tokens, highest = self._rules, self._requests[index].prompt_tokens, self._highest[index]
        if rules.fine and whole and lowest == highest and least == most:
            return rules.states_left(tokens, least, highest)
        size = rules.block_size
        ends = rules.forced_states(tokens)
        if not whole:
            first, last = least, tokens
        elif rules.fine:  # it may have gone on from inside a block, and then stopped at the end of that block
            first, last = min(lowest, least), min(highest + size, tokens)
        else:
            first, last = lowest, highest
        return ends | {end for end in range(first - first % size, last + 1, size) if end}

    def _tail(self, index: int) -> int:
        return self._rules.tail(self._requests[index].prompt_tokens)

    def _uncut(self, least: Sequence[int]) -> list[bool]:
        """Whether each prefill is surely cut as it would be alone, given what its prompt lacks at most.

        All that is open beside it fits a step with it: what the other prompts lack, or one token and its drafts. With
        hits inside blocks, whose states are worked out step by step, being alone is enough.
        """
        tokens = [
            request.prompt_tokens - hit + 1 + self._rules.draft_tokens
            for request, hit in zip(self._requests, least, strict=True)
        ]
        step = _Room(self._rules.chunk_tokens, self._requests, tokens)
        alone = _Room(1 if self._rules.fine else 0, self._requests, [1] * len(tokens))
        return [
            step.fits(request.start_s, request.end_s) or alone.fits(request.start_s, request.end_s)
            for request in self._requests
        ]

    def _most_blocks(self, request: ServedPrompt, hit: int) -> int:
        """Blocks of the pool that a request can have held: its hit, and all that it computed."""
        rules = self._rules
        # Room for the drafts of a step and of the next one is taken before it is known whether they stay.
        tokens = request.prompt_tokens + request.output_tokens + 2 * rules.draft_tokens
        blocks = math.ceil(tokens / rules.block_size)
        # The copies of a hit inside a block, and of the state at the prompt's tail.
        copies = 2 if rules.fine else 0
        states_per_group = 1 + blocks - hit // rules.block_size + rules.draft_tokens + copies
        return blocks + copies + (rules.state_groups * states_per_group if rules.hybrid else 0)


class _Room:
    """Whether all requests that were open at some time between two moments fit together into something."""

    def __init__(self, size: int | None, requests: Sequence[ServedPrompt], demand: Sequence[int]) -> None:
        self._size = size
        starts = sorted((request.start_s, amount) for request, amount in zip(requests, demand, strict=True))
        # A request of which the client lost sight may go on for longer than the client knows.
        ends = sorted(
            (request.end_s if request.complete else math.inf, amount)
            for request, amount in zip(requests, demand, strict=True)
        )
        self._starts, self._started = _running_sum(starts)
        self._ends, self._ended = _running_sum(ends)

    def fits(self, from_s: float, until_s: float) -> bool:
        """Whether the demands of all requests open between the two moments add up to no more than the size."""
        if self._size is None:
            return True
        opened = self._started[bisect_left(self._starts, until_s)]
        closed = self._ended[bisect_right(self._ends, from_s)]
        return opened - closed <= self._size


class _LastUse:
    """Of all requests that have ended: when the latest one began that has this text, tail, or surely this state."""

    def __init__(self, requests: Sequence[ServedPrompt]) -> None:
        self._requests = requests
        self._open: list[tuple[float, int, tuple[Sequence[int], ...]]] = []
        self.of_text: dict[int, float] = {}
        self.of_tail: dict[int, float] = {}
        self.of_state: dict[int, float] = {}

    def will_end(self, index: int, *, texts: Sequence[int], tails: Sequence[int], states: Sequence[int]) -> None:
        """A request that counts once it has ended."""
        heapq.heappush(self._open, (self._requests[index].end_s, index, (texts, tails, states)))

    def catch_up(self, now_s: float) -> None:
        """Count what has ended by now."""
        while self._open and self._open[0][0] <= now_s:
            _, index, names = heapq.heappop(self._open)
            began = self._requests[index].start_s
            for used, keys in zip((self.of_text, self.of_tail, self.of_state), names, strict=True):
                used.update((key, max(began, used.get(key, began))) for key in keys)


class _EarliestHolders:
    """The two earliest requests per key: at least one of them is not the request that asks."""

    def __init__(self) -> None:
        self._holders: dict[int, list[tuple[float, int]]] = defaultdict(list)

    def add(self, key: int, start_s: float, index: int) -> None:
        """A request has this key; requests must be added in order of their start."""
        if len(self._holders[key]) < 2:
            self._holders[key].append((start_s, index))

    def any_before(self, key: int, moment_s: float, *, besides: int) -> bool:
        """Whether any other request with this key started before the moment."""
        return any(start_s < moment_s and index != besides for start_s, index in self._holders.get(key, ()))


def _by_start(requests: Sequence[ServedPrompt]) -> list[int]:
    return sorted(range(len(requests)), key=lambda index: requests[index].start_s)


def _running_sum(items: Sequence[tuple[float, int]]) -> tuple[list[float], list[int]]:
    """The times, and how much lies before each of them: one sum more than there are times."""
    return [time for time, _ in items], [0, *accumulate(amount for _, amount in items)]
