"""Several clients that do one point together, wherever each of them runs: how they are led through its phases."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol, TypeVar

from bench.errors import StreamproofError
from bench.load.context import Times, together
from bench.load.selfcheck import SelfSamples, observation
from bench.load.worker import Command, Message, Prepared, Primed
from bench.observe.observations import PhaseStarted
from bench.records import RequestRecord

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.load.clock import RunClock
    from bench.load.plan import PointPlan
    from bench.load.point import OnPhase, Phase
    from bench.load.sender import OnRecord

Kind = TypeVar("Kind")


class Member(Protocol):
    """One of them (`bench.load.worker.work`, as its leader sees it)."""

    def tell(self, command: Command) -> None:
        """Give it a command; one that has ended does not hear it."""
        ...

    async def expect(self, kind: type[Kind]) -> Kind:
        """Its next message, which must be of this kind.

        Raises:
            Exception: the error that it met, or that was raised for one of its records.
        """
        ...


async def lead(team: Sequence[Member], plan: PointPlan, clock: RunClock, on_phase: OnPhase, *, lead_s: float) -> None:
    """Through all phases of a point: the first one primes, all begin the ramp at the same moment.

    Args:
        team: all of them.
        plan: of the whole point.
        clock: of the run; theirs have its epoch.
        on_phase: takes the phases as they begin, and `ClientSelf` after the last.
        lead_s: between the decision to begin and the ramp: every one has heard of it and set its streams up.
    """

    def started(phase: Phase, t: float) -> None:
        on_phase(PhaseStarted(t=t, run=plan.run, point=plan.point, phase=phase))

    async def announce(times: Times) -> None:
        phases: tuple[tuple[Phase, float], ...] = (
            ("ramp", times.ramp),
            ("steady", times.steady),
            ("drain", times.drain),
        )
        for phase, t in phases:
            await asyncio.sleep(t - clock.now())
            started(phase, t)

    async def prepared(member: Member) -> None:
        await member.expect(Prepared)

    async def driven(member: Member) -> None:
        samples.append(await member.expect(SelfSamples))

    samples: list[SelfSamples] = []
    await together(prepared(member) for member in team)
    started("prime", clock.now())
    team[0].tell("prime")
    await team[0].expect(Primed)
    times = Times.of(plan, clock.now() + lead_s)
    for member in team:
        member.tell(times)
    await together((announce(times), *(driven(member) for member in team)))
    started("done", clock.now())
    on_phase(observation(samples, run=plan.run, point=plan.point, t=times.drain))


class Mailbox:
    """What one of them has said: messages wait for their leader, records go on at once.

    Args:
        name: in errors.
        on_record: takes every record; once it has raised, it is not called again.

    Attributes:
        ended: set when nothing more comes.
        failure: what `on_record` raised.
    """

    def __init__(self, name: str, on_record: OnRecord) -> None:
        self._name = name
        self._on_record = on_record
        self._messages: asyncio.Queue[Message] = asyncio.Queue()
        self.ended = asyncio.Event()
        self.failure: Exception | None = None

    def put(self, message: Message | RequestRecord) -> None:
        """Take a message or a record."""
        if not isinstance(message, RequestRecord):
            self._messages.put_nowait(message)
        elif self.failure is None:
            try:
                self._on_record(message)
            except Exception as error:  # noqa: BLE001  it is raised where the member is awaited
                self.failure = error
                self._messages.put_nowait(error)

    def end(self, why: str) -> None:
        """Nothing more comes; whoever still expects something learns why."""
        self.ended.set()
        self._messages.put_nowait(
            StreamproofError(
                f"{self._name} ended before its work{why}",
                remedy="Was it killed (for memory, say)? Its records up to then are kept.",
            )
        )

    async def expect(self, kind: type[Kind]) -> Kind:
        """See `Member.expect`."""
        message = await self._messages.get()
        if isinstance(message, Exception):
            raise message
        if not isinstance(message, kind):
            raise TypeError(f"{self._name} sent {message!r} instead of {kind.__name__}")
        return message
