"""Observations, indexed by run and point."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from bench.errors import StreamproofError
from bench.observe.compiled import CompiledFiles
from bench.observe.lasting import Lasting, LastingHits
from bench.observe.observations import (
    ClientSelf,
    ContainerFacts,
    Counters,
    EngineEvent,
    EngineStarted,
    Finished,
    Interrupted,
    PhaseStarted,
    Probed,
    ResidentFacts,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from bench.observe.observations import CounterValues, Observation

RunPoint: TypeAlias = tuple[int, int]
"""(run, index of the point)."""

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True, kw_only=True)
class Phases:
    """When the phases of one point of one run began; None for those that were not reached."""

    prime: float | None = None
    ramp: float | None = None
    steady: float | None = None
    drain: float | None = None
    done: float | None = None


@dataclass(slots=True)
class Seen:
    """What was observed beside the requests.

    Attributes:
        started: the engine of each run.
        phases: of each point of each run that was begun.
        before, after: the engine's counters around them.
        clients: the client's own condition in their windows.
        probed: by run and moment, the probe "before" and "after" its ladder.
        events: what the engine's log told.
        compiled: what the engine's caches told of a point, by replica; of None where all have the same ones.
        lasting: what was planned of prefix hits in the long run.
        interrupted: the first sign of an early end.
        finished: whether the run says that it came to its end.
        last_s: time of the last observation.
    """

    started: dict[int, EngineStarted] = field(default_factory=dict)
    phases: dict[RunPoint, Phases] = field(default_factory=dict)
    before: dict[RunPoint, CounterValues] = field(default_factory=dict)
    after: dict[RunPoint, CounterValues] = field(default_factory=dict)
    clients: dict[RunPoint, ClientSelf] = field(default_factory=dict)
    probed: dict[tuple[int, str], Probed] = field(default_factory=dict)
    events: list[EngineEvent] = field(default_factory=list)
    compiled: dict[RunPoint, dict[int | None, CompiledFiles]] = field(default_factory=dict)
    lasting: Lasting | None = None
    interrupted: Interrupted | None = None
    finished: bool = False
    last_s: float = 0.0

    @property
    def containers(self) -> tuple[ContainerFacts, ...]:
        """That engines ran in, one for each start that had one."""
        return tuple(seen.container for _, seen in sorted(self.started.items()) if seen.container is not None)

    @property
    def residents(self) -> tuple[ResidentFacts, ...]:
        """Of the engines that were there before their run began."""
        return tuple(seen.resident for _, seen in sorted(self.started.items()) if seen.resident is not None)


def index(observations: Iterable[Observation]) -> Seen:
    """Sorts observations into their places.

    Raises:
        StreamproofError: they contradict each other: two engines in one run, a phase that begins twice or too early.
    """
    seen = Seen()
    phases: dict[RunPoint, dict[str, float]] = {}
    for observation in observations:
        seen.last_s = max(seen.last_s, observation.t)
        _place(observation, seen, phases)
    seen.phases = _in_order(phases)
    return seen


def _place(observation: Observation, seen: Seen, phases: dict[RunPoint, dict[str, float]]) -> None:
    match observation:
        case EngineStarted(run=run):
            _once(seen.started, run, observation, "the engine's start")
        case PhaseStarted(run=run, point=point, phase=phase):
            _once(phases.setdefault((run, point), {}), phase, observation.t, f"phase {phase} of point {point}")
        case Counters(run=run, point=point, when=when, values=values):
            side = seen.before if when == "before" else seen.after
            _once(side, (run, point), values, f"counters {when} point {point}")
        case ClientSelf(run=run, point=point):
            _once(seen.clients, (run, point), observation, f"the client at point {point}")
        case Probed(run=run, when=when):
            _once(seen.probed, (run, when), observation, f"the probe {when} the ladder")
        case CompiledFiles(run=run, point=point, replica=replica):
            there = seen.compiled.setdefault((run, point), {})
            _once(there, replica, observation, f"the look into the caches after point {point}")
        case _:
            _place_of_no_point(observation, seen)


def _place_of_no_point(observation: Observation, seen: Seen) -> None:
    match observation:
        case EngineEvent():
            seen.events.append(observation)
        case LastingHits(hits=hits):
            seen.lasting = hits
        case Interrupted():
            seen.interrupted = seen.interrupted or observation
        case Finished():
            seen.finished = True
        case _:
            pass  # gauges and samples of GPU and host: for pictures, not for figures


def _once(into: dict[_Key, _Value], key: _Key, value: _Value, what: str) -> None:
    if key in into:
        raise _contradiction(f"{what} is there twice")
    into[key] = value


def _in_order(phases: Mapping[RunPoint, dict[str, float]]) -> dict[RunPoint, Phases]:
    return {(run, point): _ordered(times, run, point) for (run, point), times in phases.items()}


def _ordered(times: dict[str, float], run: int, point: int) -> Phases:
    phases = Phases(**times)
    in_order = (phases.prime, phases.ramp, phases.steady, phases.drain, phases.done)
    reached = [time for time in in_order if time is not None]
    if reached != sorted(reached):
        raise _contradiction(f"the phases of point {point} in run {run} are not in order")
    return phases


def _contradiction(what: str) -> StreamproofError:
    return StreamproofError(
        f"The observations contradict each other: {what}.",
        remedy="They were changed after they were written, or two runs wrote into one folder.",
    )
