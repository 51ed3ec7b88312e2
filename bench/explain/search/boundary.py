"""The search for a boundary, as a pure function of what its points came to.

1. *Explore*: from the start double the load while the limit seems to hold (its share of bad requests is at most the one
   allowed), or halve it while it does not, then bisect, until the boundary lies between two neighbours. A single window
   decides each step, so a step may be wrong; nothing is claimed from it.
2. *Fit*: a curve that never falls through all shares seen (`bench.stats.monotone`). Where it crosses the allowed share,
   its two neighbours become the candidates: one that should hold, one that should not.
3. *Confirm*: the candidates are measured in turns, again and again on prompts of their own, until certificates settle
   both (`bench.stats.settle`). Exploration does not count for them: it chose them. A candidate that turns out to be on
   the other side bounds that side from then on, and one that cannot be settled stays between the bounds: the next
   candidate lies one step further, then two, then four.

A point that the client spoiled (it could not keep up with its own clock) is measured again: that says nothing of the
engine. After `ATTEMPTS` it counts all the same, and the measurement is then invalid where the answer rests on it.

A search is a generator: it yields the index of the setting to measure next, and is sent what came of it. So whoever has
the records can drive it again, and sees that its points are those that it asks for.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from bench.stats.clustered import Counts, design_effect
from bench.stats.monotone import isotonic
from bench.stats.settle import error_of_look, settle, worth

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

    from bench.explain.search.question import Question
    from bench.stats.settle import Settled

Stage: TypeAlias = Literal["explore", "confirm"]

NEAR: Final = 4
"""Settings with at most so many times the allowed share of bad requests tell how requests near the boundary come in
bursts. Further out a queue grows through the whole window, and all of its requests are one burst."""

ATTEMPTS: Final = 3
"""At one point: a machine that spoils three in a row will spoil the fourth."""


@dataclass(frozen=True, slots=True)
class Told:
    """What came of a point.

    Attributes:
        counts: its requests.
        spoiled: the client broke one of its own rules.
    """

    counts: Counts
    spoiled: bool = False


@dataclass(slots=True)
class Candidate:
    """A setting that is to be settled.

    Attributes:
        index: of the setting.
        rank: when it became a candidate, from 1.
        counts: of its replicates; exploration is not among them.
        looks: replicates so far.
        settled: what they prove.
        error: of the look that settled it, else of the last one.
        effect: design effect that its counts were divided by.
    """

    index: int
    rank: int
    counts: Counts = field(default_factory=Counts)
    looks: int = 0
    settled: Settled | None = None
    error: float = 0.0
    effect: float = 1.0

    @property
    def independent(self) -> tuple[int, float]:
        """(requests, bad ones) that as many independent requests are worth."""
        return worth(self.counts, self.effect)


@dataclass(slots=True)
class Search:
    """What a search knows so far.

    Attributes:
        explored: by index, the windows of exploration together.
        candidates: by index.
        points: measured so far.
        discarded: those among them that the client spoiled, by number, from 0.
        stage: of the point that was asked for last.
    """

    explored: dict[int, Counts] = field(default_factory=dict)
    candidates: dict[int, Candidate] = field(default_factory=dict)
    points: int = 0
    discarded: list[int] = field(default_factory=list)
    stage: Stage = "explore"

    @property
    def holds(self) -> int | None:
        """The hardest setting that is certified to hold."""
        return max((one.index for one in self.candidates.values() if one.settled == "holds"), default=None)

    @property
    def fails(self) -> int | None:
        """The easiest setting that is certified not to hold."""
        return min((one.index for one in self.candidates.values() if one.settled == "does not hold"), default=None)

    def effect(self, allowed: float) -> float:
        """Design effect of all settings near the boundary together: bursts that one of them happened not to see."""
        near = [counts for counts in self.seen().values() if counts.share <= NEAR * allowed]
        return design_effect(near)

    def seen(self) -> dict[int, Counts]:
        """Everything that was measured, by index."""
        seen = dict(self.explored)
        for index, one in self.candidates.items():
            if one.looks:
                seen[index] = seen.get(index, Counts()) + one.counts
        return seen

    def fitted(self, *, confirmed: bool = False) -> dict[int, float]:
        """The share of bad requests by index, fitted so that it never falls; replicates count on request."""
        seen = self.seen() if confirmed else self.explored
        order = sorted(seen)
        shares = isotonic([seen[index].share for index in order], [max(1, seen[index].n) for index in order])
        return dict(zip(order, shares, strict=True))


def search(question: Question, state: Search) -> Generator[int, Told, None]:
    """Searches; `state` holds what is known at any time.

    Yields:
        Index of the setting to measure next; send what came of it.
    """
    yield from _explore(question, state)
    low, high = _crossing(state.fitted(), question.slo.allowed, len(question.values))
    yield from _confirm(question, state, low, high)


def _explore(question: Question, state: Search) -> Generator[int, Told, None]:
    allowed, last = question.slo.allowed, len(question.values) - 1

    def seems_to_hold(index: int) -> Generator[int, Told, bool]:
        counts = yield from _measured(question, state, index, "explore")
        state.explored[index] = state.explored.get(index, Counts()) + counts
        return counts.share <= allowed

    def spent() -> bool:
        return state.points >= question.most_points

    at = question.start
    good, bad = -1, last + 1
    if (yield from seems_to_hold(at)):
        good = at
        while good < last and bad > last and not spent():
            at = harder(question, good)
            good, bad = (at, bad) if (yield from seems_to_hold(at)) else (good, at)
    else:
        bad = at
        while bad > 0 and good < 0 and not spent():
            at = easier(question, bad)
            good, bad = (at, bad) if (yield from seems_to_hold(at)) else (good, at)
    while 0 <= good < bad - 1 <= last and not spent():
        at = (good + bad) // 2
        good, bad = (at, bad) if (yield from seems_to_hold(at)) else (good, at)


def _measured(question: Question, state: Search, index: int, stage: Stage) -> Generator[int, Told, Counts]:
    """A point of a setting, again where the client spoiled it."""
    for attempt in range(1, ATTEMPTS + 1):
        state.stage = stage
        told = yield index
        state.points += 1
        if not told.spoiled or attempt == ATTEMPTS or state.points >= question.most_points:
            break
        state.discarded.append(state.points - 1)
    return told.counts


def harder(question: Question, index: int) -> int:
    """The first setting of at least twice the load, or the last one."""
    values = question.values
    far = (k for k in range(index + 1, len(values)) if _ratio(values[k], values[index]) >= 2)
    return next(far, len(values) - 1)


def easier(question: Question, index: int) -> int:
    """The last setting of at most half the load, or the first one."""
    values = question.values
    far = (k for k in range(index - 1, -1, -1) if _ratio(values[k], values[index]) >= 2)
    return next(far, 0)


def _ratio(one: float, other: float) -> float:
    return max(one, other) / min(one, other)


def _crossing(fitted: Mapping[int, float], allowed: float, count: int) -> tuple[int, int]:
    """The last index under the allowed share and the first one over it; -1 and `count` where there is none."""
    under = [index for index, share in fitted.items() if share <= allowed]
    over = [index for index, share in fitted.items() if share > allowed]
    return max(under, default=-1), min(over, default=count)


def _confirm(question: Question, state: Search, low: int, high: int) -> Generator[int, Told, None]:
    """Measures the two candidates in turns until both are settled, or there is none left to try."""
    last = len(question.values) - 1
    step_down = step_up = 1
    while state.points < question.most_points:
        ends = [index for index in (low, high) if 0 <= index <= last]
        open_ends = [index for index in ends if _goes_on(question, state, index)]
        if open_ends:
            for index in open_ends:
                if state.points < question.most_points:
                    yield from _look(question, state, index)
            continue
        moved_low, moved_high = low, high
        if low >= 0 and _settled(state, low) != "holds":
            moved_low, step_down = max(low - step_down, -1 if low == 0 else 0), step_down * 2
        if high <= last and _settled(state, high) != "does not hold":
            moved_high, step_up = min(high + step_up, last + 1 if high == last else last), step_up * 2
        if (moved_low, moved_high) == (low, high):
            return
        low, high = _within(state, moved_low, moved_high)


def _within(state: Search, low: int, high: int) -> tuple[int, int]:
    """The candidates, where what is already certified bounds them better."""
    holds, fails = state.holds, state.fails
    return (low if holds is None else max(low, holds)), (high if fails is None else min(high, fails))


def _goes_on(question: Question, state: Search, index: int) -> bool:
    candidate = state.candidates.get(index)
    return candidate is None or (candidate.settled is None and candidate.looks < question.looks)


def _settled(state: Search, index: int) -> Settled | None:
    return state.candidates[index].settled


def _look(question: Question, state: Search, index: int) -> Generator[int, Told, None]:
    candidate = state.candidates.setdefault(index, Candidate(index, rank=len(state.candidates) + 1))
    candidate.counts += yield from _measured(question, state, index, "confirm")
    candidate.looks += 1
    candidate.error = error_of_look(question.error, candidate.rank, question.looks)
    candidate.effect = max(design_effect([candidate.counts]), state.effect(question.slo.allowed))
    candidate.settled = settle(candidate.counts, question.slo.share, candidate.error, candidate.effect)
