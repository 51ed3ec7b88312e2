"""What a recipe is: everything that decides the number, each value with its source.

A recipe is data (one TOML per target). These models refuse what they do not know; `recipes.load` turns a refusal
into an error that names file, line, key and the nearest right one.
"""

from __future__ import annotations

from pathlib import PurePath
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, model_validator

from recipes.parallel import MOST_REPLICAS, check_gpus, parallel_of

Name: TypeAlias = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9.-]*$", max_length=64)]
Seconds: TypeAlias = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Positive: TypeAlias = Annotated[int, Field(gt=0)]
FlagValue: TypeAlias = bool | int | float | str | list[Any] | dict[str, Any]


class Strict(BaseModel):
    """Frozen, no unknown keys, no silent conversion between types (an integer is still a number)."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Hardware(Strict):
    """What the target runs on.

    Attributes:
        kind: "gpu" or "cpu".
        gpu: the product name as the driver reports it must contain this ("H200", "B200"); only with kind "gpu".
        count: GPUs used, by all ranks of all replicas of the engine together; only with kind "gpu".
        memory_gib: the least free memory, per GPU or of the host, in GiB.
        cores: the least number of CPU cores for the engine and the client together; only with kind "cpu".
    """

    kind: Literal["gpu", "cpu"]
    gpu: str | None = None
    count: Positive = 1
    memory_gib: Positive
    cores: Positive | None = None

    @model_validator(mode="after")
    def _gpu_has_a_name(self) -> Hardware:
        if (self.kind == "gpu") != (self.gpu is not None):
            raise ValueError('hardware.gpu belongs to hardware.kind = "gpu", and only there')
        return self

    @property
    def label(self) -> str:
        """E.g. "H200", "2 x H200", "CPU"."""
        if self.gpu is None:
            return "CPU"
        return self.gpu if self.count == 1 else f"{self.count} x {self.gpu}"


class Checkpoint(Strict):
    """Which weights.

    Attributes:
        kind: "hub" (a repository at a commit), "quantized" (made by `just quantize`), "bundled" (a folder of this
            repository), "folder" (one of yours: its path, absolute or from the recipe's own file), "dummy" (a
            configuration, random weights made by the engine).
        name: hub repository, or path inside this repository.
        revision: 40-digit commit of a hub repository; None where nobody has resolved it yet: then the run resolves it
            and the report records it.
        precision: what the weights are stored in ("bf16", "fp8", "nvfp4"), for the claims that depend on it.
        real: False for toys and dummy weights: no published claim can be reproduced with them.
        unaudited: true serves a quantized checkpoint whose audit failed or is missing, or that nobody signed; the
            report's title then says so. It is left out otherwise.
    """

    kind: Literal["hub", "quantized", "bundled", "folder", "dummy"]
    name: str
    revision: Annotated[str, Field(pattern=r"^[0-9a-f]{40}$")] | None = None
    precision: Literal["bf16", "fp8", "nvfp4"]
    real: bool
    unaudited: Literal[True] | None = None


class Engine(Strict):
    """Who answers, and with which flags.

    Attributes:
        version: the vLLM release; every flag below is checked against this release's own parser.
        image: key in docker/pins.toml of the published image that the target's own image is built on; a target that
            names one runs in a container unless somebody asks for something else.
        lock: name of the hash-locked closure in docker/locks for the process engine.
        flags: vLLM's options, long name with underscores; true gives `--name`, false `--no-name`, tables become JSON.
        env: environment variables of the engine process.
        ready_timeout_s: a start that takes longer has failed.
        replicas: engines of this kind side by side, each on its own share of the hardware; calls are spread over them,
            and each stays at one. Left out: one. See `recipes.parallel`.
    """

    version: str
    image: Name | None = None
    lock: Name
    flags: dict[Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$")], FlagValue]
    env: dict[Annotated[str, Field(pattern=r"^[A-Z][A-Z0-9_]*$")], str] = {}
    ready_timeout_s: Seconds = 900.0
    replicas: Annotated[int, Field(ge=2, le=MOST_REPLICAS)] | None = None


class Sampling(Strict):
    """How replies are sampled. Replies have an exact length, so that two runs do the same work."""

    temperature: Annotated[float, Field(ge=0, le=2)] = 0.0
    ignore_eos: bool = True


class Workload(Strict):
    """What callers say (see `bench.workload`).

    Attributes:
        api: "chat" (chat completions, the checkpoint's own template) or "token_ids" (completions with token ids, for
            checkpoints without a tokenizer).
        agents: names of the specialized agents, in the order of a call.
        prompt_tokens: mean exact length of a rendered prompt over a call.
        output_tokens: exact length of a reply.
        shared_prefix_tokens: exact length of the part of the prompt that all calls to one agent share (system prompt
            and tool schemas).
        caller_tokens: exact length of one thing the caller says.
        turns: turns of one call: every call has between these two, uniformly.
        thinking: Qwen3.5 thinks by default; a voice agent cannot wait for that.
        sampling: how replies are sampled.
    """

    api: Literal["chat", "token_ids"] = "chat"
    agents: Annotated[list[Name], Field(min_length=1)]
    prompt_tokens: Positive
    output_tokens: Positive
    shared_prefix_tokens: Positive
    caller_tokens: Positive
    turns: Annotated[list[Positive], Field(min_length=2, max_length=2)]
    thinking: bool = False
    sampling: Sampling = Sampling()


class TurnGap(Strict):
    """Seconds from the end of a reply to the stream's next request: playback plus the caller's speech.

    Attributes:
        distribution: "exponential", "lognormal" (with `sigma` of the logarithm) or "fixed".
        mean_s: mean of the gap in seconds.
        sigma: standard deviation of the logarithm; only with "lognormal".
    """

    distribution: Literal["exponential", "lognormal", "fixed"]
    mean_s: Annotated[float, Field(gt=0, allow_inf_nan=False)]
    sigma: Annotated[float, Field(gt=0, le=3)] | None = None

    @model_validator(mode="after")
    def _sigma_belongs_to_lognormal(self) -> TurnGap:
        if (self.distribution == "lognormal") != (self.sigma is not None):
            raise ValueError('load.turn_gap.sigma belongs to distribution = "lognormal", and only there')
        return self


class BargeIn(Strict):
    """Callers who talk over a reply: the request is cancelled by closing its connection.

    Attributes:
        share: of the requests that are interrupted, 0 to 1.
        after_s: [earliest, latest] seconds from the intended send time to the interruption, uniform between the two. A
            reply that is complete by then is not interrupted.
    """

    share: Annotated[float, Field(ge=0, le=1)]
    after_s: Annotated[list[Seconds], Field(min_length=2, max_length=2)]

    @model_validator(mode="after")
    def _in_order(self) -> BargeIn:
        if self.after_s[0] > self.after_s[1]:
            raise ValueError("barge_in.after_s is [earliest, latest]")
        return self


class Point(Strict):
    """One operating point: exactly one of streams, concurrent, rate and trace.

    Attributes:
        streams: open voice conversations with turn gaps.
        barge_in: some of their replies are interrupted; only with `streams`.
        turn_gap: of the streams of this point, instead of `load.turn_gap`; only with `streams`.
        concurrent: requests in flight, closed loop, without gaps.
        rate: requests that arrive each second, whatever the server does (open loop); from as many conversations as
            would speak that often with the recipe's mean turn gap.
        arrivals: "poisson", or "fixed" distances; only with `rate`.
        trace: a recorded trace, replayed (JSONL, see `bench.load.trace`): its path from the working directory, or
            beside the recipe's own file.
        trace_sha256: of that file; None where nobody has read it yet: then the run does and the report records it.
    """

    streams: Positive | None = None
    barge_in: BargeIn | None = None
    turn_gap: TurnGap | None = None
    concurrent: Positive | None = None
    rate: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    arrivals: Literal["poisson", "fixed"] | None = None
    trace: Annotated[str, Field(min_length=1)] | None = None
    trace_sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")] | None = None

    @model_validator(mode="after")
    def _one_kind(self) -> Point:
        if sum(kind is not None for kind in (self.streams, self.concurrent, self.rate, self.trace)) != 1:
            raise ValueError("a point of load.ladder has exactly one of streams, concurrent, rate and trace")
        if (self.rate is None) != (self.arrivals is None):
            raise ValueError('rate and arrivals ("poisson" or "fixed") belong together')
        if self.barge_in is not None and self.streams is None:
            raise ValueError("barge_in belongs to streams, and only there")
        if self.turn_gap is not None and self.streams is None:
            raise ValueError("the turn_gap of a point belongs to streams, and only there")
        if self.trace_sha256 is not None and self.trace is None:
            raise ValueError("trace_sha256 belongs to trace, and only there")
        return self

    @property
    def label(self) -> str:
        """E.g. "40 streams", "16 concurrent requests", "12 requests/s, Poisson", "trace calls.jsonl"."""
        if self.concurrent is not None:
            return f"{self.concurrent} concurrent requests"
        if self.rate is not None:
            return f"{self.rate:g} requests/s, {'Poisson' if self.arrivals == 'poisson' else 'fixed distances'}"
        if self.trace is not None:
            return f"trace {PurePath(self.trace).name}"
        interrupted = "" if self.barge_in is None else f", {self.barge_in.share * 100:g} % interrupted"
        gap = "" if self.turn_gap is None else f", turn gap {self.turn_gap.mean_s:g} s"
        return f"{self.streams} streams{interrupted}{gap}"


class Load(Strict):
    """How callers say it.

    Attributes:
        ladder: the operating points, in order.
        turn_gap: of the streams.
        ramp_s: streams open evenly over this time; requests intended within it are reported apart.
        steady_s: length of the measured window.
        drain_s: at most this long after the window for the open requests to end.
        request_timeout_s: a reply that takes longer is a failure.
        runs: engine starts; between-run variance needs several.
        client_processes: that share the load of a point; left open, or 0: as many as it needs, one in the usual case.
        affinity: with several ranks (replicas, data-parallel ranks, or such ranks of replicas), "rank" pins every
            stream to one of them (`bench.affinity`), "none" leaves each request to the engine's load balancer, and
            prefix hits are then not predicted; between replicas there is none. Left open: "rank" where there are
            several.
    """

    ladder: Annotated[list[Point], Field(min_length=1)]
    turn_gap: TurnGap
    ramp_s: Seconds
    steady_s: Annotated[float, Field(gt=0, allow_inf_nan=False)]
    drain_s: Seconds = 60.0
    request_timeout_s: Annotated[float, Field(gt=0, allow_inf_nan=False)] = 60.0
    runs: Positive = 1
    client_processes: Annotated[int, Field(ge=0)] | None = None
    affinity: Literal["rank", "none"] | None = None


class Source(Strict):
    """Where a value comes from. Every value that decides the number has one.

    Attributes:
        kind: "article" (with the quote), "engine" (the pinned engine needs it), "measured" (by us; `why` says where),
            "assumption" (the source does not give it and we chose; named in every report), "scaled" (made smaller so
            that it fits; named in the report's title).
        quote: the article's words, verbatim; only with "article".
        why: the reason, for every other kind.
    """

    kind: Literal["article", "engine", "measured", "assumption", "scaled"]
    quote: str | None = None
    why: str | None = None

    @model_validator(mode="after")
    def _says_something(self) -> Source:
        if (self.kind == "article") != (self.quote is not None) or (self.kind != "article") != (self.why is not None):
            raise ValueError('a source has a quote (kind = "article") or a why (every other kind)')
        return self


class Claim(Strict):
    """A published figure.

    Attributes:
        id: short name.
        quote: the words that make the claim, verbatim.
        by: "article" or "project" (measured by us; `quote` then says where).
        kind: "measured" or "recollection".
        targets: the recipes that it is about; to every other target it is not comparable.
        hardware: the GPU it was made on ("H200", "B200"), or "cpu"; None where the source does not say.
        precision: of the weights it was made with; None where the source does not say.
        point: the operating point.
        metric: "e2e" or "ttft", seconds.
        quantile: 0.5, 0.9, 0.95 or 0.99.
        value_s: the figure.
        tolerance: how much above `value_s`, as a share of it, still holds the claim (0.05 is 5 %).
        tolerance_why: the words that justify it.
        against: target whose report is needed beside this one; the claim is then about the change between the two.
        against_value_s: the other target's figure.
    """

    id: Name
    quote: str
    by: Literal["article", "project"] = "article"
    kind: Literal["measured", "recollection"]
    targets: Annotated[list[Name], Field(min_length=1)]
    hardware: str | None = None
    precision: Literal["bf16", "fp8", "nvfp4"] | None = None
    point: Point
    metric: Literal["e2e", "ttft"] = "e2e"
    quantile: Annotated[float, Field(gt=0, lt=1)]
    value_s: Annotated[float, Field(gt=0, allow_inf_nan=False)]
    tolerance: Annotated[float, Field(ge=0, le=0.5)]
    tolerance_why: str
    against: Name | None = None
    against_value_s: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None

    @property
    def limit_s(self) -> float:
        """The figure with its tolerance: what p95 must stay under for the claim to hold."""
        return self.value_s * (1 + self.tolerance)


class Recipe(Strict):
    """One target, resolved: nothing is left to inherit or override.

    Attributes:
        target: its name, the file's stem.
        title: one line for people.
        hardware, engine, checkpoint, workload, load: what decides the number.
        claims: what it is measured against.
        sources: for every single value under hardware, checkpoint, engine, workload and load, by its dotted key: where
            it comes from.
        overridden: dotted keys that the command line set; a claim is not comparable when one of these replaced a value
            that the article gives.
    """

    target: Name
    title: str
    hardware: Hardware
    checkpoint: Checkpoint
    engine: Engine
    workload: Workload
    load: Load
    claims: list[Claim] = []
    sources: dict[str, Source]
    overridden: list[str] = []

    @model_validator(mode="after")
    def _consistent(self) -> Recipe:
        workload = self.workload
        if workload.shared_prefix_tokens >= workload.prompt_tokens:
            raise ValueError("workload.shared_prefix_tokens must be below workload.prompt_tokens")
        if workload.turns[0] > workload.turns[1]:
            raise ValueError("workload.turns is [fewest, most]")
        parallel = parallel_of(self.engine.flags)
        if self.hardware.kind == "gpu":
            check_gpus(self.hardware.count, parallel, self.replicas)
        if self.load.affinity is not None and self.ranks == 1:
            raise ValueError(
                "load.affinity belongs to an engine with engine.flags.data_parallel_size above 1, or to engine.replicas"
            )
        if self.load.affinity == "none" and self.replicas > 1:
            raise ValueError(
                'load.affinity = "none" leaves requests to the load balancer of one engine, and there is none between '
                "engine.replicas: leave it out"
            )
        return self

    @property
    def replicas(self) -> int:
        """Engines that are started side by side."""
        return self.engine.replicas or 1

    @property
    def ranks_each(self) -> int:
        """Data-parallel ranks of each of them."""
        return parallel_of(self.engine.flags).data

    @property
    def ranks(self) -> int:
        """Ranks of all of them together, each with a prefix cache of its own: see `bench.affinity`."""
        return self.replicas * self.ranks_each

    @property
    def rank_name(self) -> Literal["rank", "replica"]:
        """What a rank is called: a replica that has no ranks of its own is one."""
        return "replica" if self.replicas > 1 and self.ranks_each == 1 else "rank"

    @property
    def pinned_ranks(self) -> int:
        """Ranks that streams are pinned to in turn; 1 where nobody but the engine chooses."""
        return 1 if self.load.affinity == "none" else self.ranks
