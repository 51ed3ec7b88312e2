"""Samples engine, GPU and host about once a second, beside the measurement.

It runs in a thread: reading a page or a driver waits for somebody else, and the event loop that measures must not.
Measured: a round costs the client 1.2 ms of CPU with a page of vLLM's size, and an H200's driver answers within 7 ms.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING, Final, Self

from bench.observe.host import HostLoad
from bench.observe.observations import EngineEvent, Gauges

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench.engine.metrics import MetricsPage
    from bench.observe.gpu import Gpus
    from bench.observe.observations import GpuSample, HostSample

    Sample = Gauges | GpuSample | HostSample | EngineEvent

PERIOD_S: Final = 1.0


class Sampler:
    """Samples until it is closed. A context manager.

    Args:
        run: index of the engine start.
        clock: the run's clock.
        page: the engine's metrics; None where it has none.
        gpus: the GPUs to watch.
        period_s: between two samples.
    """

    def __init__(
        self,
        *,
        run: int,
        clock: Callable[[], float],
        page: MetricsPage | None,
        gpus: Gpus,
        period_s: float = PERIOD_S,
    ) -> None:
        self._run = run
        self._clock = clock
        self._page = page
        self._gpus = gpus
        self._period_s = period_s
        self._host = HostLoad()
        self._preemptions: tuple[float | None, ...] = ()
        self._taken: deque[Sample] = deque()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._go_on, name="sampler", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop, after the round that is under way."""
        self._stop.set()
        self._thread.join()

    def take(self) -> list[Sample]:
        """The samples since the last call, oldest first. From any thread; never waits."""
        return [self._taken.popleft() for _ in range(len(self._taken))]

    def look(self) -> None:
        """One round. The thread calls it; a test may."""
        self._taken.append(self._host.sample(t=self._clock(), run=self._run))
        self._taken.extend(self._gpus.sample(t=self._clock(), run=self._run))
        if self._page is not None:
            self._look_at_engine(self._page)

    def _look_at_engine(self, page: MetricsPage) -> None:
        text = page.read()
        if text is None:
            return
        t = self._clock()
        now = text.gauges()
        self._taken.append(Gauges(t=t, run=self._run, running=now.running, waiting=now.waiting, kv_usage=now.kv_usage))
        before, self._preemptions = self._preemptions, now.preemptions
        # The engine writes no line when it preempts a request; its counter alone tells.
        for server, (last, count) in enumerate(zip(before, now.preemptions, strict=False)):
            if last is not None and count is not None and count > last:
                self._taken.append(
                    EngineEvent(
                        t=t,
                        run=self._run,
                        event="preemption",
                        line=f"vllm:num_preemptions rose from {last:g} to {count:g}",
                        line_number=None,
                        replica=server if len(before) > 1 else None,
                    )
                )

    def _go_on(self) -> None:
        while not self._stop.wait(self._period_s):
            self.look()
