"""What one operating point asks of the client."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from bench.affinity import rank_of
from bench.errors import UsageError
from bench.load.trace import TraceLine, read_trace
from recipes.schema import Load, Point, TurnGap


@dataclass(frozen=True, slots=True, kw_only=True)
class Streams:
    """Conversations with turn gaps: the load of a voice service, and the default.

    Attributes:
        count: open streams.
        gap: seconds from the end of a reply to the stream's next request.
    """

    count: int
    gap: TurnGap


@dataclass(frozen=True, slots=True, kw_only=True)
class Closed:
    """So many requests always in flight: the next one is sent when one ends.

    Attributes:
        count: requests in flight.
        fastest_reply_s: no reply is expected sooner on average; sizes the stock of prepared turns.
    """

    count: int
    fastest_reply_s: float = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Open:
    """Requests arrive whatever the server does.

    Attributes:
        rate: mean arrivals per second, at full load; the ramp grows to it evenly.
        arrivals: "poisson", or "fixed" distances.
        callers: the arrivals are dealt to so many conversations in turn.
    """

    rate: float
    arrivals: Literal["poisson", "fixed"]
    callers: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Replay:
    """A recorded trace (`bench.load.trace`). It brings its own times: there is no ramp.

    Attributes:
        trace: path of the file, for messages: another process or host does not read it.
        lines: what it says.
        callers: the requests are taken from so many conversations.
    """

    trace: Path
    lines: tuple[TraceLine, ...]
    callers: int = 64

    @property
    def rate(self) -> float:
        """Mean requests per second over its length."""
        return len(self.lines) / max(1.0, self.lines[-1].time)


@dataclass(frozen=True, slots=True, kw_only=True)
class BargeIn:
    """Streams whose caller interrupts some replies: the request is cancelled by closing its connection.

    Attributes:
        streams: as without interruptions; the gap counts from the interruption.
        share: of the requests that are interrupted, 0 to 1.
        after_s: seconds from the intended send time to the interruption, uniform between the two. A reply that is
            complete by then is not interrupted.
    """

    streams: Streams
    share: float
    after_s: tuple[float, float]


Model: TypeAlias = Streams | Closed | Open | Replay | BargeIn


@dataclass(frozen=True, slots=True, kw_only=True)
class Shard:
    """The part of a point that one process does: streams `index`, `index + of`, `index + 2 of`, ..."""

    index: int = 0
    of: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class PointPlan:
    """One operating point of one run.

    Attributes:
        point: index in the recipe's ladder.
        run: index of the engine start.
        seed: of everything that the load models draw; differs between runs and points.
        model: which load.
        ramp_s, steady_s, drain_s: lengths of the phases, seconds; the drain ends earlier when every reply has.
        request_timeout_s: counted from the intended send time.
        ranks: that its streams are pinned to (`bench.affinity`); 1 leaves each request to the engine.
        shard: which part of it.
    """

    point: int
    run: int
    seed: int
    model: Model
    ramp_s: float
    steady_s: float
    drain_s: float
    request_timeout_s: float
    ranks: int = 1
    shard: Shard = Shard()

    def mine(self, streams: int) -> range:
        """The streams of the point that are this shard's."""
        return range(self.shard.index, streams, self.shard.of)

    def rank_of(self, stream: int) -> int | None:
        """The rank that a stream's requests name; None where they name none."""
        return None if self.ranks == 1 else rank_of(stream, self.ranks)

    def __post_init__(self) -> None:
        if min(self.ramp_s, self.steady_s, self.drain_s) < 0 or self.steady_s == 0 or self.request_timeout_s <= 0:
            raise UsageError(
                f"point {self.point}: a phase of the load has a negative length, or the window or timeout is empty",
                remedy="load.steady_s and load.request_timeout_s are above 0, load.ramp_s and load.drain_s 0 or more.",
            )

    @classmethod
    def from_recipe(cls, load: Load, *, point: int, run: int, seed: int, ranks: int = 1) -> PointPlan:
        """The plan for point `point` of the recipe's ladder, its streams pinned to so many ranks."""
        return cls(
            point=point,
            run=run,
            seed=seed,
            model=model_of(load.ladder[point], load.turn_gap),
            ramp_s=load.ramp_s,
            steady_s=load.steady_s,
            drain_s=load.drain_s,
            request_timeout_s=load.request_timeout_s,
            ranks=ranks,
        )


def model_of(point: Point, gap: TurnGap) -> Model:
    """The load model of a point of the ladder.

    Args:
        point: of the ladder.
        gap: of the recipe, where the point has none of its own.

    Raises:
        UsageError: its trace cannot be read, or is none.
    """
    if point.concurrent is not None:
        return Closed(count=point.concurrent)
    if point.rate is not None:
        callers = max(1, math.ceil(point.rate * gap.mean_s))
        return Open(rate=point.rate, arrivals=point.arrivals or "poisson", callers=callers)
    if point.trace is not None:
        trace = Path(point.trace)
        return Replay(trace=trace, lines=tuple(read_trace(trace, sha256=point.trace_sha256)))
    streams = Streams(count=point.streams or 0, gap=point.turn_gap or gap)  # the schema demands exactly one of the four
    if point.barge_in is None:
        return streams
    earliest, latest = point.barge_in.after_s
    return BargeIn(streams=streams, share=point.barge_in.share, after_s=(earliest, latest))
