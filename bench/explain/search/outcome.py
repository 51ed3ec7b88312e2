"""What a search came to, as the report has it: a pure function of question, records and observations."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from bench.explain.search.question import Question

Number: TypeAlias = Annotated[float, Field(allow_inf_nan=False)]

Answer: TypeAlias = Literal[
    "boundary",
    "not in order",
    "holds throughout",
    "holds nowhere",
    "holds, end open",
    "undecided",
    "cut off",
    "invalid measurement",
]


class Part(BaseModel):
    """Base: frozen, no unknown keys, no NaN."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Proof(Part):
    """The certificate of one setting, over its replicates.

    Attributes:
        setting: "12 streams".
        value: of the axis.
        settled: what it proves; null where it proves neither.
        replicates: points that count.
        n: their requests, failures included. bad: those that broke the limit or failed.
        design_effect: requests that are worth one independent one.
        n_independent, bad_independent: the counts divided by it, as the certificate takes them.
        allowed: bad ones that still certify the limit; refuting: bad ones that refute it; null where n is too small.
        confidence: of this one look.
    """

    setting: str
    value: Number
    settled: Literal["holds", "does not hold"] | None
    replicates: int
    n: int
    bad: int
    design_effect: Number
    n_independent: int
    bad_independent: Number
    allowed: int | None
    refuting: int | None
    confidence: Number


class Measured(Part):
    """All points of one setting together.

    Attributes:
        value: of the axis.
        setting: in words.
        points: their indices in the ladder.
        n, bad: requests, and those that broke the limit or failed.
        fitted: share of bad requests by the isotonic fit.
        latency_s, low_s, high_s: the limit's percentile of its first latency, pooled, with its interval; null where
            there are too few requests or too many failures.
        fitted_s: the isotonic fit through `latency_s`.
    """

    value: Number
    setting: str
    points: tuple[int, ...]
    n: int
    bad: int
    fitted: Number
    latency_s: Number | None
    low_s: Number | None
    high_s: Number | None
    fitted_s: Number | None


class Cliff(Part):
    """A jump between two neighbouring settings that were measured.

    Attributes:
        before, after: the settings, in words.
        factor: by which the percentile grows at least: from the upper end of one interval to the lower end of the
            other; null where it falls among the failures.
        evidence: what changed there as well; empty where nothing that was observed explains it.
    """

    before: str
    after: str
    factor: Number | None
    evidence: tuple[str, ...]


class SearchOutcome(Part):
    """One question and its answer.

    Attributes:
        question: as it was asked.
        answer: "boundary" (a setting is certified to hold, and a harder one not to), "not in order" (a setting is
            certified to hold beyond one that is certified not to: what a search assumes is not so), "holds throughout"
            (the hardest that was asked about is certified to hold), "holds, end open" (some hold; where it ends is not
            settled), "holds nowhere" (the easiest is certified not to hold), "undecided", "cut off" (the run ended
            early: what is settled is settled, the search is not over), "invalid measurement".
        says: the answer in one sentence.
        holds: the hardest setting that is certified to hold. fails: the easiest that is certified not to.
        confidence: that neither is wrong, over the whole search.
        crossing: where the isotonic fit, drawn through straight lines, crosses the allowed share; no certificate.
        proofs: of every candidate, the easiest first.
        measured: of every setting, the easiest first.
        cliffs: jumps.
        comparable: null where the question is about no claim; else whether this run can be compared with it.
        reasons: why not.
    """

    question: Question
    answer: Answer
    says: str
    holds: Number | None
    fails: Number | None
    confidence: Number
    crossing: Number | None
    proofs: tuple[Proof, ...]
    measured: tuple[Measured, ...]
    cliffs: tuple[Cliff, ...]
    comparable: bool | None = None
    reasons: tuple[str, ...] = ()

    @property
    def found(self) -> bool:
        """Whether the limit is certified to hold somewhere, and nothing speaks against it."""
        return self.holds is not None and self.answer not in {"not in order", "invalid measurement"}

    @property
    def among_others(self) -> str:
        """As `says`, where several questions are answered: it names the limit, or the claim."""
        about = self.question.slo.says if self.question.claim is None else self.question.claim.id
        return self.says if about in self.says else f"{about}: {self.says}"
