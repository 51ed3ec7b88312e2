"""Published figures against this report: one verdict each, and why.

In this order:

1. *not comparable*: the claim is about something else than what was measured.
2. *invalid measurement*: a rule was broken at the claim's point, or for the whole run. (A rule broken at another point
   leaves this one's figures alone; the report as a whole is invalid all the same.)
3. The window of the claim's point was not finished: *not enough samples*.
4. With n requests in the window and m of them over the limit or failed: so few that the limit is certified at 99 %
   (`bench.stats.certificate`): *reproduced*. So many that it is refuted at 99 %: *not reproduced*. In between n
   requests cannot tell, whatever side of the limit the percentile itself is on: *not enough samples*.

A claim is an upper limit: who beats a published figure has reproduced it. With somebody else's engine, of which we know
only what it says, the most that can be said is *consistent with*.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from bench.errors import Exit
from bench.report.disclosure import holds_for, not_real, scaled
from bench.report.estimates import certificate, estimate
from bench.report.model import ClaimVerdict
from bench.report.points import claim_sample
from bench.stats.certificate import refuting_over, smallest_certifiable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import Any

    from bench.explain.search.outcome import SearchOutcome
    from bench.report.measurement import Measurement
    from bench.report.model import Certificate, Check
    from recipes.schema import Claim, Recipe

Verdict: TypeAlias = Literal[
    "reproduced",
    "consistent with",
    "not reproduced",
    "not comparable",
    "not enough samples",
    "invalid measurement",
]

_LEFT_OPEN: Final = (
    "load.",
    "engine.ready_timeout_s",
    "workload.agents",
    "workload.shared_prefix_tokens",
    "workload.caller_tokens",
    "workload.turns",
)
"""Values that the article leaves open: to set another one explores what a claim holds for, and leaves it comparable.
(The ladder is among them: a claim on a point that is not in it is refused by itself.)"""


def verdicts(
    measurement: Measurement, checks: Iterable[Check], environment: Mapping[str, Any], *, external: bool
) -> tuple[ClaimVerdict, ...]:
    """The verdict of each claim of the recipe.

    Args:
        measurement: sorted evidence.
        checks: of `bench.report.validity.checks`.
        environment: where it was measured.
        external: somebody else's engine answered.
    """
    broken = [check for check in checks if check.verdict == "broken"]
    # The environment is that of the client; of somebody else's engine it says nothing.
    machine = {} if external else environment
    return tuple(_judge(measurement, claim, broken, machine, external=external) for claim in measurement.recipe.claims)


def exit_code(
    claims: Iterable[ClaimVerdict],
    searches: Iterable[SearchOutcome] = (),
    *,
    valid: bool,
    partial: bool,
    by_user: bool,
) -> Exit:
    """What the command returns.

    A partial report is a failure whatever it shows; an invalid measurement proves nothing. A claim that too few samples
    could not settle has not been shown to hold, and so did not. Of a search, no setting has been shown to hold.
    """
    if partial:
        return Exit.INTERRUPTED if by_user else Exit.FAILURE
    if not valid:
        return Exit.INVALID
    held = all(claim.verdict in ("reproduced", "consistent with", "not comparable") for claim in claims)
    found = all(search.found for search in searches)
    return Exit.OK if held and found else Exit.CLAIM_FAILED


def _judge(
    measurement: Measurement, claim: Claim, broken: list[Check], environment: Mapping[str, Any], *, external: bool
) -> ClaimVerdict:
    recipe = measurement.recipe
    index = next((i for i, point in enumerate(recipe.load.ladder) if point == claim.point), None)
    spoiled = [check for check in broken if check.point in (None, index)]
    finished = index is not None and measurement.is_complete(index)
    sample = claim_sample(measurement, claim, index) if index in measurement.begun and index is not None else None
    proof = None if sample is None else certificate(sample, claim.metric, claim.quantile, claim.limit_s)
    verdict: Verdict
    if different := [*_differences(recipe, claim, environment)]:
        verdict, reason, proof = "not comparable", "; ".join(different), None
    elif spoiled:
        verdict, reason, proof = (
            "invalid measurement",
            "; ".join(f"{each.rule}: {each.measured}" for each in spoiled),
            None,
        )
    elif proof is None or not finished:
        verdict, reason = "not enough samples", f"the point of {claim.point.label} was not finished"
    else:
        verdict, reason = _by_samples(proof)
        if verdict == "reproduced" and external:
            verdict, reason = "consistent with", f"{reason}; the engine was not ours, so what answered is not known"
    return ClaimVerdict(
        id=claim.id,
        quote=claim.quote,
        by=claim.by,
        kind=claim.kind,
        asks=asks(claim),
        verdict=verdict,
        measured_s=None if sample is None else estimate(sample, claim.quantile).value,
        certificate=proof,
        reason=reason,
        holds_for=holds_for(recipe, claim.point),
    )


def asks(claim: Claim) -> str:
    """The claim as a condition: "p95 of E2E at 40 streams at most 525 ms (500 ms + 5 %)"."""
    what = f"p{claim.quantile * 100:g} of {claim.metric.upper()} at {claim.point.label}"
    limit = f"{what} at most {_time(claim.limit_s)} ({_time(claim.value_s)} + {claim.tolerance * 100:g} %)"
    if claim.against is None:
        return limit
    before = "" if claim.against_value_s is None else f" at {_time(claim.against_value_s)}"
    return f"{limit}, beside {claim.against}{before}"


def _by_samples(proof: Certificate) -> tuple[Verdict, str]:
    refuting = refuting_over(proof.n, proof.quantile)
    counted = f"{proof.over:,} of {proof.n:,} requests were over {_time(proof.limit_s)} or failed"
    share = f"at {proof.confidence * 100:g} % confidence"
    if proof.certified:
        return "reproduced", f"{counted}; up to {proof.allowed:,} certify it {share}"
    if refuting is not None and proof.over >= refuting:
        return "not reproduced", f"{counted}; {refuting:,} refute it {share}"
    needed = smallest_certifiable(proof.quantile)
    if proof.n < needed:
        more = f"at least {needed:,} requests are needed to certify it"
    else:
        more = f"up to {proof.allowed:,} would certify it and {refuting:,} refute it {share}"
    return "not enough samples", f"{counted}; {more}: lengthen load.steady_s or raise load.runs"


def _differences(recipe: Recipe, claim: Claim, environment: Mapping[str, Any]) -> Iterator[str]:
    """What the claim is about and this measurement is not."""
    yield from differences(recipe, claim, environment)
    if claim.point not in recipe.load.ladder:
        yield f"{claim.point.label} are not in the ladder"


def differences(recipe: Recipe, claim: Claim, environment: Mapping[str, Any]) -> Iterator[str]:
    """What the claim is about and this measurement is not, whatever points were measured.

    Args:
        recipe: as it was run.
        claim: published.
        environment: where it was measured; empty where that is not known.
    """
    if recipe.target not in claim.targets:
        yield f"it is about {' and '.join(claim.targets)}, not about {recipe.target}"
    yield from _hardware(recipe, claim, environment)
    if claim.precision is not None and claim.precision != recipe.checkpoint.precision:
        yield f"it was made with {claim.precision} weights, this with {recipe.checkpoint.precision}"
    if claim.by == "article":
        yield from _not_what_the_article_ran(recipe)
    if claim.against is not None:
        yield f"it is about the change from {claim.against}: compare this report with one of that target"


def _hardware(recipe: Recipe, claim: Claim, environment: Mapping[str, Any]) -> Iterator[str]:
    ours = "cpu" if recipe.hardware.kind == "cpu" else recipe.hardware.gpu
    if claim.hardware is not None and claim.hardware != ours:
        yield f"it was made on {claim.hardware}, this on {ours}"
        return
    found = sorted({str(gpu.get("name")) for gpu in environment.get("gpus") or () if isinstance(gpu, dict)})
    if claim.hardware is not None and found and not any(claim.hardware in name for name in found):
        yield f"it was made on {claim.hardware}, and this machine has {' and '.join(found)}"


def _not_what_the_article_ran(recipe: Recipe) -> Iterator[str]:
    """The article served real weights, its own prompts, and real acceptance; a project's claims say what they ran."""
    unreal = [words for words in not_real(recipe, external=False, partial=False) if words != "scaled prompts"]
    if unreal:
        yield f"measured with {', '.join(unreal)}"
    for table in ("workload", "engine"):
        if made_smaller := scaled(recipe, table):
            yield f"{_few(made_smaller)} scaled to fit"
    if replaced := [key for key in recipe.overridden if not key.startswith(_LEFT_OPEN)]:
        yield f"{_few(replaced)} set on the command line"


def _few(keys: list[str]) -> str:
    """At most three of them by name; the assumptions list them all."""
    named = ", ".join(keys[:3])
    more = f" and {len(keys) - 3} more" if len(keys) > 3 else ""
    return f"{named}{more} {'was' if len(keys) == 1 else 'were'}"


def _time(seconds: float) -> str:
    """Milliseconds below a second, seconds from there on."""
    return f"{seconds * 1000:.4g} ms" if seconds < 1 else f"{seconds:.4g} s"
