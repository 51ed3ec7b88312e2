"""Records and observations as a healthy run would leave them; each test bends what it is about."""

from __future__ import annotations

from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from bench.observe.observations import (
    ClientSelf,
    ContainerFacts,
    Counters,
    CounterValues,
    EngineStarted,
    Finished,
    PhaseStarted,
)
from bench.records import Outcome, RequestRecord
from bench.report.evidence import Evidence
from bench.report.model import Producer
from bench.report.table import table_of
from recipes.schema import Recipe

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from bench.observe.observations import Observation

BLOCK = 16
"""Tokens of a cache block of the imaginary engine."""
PROMPT, SHARED, OUTPUT = 100, 64, 10
POINT_S = 1000.0
"""Points (and runs) of `healthy` lie this far apart; prime at 0, ramp at 1, steady at 10, drain at 110, done at 120."""
STEADY, DRAIN, DONE = 10.0, 110.0, 120.0


def make_recipe(**changes: Any) -> Recipe:
    """A recipe for real weights on one H200; `changes` replace whole tables or merge into them when they are dicts."""
    raw: dict[str, Any] = {
        "target": "test-h200",
        "title": "A test",
        "hardware": {"kind": "gpu", "gpu": "H200", "memory_gib": 130},
        "checkpoint": {"kind": "hub", "name": "a/b", "precision": "fp8", "real": True},
        "engine": {"version": "0.26.0", "image": "serve-cuda", "lock": "engine-cuda", "flags": {}},
        "workload": {
            "agents": ["router"],
            "prompt_tokens": PROMPT,
            "output_tokens": OUTPUT,
            "shared_prefix_tokens": SHARED,
            "caller_tokens": 5,
            "turns": [1, 2],
        },
        "load": {
            "ladder": [{"streams": 20}, {"streams": 40}],
            "turn_gap": {"distribution": "exponential", "mean_s": 4.0},
            "ramp_s": 9.0,
            "steady_s": 100.0,
        },
        "claims": [],
        "sources": {"load.turn_gap.mean_s": {"kind": "assumption", "why": "the source does not say"}},
    }
    for key, value in changes.items():
        raw[key] = {**raw[key], **value} if isinstance(value, dict) and isinstance(raw.get(key), dict) else value
    return Recipe.model_validate(raw)


def make_claim(**changes: Any) -> dict[str, Any]:
    """A claim that the recipe of `make_recipe` can be held to: p95 of E2E at 20 streams at most 1.05 s."""
    return {
        "id": "twenty",
        "quote": "20 streams at 1,000 ms",
        "kind": "measured",
        "targets": ["test-h200"],
        "hardware": "H200",
        "precision": "fp8",
        "point": {"streams": 20},
        "quantile": 0.95,
        "value_s": 1.0,
        "tolerance": 0.05,
        "tolerance_why": "round figure",
    } | changes


def make_record(**changes: Any) -> RequestRecord:
    """A complete reply of 0.5 s in the window of run 0, point 0."""
    values: dict[str, Any] = {
        "point": 0,
        "run": 0,
        "request": 0,
        "stream": 0,
        "conversation": 0,
        "turn": 0,
        "agent": "router",
        "primed": False,
        "intended_s": STEADY,
        "prompt_tokens_expected": PROMPT,
        "prompt_tokens": PROMPT,
        "cached_tokens": None,
        "completion_tokens": OUTPUT,
        "requested_tokens": OUTPUT,
        "finish_reason": "length",
        "status": 200,
        "outcome": Outcome.OK,
        "error": "",
        "segments": ((1, SHARED), (2, PROMPT - SHARED)),
    } | changes
    start = values["intended_s"]
    took = values.pop("took_s", 0.5)
    values = {
        "sent_s": start + 0.001,
        "headers_s": start + 0.01,
        "first_token_s": start + took * 0.4,
        "last_token_s": start + took * 0.9,
        "done_s": start + took,
        "chunk_s": (start + took * 0.4, start + took * 0.9),
    } | values
    return RequestRecord(**values)


def make_failure(outcome: Outcome, **changes: Any) -> RequestRecord:
    """A request that failed before anything but its headers came."""
    nothing: dict[str, Any] = {
        "outcome": outcome,
        "first_token_s": None,
        "last_token_s": None,
        "chunk_s": (),
        "prompt_tokens": None,
        "completion_tokens": None,
        "finish_reason": None,
        "error": "it failed",
    }
    return make_record(**(nothing | changes))


def make_container(**changes: Any) -> ContainerFacts:
    """An image of ours, built on the pinned base."""
    values: dict[str, Any] = {
        "image_id": "sha256:" + "1" * 64,
        "image_name": "streamproof/h200-fp8:0123456789ab",
        "repo_digests": (),
        "labels": {"io.streamproof.target": "h200-fp8"},
        "base_digest": "sha256:" + "2" * 64,
        "given": False,
        "base_replaced": False,
        "uid": 10001,
        "settings": {"cap-drop": "ALL"},
        "docker": "28.5.0",
    }
    return ContainerFacts.model_validate(values | changes)


