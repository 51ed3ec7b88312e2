from __future__ import annotations

import gc
import sys

import pytest

from bench.load.quiet import SWITCH_INTERVAL_S, undisturbed


def test_the_interpreter_is_as_it_was_afterwards() -> None:
    interval = sys.getswitchinterval()

    def fail() -> None:
        with undisturbed():
            assert gc.get_freeze_count() > 0
            assert sys.getswitchinterval() == pytest.approx(SWITCH_INTERVAL_S)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert gc.get_freeze_count() == 0
    assert sys.getswitchinterval() == interval
