"""From evidence to the outcome of its searches."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from math import isfinite
from typing import TYPE_CHECKING, Final

from bench.explain.search.cliffs import cliffs
from bench.explain.search.outcome import Measured, Proof, SearchOutcome
from bench.explain.search.replay import replay
from bench.explain.search.tally import latencies, spoiled_points, told
from bench.explain.search.words import answer_of, says
from bench.observe.observations import SearchAsked
from bench.report.checks import Finding, together
from bench.report.claims import differences
from bench.stats.certificate import allowed_over, refuting_over
from bench.stats.monotone import isotonic
from bench.stats.quantiles import quantile

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from bench.explain.search.boundary import Candidate
    from bench.explain.search.question import Question
    from bench.explain.search.replay import Replay
    from bench.observe.observations import Observation
    from bench.report.measurement import Measurement
    from bench.report.model import Check

RULE: Final = "the points are those that the search asks for"

OF_OVERLOAD: Final = frozenset(
    {"no request was preempted", "the beginning of the window does not decide its percentiles"}
)
"""Rules that an engine breaks because it is overloaded. They spoil a proof that a setting holds, and not one that it
does not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """All searches of a run.

    Attributes:
        outcomes: one for each question that was begun.
        check: whether the ladder is the one that the searches ask for.
        valid: no rule was broken where an answer rests. Exploration, and what only an overloaded engine does at a
            setting that is shown not to hold, may break rules.
    """

    outcomes: tuple[SearchOutcome, ...]
    check: Check
    valid: bool


def find(
    measurement: Measurement,
    observations: Sequence[Observation],
    checks: Sequence[Check],
    environment: Mapping[str, Any],
) -> Found | None:
    """Answers the questions of a run.

    Args:
        measurement: sorted evidence.
        observations: of the same evidence.
        checks: of all rules.
        environment: where it was measured; empty where the engine is somebody else's.

    Returns:
        None where the run was no search.
    """
    asked = next((seen for seen in observations if isinstance(seen, SearchAsked)), None)
    if asked is None:
        return None
    ladder = measurement.recipe.load.ladder
    whole = next((index for index in range(len(ladder)) if not measurement.is_complete(index)), len(ladder))
    spoiled = spoiled_points(measurement)
    driven = replay(asked.questions, whole, lambda index, question: told(measurement, index, question.slo, spoiled))
    check = _as_asked(driven, measurement, whole)
    broken = [each for each in (*checks, check) if each.verdict == "broken"]
    outcomes, undone = [], False
    for number, (question, state) in enumerate(zip(asked.questions, driven.states, strict=False)):
        spoils = any(_spoils(each, driven, number) for each in broken)
        undone = undone or spoils
        cut = driven.following is not None and driven.following.question == number
        answer = answer_of(question, state, cut=cut, invalid=spoils)
        measured = _measured(measurement, question, driven, number)
        reasons = () if question.claim is None else tuple(differences(measurement.recipe, question.claim, environment))
        outcomes.append(
            SearchOutcome(
                question=question,
                answer=answer,
                says=says(question, state, answer, comparable=not reasons),
                holds=None if state.holds is None else question.values[state.holds],
                fails=None if state.fails is None else question.values[state.fails],
                confidence=1 - question.error,
                crossing=_crossing(measured, question.slo.allowed),
                proofs=tuple(_proof(question, one) for _, one in sorted(state.candidates.items()) if one.looks),
                measured=measured,
                cliffs=cliffs(measured, measurement, observations),
                comparable=None if question.claim is None else not reasons,
                reasons=reasons,
            )
        )
    return Found(outcomes=tuple(outcomes), check=check, valid=not undone)


def _as_asked(driven: Replay, measurement: Measurement, whole: int) -> Check:
    """The ladder is what the searches ask for, given what its points came to: none was left out, added or repeated."""
    ladder = measurement.recipe.load.ladder
    asked = [step.point for step in driven.steps] + ([driven.following.point] if driven.following else [])
    expected = "each point follows from the records of those before it"
    wrong = [index for index, point in enumerate(ladder) if index >= len(asked) or point != asked[index]]
    if wrong:
        first = wrong[0]
        instead = asked[first].label if first < len(asked) else "the end"
        finding = Finding(
            "broken",
            f"point {first + 1} is {ladder[first].label}; the search asks for {instead}",
            expected,
            "The errors of an adaptive search are stated for its own choices only: search again.",
        )
    else:
        finding = Finding("kept", f"{whole:,} points", expected)
    return together(RULE, None, {0: finding})


def _spoils(check: Check, driven: Replay, number: int) -> bool:
    """Whether a broken rule takes away what a search rests on."""
    if check.point is None:
        return True
    if check.point >= len(driven.steps) or check.point in driven.discarded:
        return False
    step = driven.steps[check.point]
    if step.question != number or step.stage == "explore":
        return False
    settled = driven.states[number].candidates[step.index].settled
    return settled == "holds" or (settled == "does not hold" and check.rule not in OF_OVERLOAD)


def _proof(question: Question, candidate: Candidate) -> Proof:
    n, bad = candidate.independent
    confidence = 1 - candidate.error
    return Proof(
        setting=question.setting(candidate.index),
        value=question.values[candidate.index],
        settled=candidate.settled,
        replicates=candidate.looks,
        n=candidate.counts.n,
        bad=candidate.counts.bad,
        design_effect=candidate.effect,
        n_independent=n,
        bad_independent=bad,
        allowed=allowed_over(n, question.slo.share, confidence),
        refuting=refuting_over(n, question.slo.share, confidence),
        confidence=confidence,
    )


def _measured(measurement: Measurement, question: Question, driven: Replay, number: int) -> tuple[Measured, ...]:
    """Every setting with all of its points, and the two fits through them."""
    points: dict[int, list[int]] = {}
    for point, step in enumerate(driven.steps):
        if step.question == number and point not in driven.discarded:
            points.setdefault(step.index, []).append(point)
    shares = driven.states[number].fitted(confirmed=True)
    seen = driven.states[number].seen()
    order = sorted(points)
    samples = [latencies(measurement, points[index], question.slo) for index in order]
    found = [quantile(sample, question.slo.share) for sample in samples]
    finite = [each if each is not None and isfinite(each.value) else None for each in found]
    known = [(each.value, float(each.n)) for each in finite if each is not None]
    fit = iter(isotonic([value for value, _ in known], [n for _, n in known]))
    return tuple(
        Measured(
            value=question.values[index],
            setting=question.setting(index),
            points=tuple(points[index]),
            n=seen[index].n,
            bad=seen[index].bad,
            fitted=shares[index],
            latency_s=None if each is None else each.value,
            low_s=None if each is None else each.low,
            high_s=None if each is None or not isfinite(each.high) else each.high,
            fitted_s=None if each is None else next(fit),
        )
        for index, each in zip(order, finite, strict=True)
    )


def _crossing(measured: Sequence[Measured], allowed: float) -> float | None:
    """Where straight lines through the fitted shares cross the allowed one."""
    for before, after in pairwise(measured):
        if before.fitted <= allowed < after.fitted:
            part = (allowed - before.fitted) / (after.fitted - before.fitted)
            return before.value + part * (after.value - before.value)
    return None
