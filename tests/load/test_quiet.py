from __future__ import annotations

import gc
import sys

import pytest

from bench.load.quiet import SWITCH_INTERVAL_S, undisturbed


def test_the_interpreter_is_as_it_was_afterwards() -> None:
    interval, thresholds = sys.getswitchinterval(), gc.get_threshold()

    def fail() -> None:
        with undisturbed():
            assert gc.get_threshold()[:2] == thresholds[:2]
            assert sys.getswitchinterval() == pytest.approx(SWITCH_INTERVAL_S)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert (sys.getswitchinterval(), gc.get_threshold()) == (interval, thresholds)


def test_nothing_old_is_looked_at_however_much_is_made() -> None:
    generations: list[int] = []

    def note(phase: str, info: dict[str, int]) -> None:
        if phase == "start":
            generations.append(info["generation"])

    with undisturbed():
        gc.callbacks.append(note)
        kept = [[number] for number in range(200_000)]
        gc.callbacks.remove(note)
    assert len(kept) == 200_000
    assert set(generations) == {0, 1}
