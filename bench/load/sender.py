"""From a turn that is due to its record: what all load models share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from bench.load.alarm import Alarm
from bench.load.clock import RunClock
from bench.load.connection import Call
from bench.load.plan import PointPlan
from bench.load.reply import Exchange
from bench.load.target import TurnClient
from bench.records import Outcome, RequestRecord
from bench.workload.turn import Turn

OnRecord: TypeAlias = Callable[[RequestRecord], None]


class Sender:
    """Sends turns and makes each into a record, the moment it ends.

    Args:
        client, clock, alarm: of the run.
        plan: of the point.
        on_record: takes each record; once it has raised, it is not called again.

    Attributes:
        failure: what `on_record` raised.
    """

    def __init__(self, client: TurnClient, clock: RunClock, alarm: Alarm, plan: PointPlan, on_record: OnRecord) -> None:
        self._client = client
        self._clock = clock
        self._alarm = alarm
        self._plan = plan
        self._on_record = on_record
        self._sent = 0
        self._open: set[Call] = set()
        self._closed = False
        self.failure: Exception | None = None

    async def send(
        self, turn: Turn, intended_s: float, *, stream: int, primed: bool = False, interrupt_s: float | None = None
    ) -> RequestRecord:
        """Send a turn now; its record when it has ended in whatever way.

        Args:
            turn: what to send.
            intended_s: when it should have been sent, seconds since the run's epoch; latency counts from here.
            stream: index within the point; it decides the rank where the plan pins streams to ranks.
            primed: it fills the prefix cache, before the ramp.
            interrupt_s: the caller interrupts so many seconds after `intended_s`, if the reply is not complete by then.

        Raises:
            asyncio.CancelledError: `close` was called: nothing more is sent.
        """
        if self._closed:
            raise asyncio.CancelledError
        number = self._sent * self._plan.shard.of + self._plan.shard.index
        self._sent += 1
        ended: asyncio.Future[RequestRecord] = asyncio.get_running_loop().create_future()

        def end(exchange: Exchange) -> None:
            self._open.discard(call)
            record = _record(self._plan, _Sent(turn, number, intended_s, stream, primed), exchange)
            if self.failure is None:
                try:
                    self._on_record(record)
                except Exception as error:  # noqa: BLE001  it is raised where the request is awaited
                    self.failure = error
            if ended.done():
                return
            if self.failure is None:
                ended.set_result(record)
            else:
                ended.set_exception(self.failure)
                ended.exception()  # nobody may be left to await it; `failure` keeps it

        call = self._client.send(turn, intended_s, end, rank=self._plan.rank_of(stream))
        self._open.add(call)
        if interrupt_s is None:
            return await ended
        entry = self._alarm.call_at(
            self._clock.monotonic(intended_s + interrupt_s),
            lambda: call.abandon(Outcome.BARGE_IN, "the caller interrupted", self._clock.now()),
        )
        try:
            return await ended
        finally:
            entry.cancel()

    def abandon_all(self, outcome: Outcome, error: str) -> None:
        """End every open request now, with this outcome."""
        now = self._clock.now()
        for call in list(self._open):
            call.abandon(outcome, error, now)

    def close(self, outcome: Outcome, error: str) -> None:
        """End every open request now, and send nothing more."""
        self._closed = True
        self.abandon_all(outcome, error)


class _Sent(NamedTuple):
    """The part of a record that is known when it is sent."""

    turn: Turn
    number: int
    intended_s: float
    stream: int
    primed: bool


def _record(plan: PointPlan, sent: _Sent, exchange: Exchange) -> RequestRecord:
    turn = sent.turn
    return RequestRecord(
        point=plan.point,
        run=plan.run,
        request=sent.number,
        stream=sent.stream,
        conversation=turn.conversation,
        turn=turn.turn,
        agent=turn.agent,
        primed=sent.primed,
        intended_s=sent.intended_s,
        sent_s=exchange.sent_s,
        headers_s=exchange.headers_s,
        first_token_s=exchange.first_token_s,
        last_token_s=exchange.last_token_s,
        done_s=exchange.done_s,
        chunk_s=exchange.chunk_s,
        prompt_tokens_expected=turn.prompt_tokens,
        prompt_tokens=exchange.prompt_tokens,
        cached_tokens=exchange.cached_tokens,
        completion_tokens=exchange.completion_tokens,
        requested_tokens=turn.output_tokens,
        finish_reason=exchange.finish_reason,
        status=exchange.status,
        outcome=exchange.outcome,
        error=exchange.error,
        segments=tuple((segment.key, segment.tokens) for segment in turn.segments),
    )
