"""NVIDIA GPUs, through the driver's own library (NVML). A host without the driver has no GPUs; that is no error."""

from __future__ import annotations

import contextlib
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol, Self, TypeVar

import psutil
import pynvml  # type: ignore[import-untyped]  # the library has no types
from pydantic import BaseModel, ConfigDict

from bench.observe.observations import GpuSample

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

_T = TypeVar("_T")

_SLOWED: Final = {
    pynvml.nvmlClocksEventReasonSwPowerCap: "power cap",
    pynvml.nvmlClocksEventReasonHwSlowdown: "hardware slowdown",
    pynvml.nvmlClocksEventReasonSyncBoost: "sync boost",
    pynvml.nvmlClocksEventReasonSwThermalSlowdown: "software thermal slowdown",
    pynvml.nvmlClocksEventReasonHwThermalSlowdown: "hardware thermal slowdown",
    pynvml.nvmlClocksEventReasonHwPowerBrakeSlowdown: "power brake",
}
"""What keeps a GPU below its highest clock, except that it has nothing to do or that somebody set its clock."""


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class GpuProcess(_Part):
    """A process that computes on a GPU.

    Attributes:
        pid: its number on this host; in a container the driver may give another namespace's.
        name: of its program; None where it is not ours to see.
        memory_bytes: GPU memory that it holds; None where the driver does not say.
    """

    pid: int
    name: str | None
    memory_bytes: int | None


class Gpu(_Part):
    """One GPU as it stands before a run. None where the driver does not say.

    Attributes:
        index: the driver's number, before CUDA_VISIBLE_DEVICES.
        uuid: the driver's identity of this very card.
        name: product.
        memory_bytes, memory_free_bytes: of the whole card.
        sm_clock_mhz, memory_clock_mhz: now. sm_clock_max_mhz, memory_clock_max_mhz: the highest it can.
        power_limit_w: enforced now. power_limit_default_w: as delivered.
        ecc: error-correcting memory is on.
        mig: the card is split into instances.
        persistence: the driver stays loaded between processes.
        processes: what computes on it.
    """

    index: int
    uuid: str
    name: str
    memory_bytes: int | None
    memory_free_bytes: int | None
    sm_clock_mhz: int | None
    sm_clock_max_mhz: int | None
    memory_clock_mhz: int | None
    memory_clock_max_mhz: int | None
    power_limit_w: float | None
    power_limit_default_w: float | None
    ecc: bool | None
    mig: bool | None
    persistence: bool | None
    processes: tuple[GpuProcess, ...]


class GpuDriver(_Part):
    """The driver, one for all GPUs of a host.

    Attributes:
        version: "580.159.03".
        cuda: the newest CUDA that it runs, "13.0".
    """

    version: str
    cuda: str


class Nvml(Protocol):
    """The part of `pynvml` that is used: functions named nvml..., and their error."""

    NVMLError: type[Exception]

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  the library has no types
        """Any function or constant."""


