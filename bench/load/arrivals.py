"""Arrivals that do not wait for the server: each is sent at its time, whatever is still open."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, TypeAlias

from bench.load.context import Context, Times

Send: TypeAlias = Callable[[float], Coroutine[Any, Any, object]]


async def send_at(context: Context, times: Times, arrivals: Iterable[tuple[float, Send]]) -> None:
    """Start each arrival at its time; return when all have ended. The first that fails ends the others.

    Args:
        context: of the point.
        times: of its phases; what is not due before the drain is not sent.
        arrivals: in order of time: seconds since the run's epoch, and what sends the request, given that time.
    """
    try:
        async with asyncio.TaskGroup() as group:
            for at_s, send in arrivals:
                if at_s >= times.drain:
                    break
                await context.sleep_until(at_s)
                group.create_task(send(at_s))
    except BaseExceptionGroup as failures:
        raise failures.exceptions[0] from None
