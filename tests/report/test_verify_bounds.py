import resource
import signal
import threading
from contextlib import suppress

import numpy as np
import pytest

from bench.report.verify_bounds import OutOfTimeError, cpu_time, memory_for


def test_who_wants_more_memory_gets_an_error_and_the_limit_is_lifted_again() -> None:
    limit = resource.getrlimit(resource.RLIMIT_DATA)
    with memory_for(64 << 20):
        np.zeros(1 << 20, np.uint8)
        with pytest.raises(MemoryError):
            np.zeros(1 << 28, np.uint8)
    assert resource.getrlimit(resource.RLIMIT_DATA) == limit
    np.zeros(1 << 28, np.uint8)


def test_whoever_goes_on_for_too_long_is_ended_even_if_it_catches_everything_once() -> None:
    before = signal.getsignal(signal.SIGPROF)
    lost: list[OutOfTimeError] = []

    def work() -> None:
        try:
            while True:
                with suppress(Exception):  # what our own code may do: it does not see it
                    while True:
                        pass
        except OutOfTimeError as error:
            lost.append(error)
            while True:  # as if nothing had been
                pass

    with pytest.raises(OutOfTimeError), cpu_time(0.01):
        work()
    assert len(lost) == 1
    assert signal.getsignal(signal.SIGPROF) == before
    assert signal.getitimer(signal.ITIMER_PROF) == (0.0, 0.0)


def test_on_another_thread_there_is_no_such_bound_and_no_error() -> None:
    done: list[int] = []

    def work() -> None:
        with cpu_time(0.000001):
            done.append(sum(range(100_000)))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert done == [sum(range(100_000))]
