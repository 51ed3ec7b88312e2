"""What searches came to, on a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rich.console import RenderableType

    from bench.explain.search.outcome import Answer, Cliff, Measured, Proof, SearchOutcome

STYLES: Final[dict[Answer, str]] = {
    "boundary": "bold green",
    "not in order": "bold red",
    "holds throughout": "bold green",
    "holds, end open": "green",
    "holds nowhere": "bold red",
    "undecided": "yellow",
    "cut off": "yellow",
    "invalid measurement": "bold red",
}


def lines(outcomes: Sequence[SearchOutcome]) -> Iterator[RenderableType]:
    """A headline for each question, then what it rests on."""
    for outcome in outcomes:
        if outcome.question.claim is not None:
            asked = f"{outcome.question.claim.id}, {outcome.question.slo.says} at {outcome.question.base.label}"
            yield Text(asked, "bold")
        yield _settings(outcome)
        yield Text()
        says = outcome.says if len(outcomes) == 1 else outcome.among_others
        yield Text.assemble((outcome.answer, STYLES[outcome.answer]), f"  {says}.")
        yield from (Text(f"  {proof_line(proof)}", "dim") for proof in outcome.proofs)
        yield from (Text(f"  {cliff_line(cliff)}", "yellow") for cliff in outcome.cliffs)
        if outcome.reasons:
            yield Text(f"  Not comparable with the claim: {'; '.join(outcome.reasons)}.", "dim")


def _settings(outcome: SearchOutcome) -> Table:
    """Every setting with all of its points together; fits into 80 columns."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("setting", no_wrap=True)
    for title in ("points", "requests", "broke it", measure_of(outcome), "interval"):
        table.add_column(title, justify="right", no_wrap=True)
    for each in outcome.measured:
        table.add_row(
            each.setting,
            str(len(each.points)),
            f"{each.n:,}",
            f"{each.bad:,}",
            "--" if each.latency_s is None else f"{each.latency_s:.3f}",
            interval_of(each) or "--",
        )
    return table


def measure_of(outcome: SearchOutcome) -> str:
    """What is measured at each setting: "p95 E2E"."""
    slo = outcome.question.slo
    return f"p{slo.share * 100:g} {slo.limits[0].metric.upper()}"


def interval_of(measured: Measured) -> str:
    """The interval in seconds; open where its end falls among the failures."""
    if measured.low_s is None:
        return ""
    return f"{measured.low_s:.3f} to " + ("--" if measured.high_s is None else f"{measured.high_s:.3f} s")


def proof_line(proof: Proof) -> str:
    """E.g. "12 streams: holds, 7 of 412 requests over it; up to 9 certify it at 99.7 %, 2 replicates"."""
    counted = f"{proof.bad:,} of {proof.n:,} requests broke it"
    if proof.design_effect > 1:
        counted += f", worth {proof.bad_independent:.1f} of {proof.n_independent:,} independent ones"
    confidence = f"at {proof.confidence * 100:.2f} %"
    certify = "too few to certify it" if proof.allowed is None else f"up to {proof.allowed:,} certify it"
    refute = "too few to refute it" if proof.refuting is None else f"{proof.refuting:,} refute it"
    settled = proof.settled or "not settled"
    times = f"{proof.replicates} replicate{'' if proof.replicates == 1 else 's'}"
    return f"{proof.setting}: {settled}; {counted}; {certify}, {refute} {confidence}; {times}"


def cliff_line(cliff: Cliff) -> str:
    """E.g. "cliff between 12 and 13 streams: at least 3.1 times; a queue stands: ..."."""
    grows = "into failures" if cliff.factor is None else f"at least {cliff.factor:.1f} times as slow"
    why = "; ".join(cliff.evidence) or "nothing that was observed explains it"
    return f"cliff from {cliff.before} to {cliff.after}, {grows}: {why}"
