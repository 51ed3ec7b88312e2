"""A comparison's figures as people read them; what is the same in the terminal, the Markdown and the page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bench.report.render import words
from bench.report.render.verdict import Tone

if TYPE_CHECKING:
    from bench.explain.compare.outcome import Comparison, Effect, Pair

TONES: Final[dict[str, Tone]] = {
    "no regression": "good",
    "regression": "bad",
    "undecided": "warn",
    "reproduced": "good",
    "not reproduced": "bad",
    "not enough samples": "warn",
    "not comparable": "plain",
}


MOST_TOLD: Final = 10.0
"""A change by more than this factor is not told in digits: such an end of an interval says that nothing is known."""


def change(ratio: float | None) -> str:
    """A ratio as a change: "+10.0 %", "-16.7 %", "over +900 %"."""
    if ratio is None:
        return words.ABSENT
    return f"{(ratio - 1) * 100:+.1f} %" if ratio <= MOST_TOLD else f"over {(MOST_TOLD - 1) * 100:+g} %"


def change_interval(effect: Effect) -> str:
    """The interval of a change, or why there is none."""
    return effect.none if effect.low is None else f"{change(effect.low)} to {change(effect.high)}"


def figure(effect: Effect, value: float | None) -> str:
    """One side's figure: seconds of a percentile, a plain number of a throughput."""
    return words.seconds(value) if effect.metric is not None else words.number(value)


def difference(effect: Effect) -> str:
    """The difference with its interval, in the figure's unit; empty where there is none."""
    if effect.difference is None:
        return ""
    one, low, high = (
        ("-" if value < 0 else "+") + figure(effect, abs(value))
        for value in (effect.difference, effect.difference_low or 0.0, effect.difference_high or 0.0)
    )
    return f"{one} ({low} to {high})"


def failures(failed: int, n: int) -> str:
    """E.g. "3 of 1,200 (0.3 %)"."""
    return f"{failed:,} of {n:,}" + (f" ({words.percent(failed / n)})" if n and failed else "")


def headline(comparison: Comparison) -> tuple[Tone, str]:
    """The most important thing first: what the gates and the claims came to, else what differs most."""
    gates = [gated for pair in comparison.pairs for gated in pair.gates]
    claims = [claim for pair in comparison.pairs for claim in pair.claims if claim.verdict != "not comparable"]
    regressions = [gated for gated in gates if gated.verdict == "regression"]
    if regressions:
        return "bad", f"Regression: {words.plural(len(regressions), 'gate')} of {len(gates)} broken for certain."
    if undecided := [gated for gated in gates if gated.verdict == "undecided"]:
        return "warn", f"Undecided: {words.plural(len(undecided), 'gate')} of {len(gates)} cannot be told from chance."
    if gates:
        return "good", f"No regression: {words.plural(len(gates), 'gate')} kept."
    if claims:
        worst = next((claim for claim in claims if claim.verdict == "not reproduced"), claims[0])
        return TONES[worst.verdict], f"The published change {worst.id} is {_claim(worst.verdict)}."
    return "plain", _most_changed(comparison)


def _claim(verdict: str) -> str:
    return "not judged: not enough samples" if verdict == "not enough samples" else verdict


def _most_changed(comparison: Comparison) -> str:
    sure = [
        (point.label, effect)
        for pair in comparison.pairs
        for point in pair.points
        for effect in point.effects
        if effect.name == "p95 of E2E" and effect.low is not None and effect.high is not None
        if effect.low > 1 or effect.high < 1
    ]
    if not sure:
        return "No p95 of E2E differs by more than chance allows."
    label, effect = max(sure, key=lambda each: abs((each[1].ratio or 1) - 1))
    only = ", between these two engine starts only" if effect.basis == "within these two starts" else ""
    return f"p95 of E2E at {label}: {change(effect.ratio)} ({change_interval(effect)}){only}."


def about(pair: Pair) -> str:
    """What the two reports are to each other."""
    if pair.same_fingerprint:
        return "the same fingerprint: repeats of each other"
    groups = list(dict.fromkeys(each.group for each in pair.differences))
    return f"different fingerprints; what differs: {', '.join(groups) or 'nothing that is recorded'}"