def make_started(**changes: Any) -> EngineStarted:
    """The engine of run 0, a process of ours."""
    values: dict[str, Any] = {
        "t": 0.0,
        "run": 0,
        "kind_of_engine": "process",
        "ready_s": 30.0,
        "stages": (),
        "version": "0.26.0",
        "model": "m",
        "max_model_len": 4096,
        "block_size": BLOCK,
        "prefix_caching": True,
        "argv": ("python",),
        "packages_sha256": "0" * 64,
        "cold": False,
    }
    return EngineStarted.model_validate(values | changes)


def make_client(**changes: Any) -> ClientSelf:
    """A client at ease."""
    values: dict[str, Any] = {
        "t": DRAIN,
        "run": 0,
        "point": 0,
        "lag_p50_s": 0.0001,
        "lag_p99_s": 0.0005,
        "lag_max_s": 0.002,
        "cpu_s": 5.0,
        "wall_s": 100.0,
        "stamp_delay_p99_s": 0.0002,
        "send_delay_p50_s": 0.0002,
        "send_delay_p99_s": 0.001,
        "generated_late": 0,
        "processes": 1,
    }
    return ClientSelf.model_validate(values | changes)


def phases(run: int, point: int, at: float = 0.0) -> list[PhaseStarted]:
    """The five phases of a point that begins at `at`."""
    return [
        PhaseStarted(t=at, run=run, point=point, phase="prime"),
        PhaseStarted(t=at + 1, run=run, point=point, phase="ramp"),
        PhaseStarted(t=at + STEADY, run=run, point=point, phase="steady"),
        PhaseStarted(t=at + DRAIN, run=run, point=point, phase="drain"),
        PhaseStarted(t=at + DONE, run=run, point=point, phase="done"),
    ]


def healthy_records(
    latencies: Sequence[float], *, run: int = 0, point: int = 0, at: float = 0.0
) -> list[RequestRecord]:
    """One priming request, then a window of requests that take `latencies`, each in a conversation of its own."""
    seat = (run * 100 + point) * 1_000_000
    prime = make_record(
        run=run,
        point=point,
        primed=True,
        stream=-1,
        intended_s=at + 0.1,
        segments=((seat, SHARED), (seat + 1, PROMPT - SHARED)),
    )
    step = (DRAIN - STEADY) / max(1, len(latencies))
    return [prime] + [
        make_record(
            run=run,
            point=point,
            request=number + 1,
            stream=number % 20,
            conversation=number,
            intended_s=at + STEADY + step * number,
            took_s=took,
            segments=((seat, SHARED), (seat + 2 + number, PROMPT - SHARED)),
        )
        for number, took in enumerate(latencies)
    ]


def healthy_observations(
    records: Sequence[RequestRecord], *, run: int = 0, point: int = 0, at: float = 0.0, **changes: Any
) -> list[Observation]:
    """Phases, counters that agree with the records, and a client at ease. `changes` bend the counters at the end."""
    after: dict[str, Any] = {
        "requests_finished": float(len(records)),
        "prompt_tokens": float(sum(record.prompt_tokens or 0 for record in records)),
        "generation_tokens": float(sum(record.completion_tokens or 0 for record in records)),
        "prefix_queries": float(sum(record.prompt_tokens or 0 for record in records)),
        # A hybrid model keeps a state at the end of the shared prefix (four whole blocks) only when a second prompt
        # shows that it is shared: all but the priming request and that one find it.
        "prefix_hits": float(SHARED * max(0, len(records) - 2)),
        "preemptions": 0.0,
    } | changes
    before: dict[str, Any] = {name: 0.0 for name, value in after.items() if isinstance(value, float)}
    if after.get("spec_accepted_per_position") is not None:
        before |= {"spec_accepted_per_position": tuple(0.0 for _ in after["spec_accepted_per_position"])}
    return [
        Counters(t=at, run=run, point=point, when="before", values=CounterValues.model_validate(before)),
        *phases(run, point, at),
        make_client(t=at + DRAIN, run=run, point=point),
        Counters(t=at + DONE + 1, run=run, point=point, when="after", values=CounterValues.model_validate(after)),
    ]


def make_evidence(
    records: Iterable[RequestRecord],
    observations: Iterable[Observation],
    *,
    recipe: Recipe | None = None,
    environment: dict[str, Any] | None = None,
) -> Evidence:
    """Evidence of these records and observations."""
    return Evidence(
        recipe=recipe or make_recipe(),
        fingerprint="f" * 64,
        records=table_of(records),
        observations=tuple(observations),
        environment=environment or {},
        producer=Producer(name="streamproof", version=version("streamproof"), commit="c" * 40, dirty=False),
        started_at="2026-11-30T00:00:00Z",
    )


def healthy(
    latencies: Sequence[float] = (0.5,) * 200, *, points: int = 2, runs: int = 1, recipe: Recipe | None = None
) -> Evidence:
    """A whole run in which every rule is kept: the same latencies at every point of every run."""
    records: list[RequestRecord] = []
    observations: list[Observation] = []
    for run in range(runs):
        observations.append(make_started(run=run))
        for point in range(points):
            at = (run * points + point) * POINT_S
            new = healthy_records(latencies, run=run, point=point, at=at)
            records += new
            observations += healthy_observations(new, run=run, point=point, at=at)
    observations.append(Finished(t=runs * points * POINT_S, run=runs - 1))
    return make_evidence(records, observations, recipe=recipe or make_recipe(load={"runs": runs}))
