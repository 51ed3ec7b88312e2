"""What certifies, or spoils, the client's own measurement: gathered over one window, merged over processes."""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from dataclasses import dataclass, field

from bench.load.alarm import Alarm
from bench.load.lag import CpuMeter, LagMonitor, quantile
from bench.load.wire import Wire
from bench.observe.observations import ClientSelf


@dataclass(slots=True, kw_only=True)
class SelfSamples:
    """Raw samples of one window, so that quantiles over several processes are computed once, from all of them.

    Attributes:
        lag: lateness of timers, seconds.
        stamp_delays: kernel's stamp to ours, seconds; empty where the kernel does not say.
        send_delays: actual minus intended send time, seconds.
        cpu_s, wall_s: of this process over the window.
        generated_late: turns made during the load.
    """

    lag: array[float] = field(default_factory=lambda: array("d"))
    stamp_delays: array[float] = field(default_factory=lambda: array("d"))
    send_delays: array[float] = field(default_factory=lambda: array("d"))
    cpu_s: float = 0.0
    wall_s: float = 0.0
    generated_late: int = 0


class SelfWatch:
    """Gathers the samples of one process.

    Args:
        alarm: that sends the requests.
        wire: of the client.
    """

    def __init__(self, alarm: Alarm, wire: Wire) -> None:
        self._lag = LagMonitor(alarm)
        self._wire = wire
        self._cpu = CpuMeter()
        self.samples = SelfSamples()

    def start(self) -> None:
        """The window begins."""
        self._wire.delays = array("d")
        self._cpu = CpuMeter()
        self._lag.start()

    def stop(self) -> None:
        """The window ends."""
        self._lag.stop()
        self.samples.lag = self._lag.samples
        self.samples.cpu_s, self.samples.wall_s = self._cpu.read()
        self.samples.stamp_delays, self._wire.delays = self._wire.delays, array("d")


def observation(parts: Iterable[SelfSamples], *, run: int, point: int, t: float) -> ClientSelf:
    """One observation from the samples of every process.

    Args:
        parts: one for each process.
        run: which window it was.
        point: likewise.
        t: its end, seconds since the run's epoch.
    """
    samples = list(parts)
    lag = [value for part in samples for value in part.lag]
    delays = [value for part in samples for value in part.stamp_delays]
    sends = [value for part in samples for value in part.send_delays]
    return ClientSelf(
        t=t,
        run=run,
        point=point,
        # A window shorter than a tick has no lag sample; its whole length is then the most that can be said.
        lag_p50_s=_or(quantile(lag, 0.5), samples[0].wall_s),
        lag_p99_s=_or(quantile(lag, 0.99), samples[0].wall_s),
        lag_max_s=max(lag, default=samples[0].wall_s),
        cpu_s=sum(part.cpu_s for part in samples),
        wall_s=max(part.wall_s for part in samples),
        stamp_delay_p99_s=quantile(delays, 0.99),
        send_delay_p50_s=_nonnegative(quantile(sends, 0.5)),
        send_delay_p99_s=_nonnegative(quantile(sends, 0.99)),
        generated_late=sum(part.generated_late for part in samples),
        processes=len(samples),
    )


def _or(value: float | None, otherwise: float) -> float:
    return otherwise if value is None else value


def _nonnegative(value: float | None) -> float | None:
    return None if value is None else max(0.0, value)
