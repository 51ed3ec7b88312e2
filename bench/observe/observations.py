"""What was seen besides the requests: phases, counters, engine events, gauges, the client itself.

One JSON object a line in `observations.jsonl`, in the order in which they were made. Times are seconds on the same
monotonic clock as the request records. What cannot be known is null, never zero.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from bench.explain.search.question import Question
from bench.observe.compiled import CompiledFiles
from bench.observe.lasting import LastingHits
from bench.observe.observed import Observed, Replica, Share, Time
from bench.observe.probe import ProbeTrial


class StageTime(BaseModel):
    """One stage of an engine's start, in seconds since its process was started."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    start_s: Time
    end_s: Time


class ContainerFacts(BaseModel):
    """The image that an engine ran from, and how its container was set up. What an image does not say is null.

    Attributes:
        image_id: digest of the image's configuration: what Docker calls its id.
        image_name: what was asked for: a tag, an id, or a repository with a digest.
        repo_digests: what registries call this image ("repository@sha256:..."); none for one that was built here.
        labels: of the image: the names of the OCI's specification and our own.
        base_digest: of the image that it was built from, as its labels say.
        given: the image was given by hand, instead of the target's own.
        base_replaced: the image was built from another base than the pinned one.
        uid: numeric user that the engine's first process ran as.
        settings: what the container was allowed and given, by the names that `docker run` has for it.
        docker: version of the Docker Engine.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    image_id: str
    image_name: str
    repo_digests: tuple[str, ...]
    labels: dict[str, str]
    base_digest: str | None
    given: bool
    base_replaced: bool
    uid: int | None
    settings: dict[str, str]
    docker: str


class ResidentFacts(BaseModel):
    """An engine that was ready before the run began, and goes on after it.

    Attributes:
        start: names the engine start: reports with the same one were measured on the same start, and the chance of a
            start is not between them.
        age_s: seconds since it was ready.
        measurement: that this run is on the same start, from 1.
        beside: other engines that stay on the same hardware meanwhile, without load.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    start: Annotated[str, Field(pattern=r"^[0-9a-f]{16}$")]
    age_s: Share
    measurement: Annotated[int, Field(ge=1)]
    beside: Annotated[int, Field(ge=0)]


class ReplicaStarted(BaseModel):
    """One of the replicas that a run's engine consists of.

    Attributes:
        ready_s, stages, argv, cold: as in `EngineStarted`.
        gpus: UUIDs of those that it has for itself; none on the CPU.
        cores: of the host that it was confined to; null for all.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    ready_s: float | None
    stages: tuple[StageTime, ...]
    argv: tuple[str, ...] | None
    cold: bool | None
    gpus: tuple[str, ...]
    cores: tuple[int, ...] | None


class EngineStarted(Observed):
    """An engine became ready; one of several replicas, when all of them are.

    Attributes:
        kind_of_engine: "process", "docker" or "external".
        ready_s: seconds from process start to ready; null for an external engine.
        stages: the start, stage by stage, as read from the log.
        version: as the server reports it.
        model: the served model name.
        max_model_len: as the server reports it.
        block_size: tokens of one prefix-cache block as the engine reports it; hits come in whole blocks.
        prefix_caching: whether the engine caches prefixes.
        mamba_cache_mode: which states of recurrent layers it keeps with them, in vLLM's words: "none" (with prefix
            caching: the model has no such layers), "align" or "all"; null where the engine does not say.
        argv: the command line; null for an external engine.
        packages_sha256: hash over the sorted package list of the engine's environment; null when unknown.
        cold: whether the compile caches were empty at the start; null when unknown.
        container: image and container that it ran in; null where there is none.
        resident: that it was started before this run and stays; null where it was started for this run.
        replicas: each of them, where there are several; left out otherwise. What stands above is then what all of them
            agree on, `ready_s` of all together, `argv` and `container` of the first; the stages are theirs.
    """

    kind: Literal["engine_started"] = "engine_started"
    kind_of_engine: Literal["process", "docker", "external"]
    ready_s: float | None
    stages: tuple[StageTime, ...]
    version: str | None
    model: str
    max_model_len: int | None
    block_size: int | None
    prefix_caching: bool | None
    mamba_cache_mode: str | None = None
    argv: tuple[str, ...] | None
    packages_sha256: str | None
    cold: bool | None
    container: ContainerFacts | None = None
    resident: ResidentFacts | None = None
    replicas: tuple[ReplicaStarted, ...] = Field(default=(), exclude_if=lambda replicas: not replicas)


class EngineEvent(Observed):
    """A line of the engine's log that matters, stamped when it was read.

    Attributes:
        event: what it means: "jit" (a kernel was compiled), "graph_capture", "preemption", "error", "warning", "died".
        line: the line itself, at most 500 characters, terminal escapes removed.
        line_number: in the engine's log, from 1; null where there is no log.
        replica: whose log, from 0; left out where there is one engine.
    """

    kind: Literal["engine_event"] = "engine_event"
    event: Literal["jit", "graph_capture", "preemption", "error", "warning", "died"]
    line: str
    line_number: int | None
    replica: Replica = None


class GraphSteps(BaseModel):
    """Steps of one size and mode.

    Attributes:
        tokens: that the step computed.
        padded: tokens of the CUDA graph that was replayed; equal to `tokens` where none was.
        mode: "FULL" or "PIECEWISE" graph, or "NONE".
        count: how many steps.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    tokens: Annotated[int, Field(ge=0)]
    padded: Annotated[int, Field(ge=0)]
    mode: Literal["NONE", "PIECEWISE", "FULL"]
    count: Annotated[int, Field(ge=1)]


