"""The report: a pure function of recipe, request records, observations and environment.

`report.json` is this model. Its JSON Schema is published in `bench/report/report.schema.json`; `SCHEMA_VERSION`
changes with it (major: an old reader would misread; minor: it would miss something).
"""

from __future__ import annotations

from typing import Annotated, Final, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from bench.explain.search.outcome import SearchOutcome

SCHEMA_VERSION: Final = "1.0"

Number: TypeAlias = Annotated[float, Field(allow_inf_nan=False)]


class Part(BaseModel):
    """Base: frozen, no unknown keys, no NaN."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Estimate(Part):
    """A percentile with its distribution-free confidence interval.

    Attributes:
        value: the order statistic, seconds; null when the sample is too small for any interval ("not enough"), or when
            the rank falls among the failures.
        low, high: interval at `confidence`; null as above (`high` alone is null when only it falls among the failures).
        among_failures: the rank of `value` falls among the failures: so many failed that there is no such latency.
        confidence: e.g. 0.95.
        n: samples, failures included (they count as infinitely late).
    """

    value: Number | None
    low: Number | None
    high: Number | None
    confidence: Number
    n: int
    among_failures: bool


class Latency(Part):
    """One metric at one point, pooled over runs, window requests only. `mean` and `maximum` are of the successes."""

    p50: Estimate
    p90: Estimate
    p95: Estimate
    p99: Estimate
    mean: Number | None
    maximum: Number | None


class Certificate(Part):
    """With n requests and m over the limit: are at least `quantile` of all under it, at `confidence`?

    Attributes:
        metric: of which latency.
        limit_s: the limit.
        n: requests in the window, failures included.
        over: of these, how many were over the limit or failed.
        allowed: the most that the binomial bound allows at this n; null when n is too small to certify anything.
        certified: over <= allowed.
    """

    metric: Literal["e2e", "ttft"] = "e2e"
    limit_s: Number
    quantile: Number
    confidence: Number
    n: int
    over: int
    allowed: int | None
    certified: bool


class PrefixCache(Part):
    """Prefix-cache hits of one point: predicted from the workload, and measured by the engine's counters (tokens)."""

    block_size: int | None
    predicted_hit_tokens: int | None
    measured_hit_tokens: int | None
    prompt_tokens: int
    predicted_rate: Number | None
    measured_rate: Number | None


class Speculation(Part):
    """Speculative decoding at one point, from the engine's counters.

    Attributes:
        acceptance_length: tokens per verification step: 1 + accepted / drafts.
        per_position: share of drafts accepted at each position.
    """

    acceptance_length: Number
    per_position: tuple[Number, ...]


class WindowOfRun(Part):
    """Where the window of one run lay (seconds since the run's epoch) and what its requests did."""

    run: int
    start_s: Number
    end_s: Number
    requests: int
    p95_e2e: Number | None


class BetweenRuns(Part):
    """How much the p95 of E2E differs between engine starts.

    Attributes:
        variance: unbiased sample variance of the runs' p95, seconds squared.
        coefficient: standard deviation as a share of their mean; that mean itself is never a result.
    """

    variance: Number
    coefficient: Number


class PointReport(Part):
    """One operating point.

    Attributes:
        index: in the recipe's ladder.
        label: "40 streams".
        streams, concurrent: as in the recipe; both null for any other kind of load, for streams with barge-in and for
            those with a turn gap of their own.
        requests: in the window. ramp_requests, drain_requests: outside it, reported apart.
        failures: window requests by outcome, successes left out.
        e2e, ttft, tpot: of the window.
        ramp_p95_e2e: of the requests intended before the window, seconds.
        requests_per_s: completed window requests over the window's length.
        output_tokens_per_s: likewise.
        mean_in_flight: mean number of open requests in the window.
        runs: one entry per engine start.
        between_runs: of their p95; null with one run, or where a run has too few samples for one.
        certificates: one for every limit that a claim puts on this point.
        steady: whether a stationarity test found the window steady; null with too few samples.
    """

    index: int
    label: str
    streams: int | None
    concurrent: int | None
    complete: bool
    requests: int
    ramp_requests: int
    drain_requests: int
    failures: dict[str, int]
    e2e: Latency
    ttft: Latency
    tpot: Latency
    ramp_p95_e2e: Number | None
    requests_per_s: Number | None
    output_tokens_per_s: Number | None
    mean_in_flight: Number | None
    runs: tuple[WindowOfRun, ...]
    between_runs: BetweenRuns | None
    certificates: tuple[Certificate, ...]
    prefix_cache: PrefixCache
    speculation: Speculation | None
    steady: bool | None


class Check(Part):
    """One rule that a measurement must keep to prove anything.

    Attributes:
        rule: short name ("client totals equal the engine's").
        point: index of the operating point, or null for the whole run.
        verdict: "kept", "broken" (the measurement is invalid) or "unknown" (the needed observation is missing).
        measured, expected: what was compared, in words and figures.
        advice: what to do when broken or unknown.
    """

    rule: str
    point: int | None
    verdict: Literal["kept", "broken", "unknown"]
    measured: str
    expected: str
    advice: str


class ClaimVerdict(Part):
    """A published claim and what this report says of it.

    Attributes:
        id, quote, by, kind: as in the recipe.
        asks: the claim as a condition ("p95 of E2E at 40 streams at most 525 ms (500 ms + 5 %)").
        verdict: "reproduced" (also "consistent with", for an external engine), "not reproduced", "not comparable",
            "not enough samples", "invalid measurement".
        measured_s: our figure, null where there is none.
        certificate: the binomial certificate behind the verdict, null where there is none.
        reason: why this verdict, for people.
        holds_for: the assumptions under which it holds ("mean turn gap of 4 s").
    """

    id: str
    quote: str
    by: str
    kind: str
    asks: str
    verdict: Literal[
        "reproduced",
        "consistent with",
        "not reproduced",
        "not comparable",
        "not enough samples",
        "invalid measurement",
    ]
    measured_s: Number | None
    certificate: Certificate | None
    reason: str
    holds_for: str


class Assumption(Part):
    """A value that the source does not give and we chose, or that was scaled to fit."""

    key: str
    value: str
    kind: Literal["assumption", "scaled"]
    why: str


class Producer(Part):
    """The software that made the report."""

    name: str
    version: str
    commit: str | None
    dirty: bool | None


class Report(Part):
    """The whole report.

    Attributes:
        title: says what was not real (toy or dummy weights, CPU, scaled prompts, external engine, partial).
        fingerprint: hash over everything that decides the numbers; two reports with the same one are repeats.
        started_at: UTC, ISO 8601.
        partial: the run ended early; `partial_reason` says why.
        valid: no rule was broken; of a search: none where its answers rest.
        exit_code: what the command returned: 0, 3, 4, or 130/1 for a partial report.
        searches: what the run searched for; left out of a report of any other run.
    """

    schema_version: Literal["1.0"] = "1.0"
    title: str
    target: str
    fingerprint: str
    started_at: str
    producer: Producer
    engine_kind: Literal["process", "docker", "external"] | None
    partial: bool
    partial_reason: str | None
    valid: bool
    exit_code: int
    not_real: tuple[str, ...]
    points: tuple[PointReport, ...]
    claims: tuple[ClaimVerdict, ...]
    checks: tuple[Check, ...]
    assumptions: tuple[Assumption, ...]
    definitions: dict[str, str]
    searches: tuple[SearchOutcome, ...] = Field(default=(), exclude_if=lambda searches: not searches)
