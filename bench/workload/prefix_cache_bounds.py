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

Eviction: the pool is least recently used first, so a block is safe as long as the blocks that were touched after it add
up to less than the pool. `least` counts on a block only if all requests that were open at any time between its last use
and this lookup fit the pool together, with every block that they can have held.
"""

from __future__ import annotations

import heapq
import math
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate

from bench.workload.prefix_cache import PrefixCacheModel
from bench.workload.prefix_cache_blocks import BlockNames
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
        expected[index] = model.serve(requests[index].segments, requests[index].output_tokens)
    timeline = _Timeline(requests, rules)
    highest = timeline.highest_matches()
    lowest, least = timeline.least_hits(highest)
    most = timeline.most_hits(lowest, highest, least)
    size = rules.block_size
    return [
        HitPrediction(expected=hit, least=low * size, most=high * size)
        for hit, low, high in zip(expected, least, most, strict=True)
    ]


class _Timeline:
    """The requests, with what does not change between passes. All matches and hits are in blocks."""

    def __init__(self, requests: Sequence[ServedPrompt], rules: CacheRules) -> None:
        self._requests = requests
        self._rules = rules
        self._order = _by_start(requests)
        places = _Places()
        self._places = [places.of(request.segments) for request in requests]
        names = BlockNames(rules.block_size)
        self._blocks = [names.of(request.segments) if rules.hybrid else [] for request in requests]

    def highest_matches(self) -> list[int]:
        """Attention matches with every request that may have been looked up before."""
        holders = _EarliestHolders()
        for index in self._order:
            for _, place in self._places[index]:
                holders.add(place, self._requests[index].start_s, index)
        matches = []
        for index, request in enumerate(self._requests):
            shared = 0
            for position, place in self._places[index]:
                if not holders.any_before(place, request.end_s, besides=index):
                    break
                shared = position
            matches.append(self._rules.lookup_blocks(shared, request.prompt_tokens))
        return matches

    def least_hits(self, highest: Sequence[int]) -> tuple[list[int], list[int]]:
        """Attention matches and hits that every order gives."""
        lowest, least = self._least_pass(highest, _Room(None, [], []))
        while self._rules.usable_blocks is not None:
            # What a request takes from the pool depends on its own hit; fewer hits take more, so this ends.
            demand = [self._most_blocks(request, hit) for request, hit in zip(self._requests, least, strict=True)]
            before = least
            lowest, least = self._least_pass(highest, _Room(self._rules.usable_blocks, self._requests, demand))
            if least == before:
                break
        return lowest, least

    def most_hits(self, lowest: Sequence[int], highest: Sequence[int], least: Sequence[int]) -> list[int]:
        """Hits that no order exceeds."""
        if not self._rules.hybrid:
            return list(highest)
        # In one step a request computes at most what its prompt lacks, or one token and its drafts.
        tokens = [
            request.prompt_tokens - hit * self._rules.block_size + 1 + self._rules.draft_tokens
            for request, hit in zip(self._requests, least, strict=True)
        ]
        step = _Room(self._rules.chunk_tokens, self._requests, tokens)
        holders = _EarliestHolders()
        for index in self._order:
            request, blocks = self._requests[index], self._blocks[index]
            ends = self._rules.forced_states(request.prompt_tokens)
            ends.update(range(max(lowest[index], 1), highest[index] + 1))
            if not step.fits(request.start_s, request.end_s):
                ends.update(range(max(least[index], 1), len(blocks) + 1))
            for end in ends:
                holders.add(blocks[end - 1], request.start_s, index)
        most = []
        for index, request in enumerate(self._requests):
            blocks = self._blocks[index]
            ends_found = (
                end
                for end in range(highest[index], 0, -1)
                if holders.any_before(blocks[end - 1], request.end_s, besides=index)
            )
            most.append(next(ends_found, 0))
        return most

    def _least_pass(self, highest: Sequence[int], room: _Room) -> tuple[list[int], list[int]]:
        lowest, least = [0] * len(self._requests), [0] * len(self._requests)
        last_use = _LastUse(self._requests)
        for index in self._order:
            request, blocks = self._requests[index], self._blocks[index]
            last_use.catch_up(request.start_s)
            shared = 0
            for position, place in self._places[index]:
                used_s = last_use.of_text.get(place)
                if used_s is None or not room.fits(used_s, request.end_s):
                    break
                shared = position
            match = lowest[index] = least[index] = self._rules.lookup_blocks(shared, request.prompt_tokens)
            kept = set()
            if self._rules.hybrid:
                safe_ends = (
                    end
                    for end in range(match, 0, -1)
                    if blocks[end - 1] in last_use.of_state
                    and room.fits(last_use.of_state[blocks[end - 1]], request.end_s)
                )
                least[index] = next(safe_ends, 0)
                ends = self._rules.forced_states(request.prompt_tokens)
                if match and match == highest[index]:
                    ends.add(match)
                kept = {blocks[end - 1] for end in ends}
            if request.complete:
                last_use.will_end(index, texts=[place for _, place in self._places[index]], states=kept)
        return lowest, least

    def _most_blocks(self, request: ServedPrompt, hit: int) -> int:
        """Blocks of the pool that a request can have held: its hit, and all that it computed."""
        rules = self._rules
        # Room for the drafts of a step and of the next one is taken before it is known whether they stay.
        tokens = request.prompt_tokens + request.output_tokens + 2 * rules.draft_tokens
        blocks = math.ceil(tokens / rules.block_size)
        states_per_group = 1 + blocks - hit + rules.draft_tokens
        return blocks + (rules.state_groups * states_per_group if rules.hybrid else 0)


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
    """Of all requests that have ended: when the latest one with this text, or with a state for sure here, began."""

    def __init__(self, requests: Sequence[ServedPrompt]) -> None:
        self._requests = requests
        self._open: list[tuple[float, int, Sequence[int], Iterable[int]]] = []
        self.of_text: dict[int, float] = {}
        self.of_state: dict[int, float] = {}

    def will_end(self, index: int, *, texts: Sequence[int], states: Iterable[int]) -> None:
        """A request that counts once it has ended."""
        heapq.heappush(self._open, (self._requests[index].end_s, index, texts, states))

    def catch_up(self, now_s: float) -> None:
        """Count what has ended by now."""
        while self._open and self._open[0][0] <= now_s:
            _, index, texts, states = heapq.heappop(self._open)
            began = self._requests[index].start_s
            for used, keys in ((self.of_text, texts), (self.of_state, states)):
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


class _Places:
    """Names for "these segments, in this order, from the start": equal names mean equal tokens up to there."""

    def __init__(self) -> None:
        self._names: dict[tuple[int, int, int], int] = {}

    def of(self, segments: Iterable[Segment]) -> list[tuple[int, int]]:
        """(position in tokens, name) at the end of each segment."""
        places = []
        position, name = 0, -1
        for segment in segments:
            if segment.tokens:
                position += segment.tokens
                name = self._names.setdefault((name, segment.key, segment.tokens), len(self._names))
                places.append((position, name))
        return places


def _by_start(requests: Sequence[ServedPrompt]) -> list[int]:
    return sorted(range(len(requests)), key=lambda index: requests[index].start_s)


def _running_sum(items: Sequence[tuple[float, int]]) -> tuple[list[float], list[int]]:
    """The times, and how much lies before each of them: one sum more than there are times."""
    return [time for time, _ in items], [0, *accumulate(amount for _, amount in items)]
