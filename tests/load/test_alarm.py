from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from bench.load.alarm import Alarm

pytestmark = pytest.mark.alone


def test_deadlines_come_in_their_order_and_never_early() -> None:
    async def main() -> list[tuple[str, bool]]:
        fired: list[tuple[str, bool]] = []
        with Alarm() as alarm:
            begin = time.monotonic()

            def at(name: str, after: float) -> None:
                when = begin + after
                alarm.call_at(when, lambda: fired.append((name, time.monotonic() >= when)))

            at("third", 0.003)
            at("first", 0.001)
            at("second", 0.002)
            at("second, asked for later", 0.002)
            await alarm.sleep_until(begin + 0.004)
        return fired

    assert asyncio.run(main()) == [
        ("first", True),
        ("second", True),
        ("second, asked for later", True),
        ("third", True),
    ]


def test_a_past_deadline_fires_at_once_and_at_the_start_of_the_clock_too() -> None:
    async def main() -> None:
        with Alarm() as alarm:
            await alarm.sleep_until(time.monotonic() - 1)
            await alarm.sleep_until(0.0)

    asyncio.run(main())


def test_a_cancelled_deadline_does_not_fire() -> None:
    async def main() -> list[str]:
        fired: list[str] = []
        with Alarm() as alarm:
            now = time.monotonic()
            entry = alarm.call_at(now + 0.001, lambda: fired.append("cancelled"))
            alarm.call_at(now + 0.002, lambda: fired.append("kept"))
            entry.cancel()
            await alarm.sleep_until(now + 0.003)
            entry.cancel()
        return fired

    assert asyncio.run(main()) == ["kept"]


def test_a_deadline_may_set_the_next_one_and_cancel_its_neighbour() -> None:
    async def main() -> list[str]:
        fired: list[str] = []
        with Alarm() as alarm:
            now = time.monotonic()

            def first() -> None:
                fired.append("first")
                neighbour.cancel()
                alarm.call_at(now, lambda: fired.append("next"))

            alarm.call_at(now, first)
            neighbour = alarm.call_at(now + 0.0005, lambda: fired.append("neighbour"))
            await alarm.sleep_until(now + 0.002)
        return fired

    assert asyncio.run(main()) == ["first", "next"]


def test_a_callback_that_fails_is_reported_and_stops_no_other() -> None:
    async def main() -> tuple[list[str], list[dict[str, Any]]]:
        fired: list[str] = []
        reports: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, report: reports.append(report))
        with Alarm() as alarm:
            now = time.monotonic()
            alarm.call_at(now, lambda: 1 / 0)
            alarm.call_at(now, lambda: fired.append("other"))
            await alarm.sleep_until(now + 0.001)
        return fired, reports

    fired, reports = asyncio.run(main())
    assert fired == ["other"]
    assert [type(report["exception"]) for report in reports] == [ZeroDivisionError]


def test_a_cancelled_sleeper_leaves_and_a_closed_alarm_fires_no_more() -> None:
    async def main() -> None:
        with Alarm() as alarm:
            sleeper = asyncio.ensure_future(alarm.sleep_until(time.monotonic() + 60))
            await asyncio.sleep(0)
            sleeper.cancel()
            with pytest.raises(asyncio.CancelledError):
                await sleeper
            alarm.call_at(time.monotonic() + 60, lambda: 1 / 0)
        alarm.close()

    asyncio.run(main())


def test_the_timer_is_armed_again_only_for_an_earlier_deadline() -> None:
    async def main() -> list[float]:
        armed: list[float] = []
        with Alarm() as alarm:
            arm = alarm._arm

            def counted(when: float) -> None:
                armed.append(when)
                arm(when)

            alarm._arm = counted  # type: ignore[method-assign]
            now = time.monotonic()
            for after in (60.0, 70.0, 50.0, 55.0):
                alarm.call_at(now + after, lambda: None)
        return [round(when - now) for when in armed]

    assert asyncio.run(main()) == [60, 50]
