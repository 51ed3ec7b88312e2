from __future__ import annotations

import time

from hypothesis import given
from hypothesis import strategies as st

from bench.load.clock import RunClock


def test_it_begins_at_its_epoch_and_goes_on() -> None:
    before, wall = time.monotonic(), time.time()
    clock = RunClock.start()
    assert before <= clock.epoch <= time.monotonic()
    assert wall <= clock.epoch_wall <= time.time()
    assert 0 <= clock.now() <= clock.now()


@given(epoch=st.floats(0, 1e6), reading=st.floats(0, 1e6))
def test_both_ways(epoch: float, reading: float) -> None:
    clock = RunClock(epoch=epoch, epoch_wall=0.0)
    assert abs(clock.monotonic(clock.since_epoch(reading)) - reading) < 1e-9
