"""Rules about correctness under the settings that were measured: the same request gets the same answer.

Judged from the probe's raw replies (`bench.observe.probe`). Replies that part at a tie are the same as far as anybody
can tell (`bench.stats.ties`); those that part elsewhere are another answer, and a fast wrong answer is no measurement.
Where another prompt got the same reply, log-probabilities decide (`bench.report.probe_rows`).
A report from before there was a probe has none of these rules.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from bench.observe.probe import STEPS, pairs
from bench.records import Outcome
from bench.report.checks import Finding, together
from bench.report.counters import TOTALS
from bench.report.disclosure import accepts_at_random, random_weights
from bench.report.probe_rows import ASK_AN_ENGINE, BETWEEN, by_log_probabilities
from bench.report.rules_engine import COUNTERS_ADVICE
from bench.stats.moved import NEAR
from bench.stats.ties import lead, shared, tie_limit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from bench.observe.observations import Probed
    from bench.observe.probe import Pair, ProbeReply, ProbeTrial
    from bench.report.counters import Total
    from bench.report.measurement import Measurement
    from bench.report.model import Check

ANSWERED: Final = "probe requests were answered in full"
REPEATED: Final = "the same request gets the same answer after others"
CACHED: Final = "a cached prompt gets the same answer as an uncached one"
RULES: Final = (ANSWERED, REPEATED, CACHED)

Says: TypeAlias = Literal["same", "tie", "different", "unknown"]

_SAME: Final = "the same tokens, or a tie where they part"
_SAME_ROWS: Final = f"{_SAME}; log-probabilities that moved {NEAR:.0%} of the way to another prompt's at most"
_WHOLE: Final = "every request answered with the exact token counts, and counted by the engine"
_ADVICE: Final[dict[str, str]] = {
    REPEATED: "Something of one request reaches another, or a kernel gives another result each time: turn off prefix "
    "caching, speculative decoding, CUDA graphs and asynchronous scheduling one at a time (--set engine.flags...) "
    "until this rule is kept, and report what was found to the engine's makers.",
    CACHED: "The prefix cache gives another state than the prompt itself (rule 9 of bench.workload.prefix_cache_rules "
    "names one way): leave out engine.flags.prefix_match_unit or speculative decoding, or turn prefix caching off.",
}
NOT_APPLICABLE: Final = "not applicable"
_AT_RANDOM: Final = (
    f"{NOT_APPLICABLE}: drafts are accepted at random (rejection_sample_method = synthetic), so replies mean nothing"
)
_NO_IDS: Final = "the server does not say which tokens it gave (return_token_ids)"
_UNFINISHED: Final = "the probe did not come to its end"
_BUSY: Final = 429
"""The only client error that says nothing about the request."""


def same_answers(measurement: Measurement) -> list[Check]:
    """All of them; none where nobody probed."""
    seen = measurement.seen
    runs = sorted(seen.started.keys() | {run for run, _ in seen.probed})
    if not seen.probed:
        return []
    judges: dict[str, Callable[[Measurement, int], Finding]] = {ANSWERED: _answered, REPEATED: _repeated}
    if any(started.prefix_caching is not False for started in seen.started.values()):
        judges[CACHED] = _cached
    return [together(rule, None, {run: judge(measurement, run) for run in runs}) for rule, judge in judges.items()]


@dataclass(frozen=True, slots=True)
class Compared:
    """What two replies to the same prompt come to.

    Attributes:
        says: "same", "tie" (they part where rounding decides), "different", or "unknown".
        tokens: leading tokens that both have.
        of: length of the replies.
        detail: where and by how much they part, or why that is not known.
    """

    says: Says
    tokens: int
    of: int
    detail: str = ""


def compared(pair: Pair, trial: ProbeTrial, *, trained: bool) -> Compared:
    """Judges two replies.

    Args:
        pair: the replies.
        trial: which the odds where they part are in.
        trained: False for random weights.
    """
    at = pair.shared
    if not pair.parts:
        return Compared("same", at, at)
    length = max(len(pair.first), len(pair.second))
    where = f"part after {at:,} of {length:,} tokens"
    if at == min(len(pair.first), len(pair.second)):
        return Compared("unknown", at, length, f"{where}, where one of them ends")
    gap = _gap(pair, trial)
    if gap is None:
        untold = "whether at a tie is not known: the server gives no log-probabilities"
        return Compared("unknown", at, length, f"{where}; {untold}")
    limit = tie_limit(trained=trained, other_gap=_other_gap(trial))
    detail = f"{where}, where the two candidates moved by {gap:.2f} nats; a tie by {limit:.2f} at most"
    return Compared("different" if gap > limit else "tie", at, length, detail)


def _gap(pair: Pair, trial: ProbeTrial) -> float | None:
    """By how many nats the two candidates moved, at least.

    Each was the most likely token once, and the engine was asked again on the way that its reply was computed: how far
    it is behind the most likely one there, and how far the two moved against each other from the one way to the other.
    """
    start, one, other = pair.first[: pair.shared], pair.first[pair.shared], pair.second[pair.shared]
    there = _odds(trial, "A", start, cached=True)
    here = there if pair.one_path else _odds(trial, "A", start, cached=False)
    if not here or not there:
        return None
    return max(
        lead(here, _best(here), one),
        lead(there, _best(there), other),
        lead(here, one, other) + lead(there, other, one),
    )


def _best(row: Mapping[int, float]) -> int:
    return max(row, key=lambda token: row[token])


def _other_gap(trial: ProbeTrial) -> float | None:
    """As `_gap`, between the replies to two different prompts."""
    mine, others = trial.ids("A2"), trial.ids("B")
    if mine is None or others is None:
        return None
    at = shared(mine, others)
    first, second = (_odds(trial, of, mine[:at], cached=True) for of in ("A", "B"))
    if not first or not second or at >= min(len(mine), len(others)):
        return None
    return lead(first, mine[at], others[at]) + lead(second, others[at], mine[at])


def _odds(trial: ProbeTrial, of: str, after: tuple[int, ...], *, cached: bool) -> Mapping[int, float]:
    found = (dict(each.likely) for each in trial.odds if (each.of, each.after, each.cached) == (of, after, cached))
    return next(found, {})


def _phases(measurement: Measurement, run: int) -> tuple[Probed | None, Probed | None]:
    before, after = (measurement.seen.probed.get((run, when)) for when in ("before", "after"))
    return before, after


def _answered(measurement: Measurement, run: int) -> Finding:
    started = measurement.seen.started.get(run)
    external = started is not None and started.kind_of_engine == "external"
    phases = [phase for phase in _phases(measurement, run) if phase is not None]
    for phase in phases:
        for name, reply in _replies(phase):
            if _refused(reply) and external:
                return Finding("unknown", f"the server refuses {name}: {reply.error}", _WHOLE, "See the server's log.")
            if not _whole(reply):
                lost = f"{name}, {phase.when} the ladder: {reply.outcome.value}, {reply.error or 'wrong token counts'}"
                return Finding("broken", lost, _WHOLE, "See the engine's log at that time.")
        if missing := [step for trial in phase.trials for step in STEPS if step not in trial.replies]:
            return Finding("broken", f"no reply to {missing[0]} {phase.when} the ladder", _WHOLE, "Measure again.")
    return _counted(phases) if len(phases) == 2 else Finding("unknown", _UNFINISHED, _WHOLE, "Let the run end.")


def _counted(phases: Sequence[Probed]) -> Finding:
    """The engine counted what the client did."""
    ours = _sums([_client_totals(phase) for phase in phases])
    counted = [_engine_totals(phase) for phase in phases]
    if any(value is None for each in counted for value in each.values()):
        return Finding("unknown", "the engine's counters around the probe are missing", _WHOLE, COUNTERS_ADVICE)
    theirs = _sums([{total: value or 0.0 for total, value in each.items()} for each in counted])
    if theirs != ours:
        return Finding(
            "broken",
            f"the engine counted {_told(theirs)}; the client {_told(ours)}",
            _WHOLE,
            "Somebody else used the engine, or requests got lost between it and us: measure an engine that nobody else "
            "talks to.",
        )
    return Finding("kept", _told(ours), _WHOLE)


def _replies(phase: Probed) -> Iterator[tuple[str, ProbeReply]]:
    """Every request of a phase with its name, without those for odds that a server does not give."""
    for trial in phase.trials:
        yield from ((f"{step} of {trial.agent}", reply) for step, reply in trial.replies.items())
        asked = (*trial.odds, *trial.rows.values())
        yield from ((f"odds of {trial.agent}", odds.reply) for odds in asked if not _refused(odds.reply))


def _refused(reply: ProbeReply) -> bool:
    return reply.outcome is Outcome.HTTP_ERROR and 400 <= (reply.status or 0) < 500 and reply.status != _BUSY


def _whole(reply: ProbeReply) -> bool:
    return (
        (reply.outcome, reply.status) == (Outcome.OK, 200)
        and bool(reply.finish_reason)
        and reply.prompt_tokens == reply.prompt_tokens_expected
        and reply.completion_tokens == reply.requested_tokens
        and (reply.token_ids is None or len(reply.token_ids) == reply.requested_tokens)
    )


def _client_totals(phase: Probed) -> dict[Total, float]:
    replies = [reply for _, reply in _replies(phase)]
    return {
        "requests_finished": float(len(replies)),
        "prompt_tokens": float(sum(reply.prompt_tokens or 0 for reply in replies)),
        "generation_tokens": float(sum(reply.completion_tokens or 0 for reply in replies)),
    }


def _engine_totals(phase: Probed) -> dict[Total, float | None]:
    return {total: _increase(phase, total) for total in TOTALS}


def _increase(phase: Probed, counter: str) -> float | None:
    first, last = getattr(phase.at_begin, counter), getattr(phase.at_end, counter)
    return None if first is None or last is None else float(last - first)


def _sums(phases: Sequence[Mapping[Total, float]]) -> dict[Total, float]:
    return {total: sum(phase[total] for phase in phases) for total in TOTALS}


def _told(totals: Mapping[Total, float]) -> str:
    return ", ".join(f"{totals[total]:,.0f} {words}" for total, words in TOTALS.items())


def _repeated(measurement: Measurement, run: int) -> Finding:
    before, after = _phases(measurement, run)
    trials: list[tuple[ProbeTrial, ProbeTrial | None]] = [(trial, None) for trial in before.trials] if before else []
    if after is not None:
        earlier = {trial.agent: trial for trial, _ in trials}
        trials += [(trial, earlier.get(trial.agent)) for trial in after.trials]
    return _same(measurement, run, REPEATED, trials, finished=before is not None and after is not None)


def _cached(measurement: Measurement, run: int) -> Finding:
    before, _ = _phases(measurement, run)
    trials: list[tuple[ProbeTrial, ProbeTrial | None]] = [(trial, None) for trial in before.trials] if before else []
    found = _same(measurement, run, CACHED, trials, finished=True)
    if before is None or found.verdict != "kept":
        return found
    hits, prompts = _increase(before, "prompt_tokens_cached"), _increase(before, "prompt_tokens")
    if hits is None or prompts is None:
        return found
    told = f"{found.measured}; {hits:,.0f} of {prompts:,.0f} prompt tokens came from the cache"
    if not hits:
        return Finding("unknown", told, found.expected, "Prompts are too short for a whole block of the cache.")
    return Finding(found.verdict, told, found.expected)


def _same(
    measurement: Measurement,
    run: int,
    rule: str,
    trials: Sequence[tuple[ProbeTrial, ProbeTrial | None]],
    *,
    finished: bool,
) -> Finding:
    """The finding of one of the two rules about replies, from the probe's trials, each with its earlier one."""
    if accepts_at_random(measurement.recipe):
        return Finding("unknown", _AT_RANDOM, _SAME, "The same recipe without synthetic acceptance can be asked.")
    trained = not random_weights(measurement.recipe)
    expected = _SAME_ROWS if any(trial.rows for trial, _ in trials) else _SAME
    every = [trial for phase in _phases(measurement, run) if phase is not None for trial in phase.trials]
    about = [
        (pair, trial, compared(pair, trial, trained=trained))
        for trial, earlier in trials
        for pair in pairs(trial, earlier)
        if (pair.what == "cached") == (rule == CACHED)
    ]
    for pair, trial, outcome in about:
        if outcome.says == "different":
            told = f"two replies to the same prompt of {trial.agent} ({BETWEEN[pair.what]}) {outcome.detail}"
            return Finding("broken", told, expected, _ADVICE[rule])
    rows = by_log_probabilities(trials, every, cached=rule == CACHED)
    if rows is not None and rows.verdict == "broken":
        return Finding("broken", rows.words, expected, _ADVICE[rule])
    results = [outcome for _, _, outcome in about]
    unknown = next((outcome.detail for outcome in results if outcome.says == "unknown"), "")
    if not results:
        told = _NO_IDS if any(trial.replies for trial, _ in trials) else _UNFINISHED
    elif unknown:
        told = f"two replies to the same prompt {unknown}"
    elif not finished:
        told = _UNFINISHED
    elif rows is not None and rows.verdict == "unknown":
        return Finding("unknown", rows.words, expected, rows.advice)
    else:
        told = "" if rows is None else f"; {rows.words}"
        return _by_ties(results, told, expected, trained=trained)
    return Finding("unknown", told, expected, ASK_AN_ENGINE)


def _by_ties(results: Sequence[Compared], besides: str, expected: str, *, trained: bool) -> Finding:
    """Kept, unless ties leave less than one reply's worth of tokens that were the same."""
    tokens, ties = sum(outcome.tokens for outcome in results), [each for each in results if each.says == "tie"]
    told = f"{len(results) - len(ties)} of {len(results)} pairs of replies are the same, {tokens:,} tokens in all"
    if ties:
        told += f"; {len(ties)} at a tie, the first: they {ties[0].detail}"
    told += besides
    if tokens >= max(outcome.of for outcome in results):
        return Finding("kept", told, expected)
    flat = "" if trained else "; with random weights all logits are nearly equal: only another state would be noticed"
    return Finding("unknown", f"{told}{flat}", expected, "Longer replies (workload.output_tokens) tell more.")