class GraphTable(Observed):
    """How the engine used its CUDA graphs since its last such table (`--cudagraph-metrics`).

    Attributes:
        mode: that it was set to ("FULL_AND_PIECEWISE").
        capture_sizes: that it captured, in tokens.
        steps: of the target model; those of draft layers are not counted.
        replica: that told it, from 0; left out where there is one engine.
    """

    kind: Literal["graph_table"] = "graph_table"
    mode: str
    capture_sizes: tuple[int, ...]
    steps: tuple[GraphSteps, ...]
    replica: Replica = None


class PhaseStarted(Observed):
    """A phase of an operating point began; `done` ends the last one.

    Order within a point: prime, ramp, steady, drain, done. A request belongs to the window when its intended send time
    lies in [steady, drain).
    """

    kind: Literal["phase"] = "phase"
    point: int
    phase: Literal["prime", "ramp", "steady", "drain", "done"]


class CounterValues(BaseModel):
    """The engine's own totals since its start. Null where the server does not expose one.

    Attributes:
        prompt_tokens_cached: prompt tokens that came from the prefix cache, each prompt counted once.
        prefix_queries, prefix_hits: tokens looked up and found, counted again at every attempt to schedule a request
            that has to wait.
        finished_by_rank: `requests_finished` of each rank (`bench.affinity`), in their order; null with a single one.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    requests_finished: float | None = None
    prompt_tokens: float | None = None
    generation_tokens: float | None = None
    prompt_tokens_cached: float | None = None
    prefix_queries: float | None = None
    prefix_hits: float | None = None
    preemptions: float | None = None
    spec_drafts: float | None = None
    spec_draft_tokens: float | None = None
    spec_accepted_tokens: float | None = None
    spec_accepted_per_position: tuple[float, ...] | None = None
    finished_by_rank: tuple[float, ...] | None = None


class Counters(Observed):
    """The engine's totals before or after a point, read while no request was open."""

    kind: Literal["counters"] = "counters"
    point: int
    when: Literal["before", "after"]
    values: CounterValues


class Gauges(Observed):
    """The engine's state during a point, about once a second."""

    kind: Literal["gauges"] = "gauges"
    running: float | None
    waiting: float | None
    kv_usage: float | None


class GpuSample(Observed):
    """One GPU, about once a second."""

    kind: Literal["gpu"] = "gpu"
    index: int
    uuid: str
    power_w: float | None
    sm_clock_mhz: float | None
    memory_used_bytes: int | None
    utilization: float | None
    temperature_c: float | None
    throttle_reasons: tuple[str, ...]


