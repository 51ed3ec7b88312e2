from __future__ import annotations

import asyncio
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.load import lag
from bench.load.alarm import Alarm
from bench.load.lag import CpuMeter, LagMonitor, quantile

pytestmark = pytest.mark.alone


def test_ticks_that_a_stall_swallowed_are_counted_each_with_its_lateness(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(time, "monotonic", lambda: now)

    class Once:
        """Stands in for the alarm: keeps the deadline that was asked for."""

        when = 0.0

        def call_at(self, when: float, callback: object) -> None:
            assert callback == monitor._tick
            self.when = when

    alarm = Once()
    monitor = LagMonitor(alarm)  # type: ignore[arg-type]
    monitor.start()
    assert alarm.when == pytest.approx(0.020)
    now = 0.0205  # half a millisecond late
    monitor._tick()
    now = 0.1055  # a stall over the ticks of 40, 60, 80 and 100 ms
    monitor._tick()
    assert list(monitor.samples) == pytest.approx([0.0005, 0.0655, 0.0455, 0.0255, 0.0055])
    assert alarm.when == pytest.approx(0.120)


def test_it_ticks_from_start_to_stop() -> None:
    async def main() -> tuple[int, int]:
        with Alarm() as alarm:
            monitor = LagMonitor(alarm)
            monitor.stop()
            monitor.start()
            await alarm.sleep_until(time.monotonic() + 3.5 * lag.TICK_S)
            monitor.stop()
            ticks = len(monitor.samples)
            await alarm.sleep_until(time.monotonic() + 2 * lag.TICK_S)
            return ticks, len(monitor.samples)

    ticks, later = asyncio.run(main())
    assert ticks == later >= 3


def test_a_stall_of_the_loop_shows() -> None:
    async def main() -> float:
        with Alarm() as alarm:
            monitor = LagMonitor(alarm)
            monitor.start()
            end = time.monotonic() + 0.05
            while time.monotonic() < end:
                pass  # the loop cannot run meanwhile
            await alarm.sleep_until(end)
            return max(monitor.samples)

    assert asyncio.run(main()) >= 0.05 - lag.TICK_S


def test_cpu_and_wall_seconds() -> None:
    meter = CpuMeter()
    while meter.read()[0] <= 0:
        pass
    cpu, wall = meter.read()
    assert cpu > 0
    assert wall > 0


@given(st.lists(st.floats(0, 10), min_size=1), st.sampled_from([0.01, 0.5, 0.95, 0.99]))
def test_a_quantile_is_a_sample_that_enough_do_not_exceed(values: list[float], q: float) -> None:
    value = quantile(values, q)
    assert value in values
    assert sum(other <= value for other in values) >= q * len(values) - 1e-9
    assert quantile([], q) is None