class Gpus:
    """The GPUs of this host. Usable as a context manager; `close` it when done.

    Args:
        only: UUIDs of those that matter: a run's own, so that two runs on one host never count each other's cards. None
            takes all.
        nvml: the library; tests pass their own.
    """

    def __init__(self, only: Collection[str] | None = None, *, nvml: Nvml = pynvml) -> None:
        self._nvml = nvml
        self._handles: dict[int, Any] = {}
        self._open = False
        try:
            nvml.nvmlInit()
        except nvml.NVMLError:  # no driver here
            return
        self._open = True
        for index in range(nvml.nvmlDeviceGetCount()):
            # A card that fell off the bus, or that this container may not touch, has no handle.
            handle = self._ask(partial(nvml.nvmlDeviceGetHandleByIndex, index))
            if handle is not None and (only is None or nvml.nvmlDeviceGetUUID(handle) in only):
                self._handles[index] = handle

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the driver. Safe to call twice."""
        if self._open:
            self._open = False
            self._handles = {}
            self._nvml.nvmlShutdown()

    def driver(self) -> GpuDriver | None:
        """The driver; None where there is none."""
        if not self._open:
            return None
        cuda = int(self._nvml.nvmlSystemGetCudaDriverVersion_v2())
        # 13000 is 13.0, 12090 is 12.9.
        return GpuDriver(version=self._nvml.nvmlSystemGetDriverVersion(), cuda=f"{cuda // 1000}.{cuda % 1000 // 10}")

    def describe(self) -> tuple[Gpu, ...]:
        """Every GPU as it stands now."""
        return tuple(self._describe(index, handle) for index, handle in self._handles.items())

    def sample(self, *, t: float, run: int) -> list[GpuSample]:
        """A moment's state of every GPU.

        Args:
            t: the moment, on the run's clock.
            run: index of the engine start.
        """
        return [self._sample(index, handle, t, run) for index, handle in self._handles.items()]

    def _describe(self, index: int, handle: Any) -> Gpu:  # noqa: ANN401  the library has no types
        nvml, ask = self._nvml, self._ask
        memory = ask(lambda: nvml.nvmlDeviceGetMemoryInfo(handle))
        sm, mem = nvml.NVML_CLOCK_SM, nvml.NVML_CLOCK_MEM
        return Gpu(
            index=index,
            uuid=nvml.nvmlDeviceGetUUID(handle),
            name=nvml.nvmlDeviceGetName(handle),
            memory_bytes=memory.total if memory else None,
            memory_free_bytes=memory.free if memory else None,
            sm_clock_mhz=ask(lambda: int(nvml.nvmlDeviceGetClockInfo(handle, sm))),
            sm_clock_max_mhz=ask(lambda: int(nvml.nvmlDeviceGetMaxClockInfo(handle, sm))),
            memory_clock_mhz=ask(lambda: int(nvml.nvmlDeviceGetClockInfo(handle, mem))),
            memory_clock_max_mhz=ask(lambda: int(nvml.nvmlDeviceGetMaxClockInfo(handle, mem))),
            power_limit_w=ask(lambda: nvml.nvmlDeviceGetEnforcedPowerLimit(handle) / 1000),
            power_limit_default_w=ask(lambda: nvml.nvmlDeviceGetPowerManagementDefaultLimit(handle) / 1000),
            ecc=ask(lambda: bool(nvml.nvmlDeviceGetEccMode(handle)[0])),
            mig=ask(lambda: bool(nvml.nvmlDeviceGetMigMode(handle)[0])),
            persistence=ask(lambda: bool(nvml.nvmlDeviceGetPersistenceMode(handle))),
            processes=tuple(map(_process, ask(lambda: nvml.nvmlDeviceGetComputeRunningProcesses(handle)) or ())),
        )

    def _sample(self, index: int, handle: Any, t: float, run: int) -> GpuSample:  # noqa: ANN401  as above
        nvml, ask = self._nvml, self._ask
        reasons = ask(lambda: int(nvml.nvmlDeviceGetCurrentClocksEventReasons(handle))) or 0
        return GpuSample(
            t=t,
            run=run,
            index=index,
            uuid=nvml.nvmlDeviceGetUUID(handle),
            power_w=ask(lambda: nvml.nvmlDeviceGetPowerUsage(handle) / 1000),
            sm_clock_mhz=ask(lambda: float(nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM))),
            memory_used_bytes=ask(lambda: int(nvml.nvmlDeviceGetMemoryInfo(handle).used)),
            utilization=ask(lambda: nvml.nvmlDeviceGetUtilizationRates(handle).gpu / 100),
            temperature_c=ask(lambda: float(nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU))),
            throttle_reasons=tuple(words for bit, words in _SLOWED.items() if reasons & bit),
        )

    def _ask(self, question: Callable[[], _T]) -> _T | None:
        """The answer, or None where this card or driver has none."""
        try:
            return question()
        except self._nvml.NVMLError:
            return None


def _process(found: Any) -> GpuProcess:  # noqa: ANN401  as above
    name = None
    with contextlib.suppress(psutil.Error):
        name = psutil.Process(found.pid).name()
    return GpuProcess(pid=found.pid, name=name, memory_bytes=found.usedGpuMemory)
