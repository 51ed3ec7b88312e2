"""Drives the searches of a run, point by point: live to know the next point, and again from the records to check it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench.explain.search.boundary import Search, search

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from bench.explain.search.boundary import Stage, Told
    from bench.explain.search.question import Question
    from recipes.schema import Point


@dataclass(frozen=True, slots=True)
class Step:
    """A point that a search asks for.

    Attributes:
        question: which search, from 0.
        index: of the setting.
        stage: what it is for.
        point: the operating point.
    """

    question: int
    index: int
    stage: Stage
    point: Point


@dataclass(frozen=True, slots=True)
class Replay:
    """What the searches asked for, and what they know.

    Attributes:
        steps: one for each point that was measured.
        following: the next one; None where the searches have ended.
        states: one for each question that was begun, in order.
    """

    steps: tuple[Step, ...]
    following: Step | None
    states: tuple[Search, ...]

    @property
    def discarded(self) -> frozenset[int]:
        """Points, by their index in the ladder, that the client spoiled and that do not count."""
        found = set()
        for number, state in enumerate(self.states):
            mine = [index for index, step in enumerate(self.steps) if step.question == number]
            found |= {mine[point] for point in state.discarded}
        return frozenset(found)


def replay(questions: Sequence[Question], points: int, told_of: Callable[[int, Question], Told]) -> Replay:
    """Asks the questions one after the other.

    Args:
        questions: in order.
        points: so many have been measured.
        told_of: what the point with this index in the ladder came to, for this question.
    """
    steps: list[Step] = []
    states: list[Search] = []
    for step, answer in _asked(questions, states):
        if len(steps) == points:
            return Replay(tuple(steps), step, tuple(states))
        steps.append(step)
        answer(told_of(len(steps) - 1, questions[step.question]))
    return Replay(tuple(steps), None, tuple(states))


def _asked(questions: Sequence[Question], states: list[Search]) -> Iterator[tuple[Step, Callable[[Told], None]]]:
    """Every point that is asked for, with a function that takes what came of it before the next one is asked for."""
    for number, question in enumerate(questions):
        state = Search()
        states.append(state)
        course = search(question, state)
        answers: list[Told] = []
        index = next(course, None)
        while index is not None:
            yield Step(number, index, state.stage, question.point(index)), answers.append
            try:
                index = course.send(answers.pop())
            except StopIteration:
                index = None