class HostSample(Observed):
    """The host, about once a second: CPU share of everything (1.0 is one core), and memory in use."""

    kind: Literal["host"] = "host"
    cpu_cores_used: Share
    memory_used_bytes: int


class ClientSelf(Observed):
    """The client's own condition over one point's window: what certifies, or spoils, its measurement.

    Attributes:
        lag_p50_s, lag_p99_s, lag_max_s: event-loop lag: how late a timer fires.
        cpu_s: CPU seconds of the client's processes over the window.
        wall_s: length of the window.
        stamp_delay_p99_s: from the arrival of bytes in the kernel to our stamp; null where the kernel does not say.
        send_delay_p50_s, send_delay_p99_s: actual minus intended send time.
        generated_late: turns that had to be generated inside the window because the stock ran out.
        processes: client processes used.
    """

    kind: Literal["client"] = "client"
    point: int
    lag_p50_s: Share
    lag_p99_s: Share
    lag_max_s: Share
    cpu_s: Share
    wall_s: Share
    stamp_delay_p99_s: Share | None
    send_delay_p50_s: Share | None
    send_delay_p99_s: Share | None
    generated_late: int
    processes: int


class ShardClock(Observed):
    """How the clock of a client on another host was set to the run's; its latencies are all its own clock's.

    The shard's monotonic clock is given the run's epoch once, before the point, by the exchange with the shortest round
    trip of several (Cristian 1989, "Probabilistic clock synchronization").

    Attributes:
        shard: index of the client.
        host: name of its host.
        offset_s: its monotonic clock minus ours; hosts count from their own starts.
        uncertainty_s: half of that round trip: the shard's times may be this much earlier or later than ours.
        drift_s: the same offset after the point minus before it, as far as that uncertainty allows to tell; null where
            the point did not come to its end.
    """

    kind: Literal["shard_clock"] = "shard_clock"
    point: int
    shard: int
    host: str
    offset_s: Time
    uncertainty_s: Share
    drift_s: Time | None


class Probed(Observed):
    """The probe before or after the ladder: see `bench.observe.probe`.

    Attributes:
        when: before or after the first and the last point.
        began_s: when it began.
        at_begin, at_end: the engine's totals around it, read while no request was open.
        trials: one for each agent that is asked.
    """

    kind: Literal["probed"] = "probed"
    when: Literal["before", "after"]
    began_s: Time
    at_begin: CounterValues
    at_end: CounterValues
    trials: tuple[ProbeTrial, ...]


class SearchAsked(Observed):
    """The run is a search: each point of its ladder follows from the records of those before it.

    Attributes:
        questions: in the order in which they are asked.
    """

    kind: Literal["search_asked"] = "search_asked"
    questions: Annotated[tuple[Question, ...], Field(min_length=1, max_length=100)]


class Interrupted(Observed):
    """The run ended early; the report is partial.

    Attributes:
        cause: "user" (Ctrl-C, SIGTERM), "engine" (it died), "disk" (nothing more could be written), "client" (a fault
            of ours, or the client was killed).
        detail: one line.
    """

    kind: Literal["interrupted"] = "interrupted"
    cause: Literal["user", "engine", "disk", "client"]
    detail: str


class Finished(Observed):
    """The run came to its end. A folder without this line is a partial one."""

    kind: Literal["finished"] = "finished"


Observation: TypeAlias = Annotated[
    EngineStarted
    | EngineEvent
    | CompiledFiles
    | GraphTable
    | PhaseStarted
    | Counters
    | Gauges
    | GpuSample
    | HostSample
    | ClientSelf
    | ShardClock
    | Probed
    | SearchAsked
    | LastingHits
    | Interrupted
    | Finished,
    Field(discriminator="kind"),
]

OBSERVATION: TypeAdapter[Observation] = TypeAdapter(Observation)
"""Validates one line of `observations.jsonl`."""
