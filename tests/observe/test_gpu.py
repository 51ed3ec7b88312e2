from __future__ import annotations

from functools import partial
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from bench.observe.gpu import GpuDriver, GpuProcess, Gpus
from bench.observe.observations import OBSERVATION

if TYPE_CHECKING:
    from collections.abc import Callable


NOBODY = (1 << 22) + 1
"""Above the highest process id that Linux gives."""


class NvmlError(Exception):
    pass


class Library:
    """A stand-in for `pynvml` with two cards; the second one answers nothing that a card may leave unanswered."""

    NVMLError: type[Exception] = NvmlError
    NVML_CLOCK_SM, NVML_CLOCK_MEM, NVML_TEMPERATURE_GPU = 1, 2, 0

    def __init__(self, *, driver: bool = True, lost: int | None = None) -> None:
        self._driver = driver
        self._lost = lost
        self.open = 0

    def __getattr__(self, name: str) -> Any:
        own: dict[str, Callable[..., Any]] = {
            "nvmlInit": self._init,
            "nvmlShutdown": self._shutdown,
            "nvmlDeviceGetHandleByIndex": self._handle,
            "nvmlDeviceGetCount": lambda: 2,
            "nvmlSystemGetDriverVersion": lambda: "580.159.03",
            "nvmlSystemGetCudaDriverVersion_v2": lambda: 12090,
            "nvmlDeviceGetUUID": lambda handle: f"GPU-{handle}",
            "nvmlDeviceGetName": lambda handle: ["NVIDIA H200", "NVIDIA T4"][handle],
        }
        return own.get(name) or partial(self._answer, name)

    def _init(self) -> None:
        if not self._driver:
            raise NvmlError
        self.open += 1

    def _shutdown(self) -> None:
        self.open -= 1

    def _handle(self, index: int) -> int:
        if index == self._lost:
            raise NvmlError
        return index

    def _answer(self, name: str, handle: int, *arguments: int) -> Any:
        if handle == 1:
            raise NvmlError
        answer = ANSWERS[name]
        return answer[arguments[0]] if arguments else answer


ANSWERS: dict[str, Any] = {
    "nvmlDeviceGetMemoryInfo": SimpleNamespace(total=100, free=60, used=40),
    "nvmlDeviceGetEnforcedPowerLimit": 650_000,
    "nvmlDeviceGetPowerManagementDefaultLimit": 700_000,
    "nvmlDeviceGetPowerUsage": 123_456,
    "nvmlDeviceGetEccMode": [1, 0],
    "nvmlDeviceGetMigMode": [0, 1],
    "nvmlDeviceGetPersistenceMode": 1,
    "nvmlDeviceGetUtilizationRates": SimpleNamespace(gpu=87, memory=3),
    "nvmlDeviceGetCurrentClocksEventReasons": 0x1 | 0x4 | 0x40,
    "nvmlDeviceGetClockInfo": {1: 1755, 2: 3200},
    "nvmlDeviceGetMaxClockInfo": {1: 1980, 2: 3201},
    "nvmlDeviceGetTemperature": {0: 41},
    "nvmlDeviceGetComputeRunningProcesses": [
        SimpleNamespace(pid=psutil.Process().pid, usedGpuMemory=7),
        SimpleNamespace(pid=NOBODY, usedGpuMemory=None),
    ],
}


def test_a_host_without_the_driver_has_no_gpus() -> None:
    library = Library(driver=False)
    with Gpus(nvml=library) as gpus:
        assert gpus.driver() is None
        assert gpus.describe() == ()
        assert gpus.sample(t=0.0, run=0) == []
    assert library.open == 0


def test_the_driver() -> None:
    library = Library()
    with Gpus(nvml=library) as gpus:
        assert gpus.driver() == GpuDriver(version="580.159.03", cuda="12.9")
        assert library.open == 1
    assert library.open == 0
    gpus.close()
    assert library.open == 0


def test_a_card_that_answers() -> None:
    gpu = Gpus(nvml=Library()).describe()[0]
    assert (gpu.index, gpu.uuid, gpu.name) == (0, "GPU-0", "NVIDIA H200")
    assert (gpu.memory_bytes, gpu.memory_free_bytes) == (100, 60)
    assert (gpu.sm_clock_mhz, gpu.sm_clock_max_mhz) == (1755, 1980)
    assert (gpu.memory_clock_mhz, gpu.memory_clock_max_mhz) == (3200, 3201)
    assert (gpu.power_limit_w, gpu.power_limit_default_w) == (650.0, 700.0)
    assert (gpu.ecc, gpu.mig, gpu.persistence) == (True, False, True)
    assert gpu.processes == (
        GpuProcess(pid=psutil.Process().pid, name=psutil.Process().name(), memory_bytes=7),
        GpuProcess(pid=NOBODY, name=None, memory_bytes=None),
    )


def test_what_a_card_does_not_answer_is_unknown() -> None:
    gpu = Gpus(nvml=Library()).describe()[1]
    assert (gpu.name, gpu.processes) == ("NVIDIA T4", ())
    unknown = gpu.model_dump(exclude={"index", "uuid", "name", "processes"})
    assert set(unknown.values()) == {None}


def test_samples() -> None:
    answering, silent = Gpus(nvml=Library()).sample(t=2.5, run=1)
    assert OBSERVATION.validate_json(answering.model_dump_json()) == answering
    assert (answering.t, answering.run, answering.index, answering.uuid) == (2.5, 1, 0, "GPU-0")
    assert (answering.power_w, answering.sm_clock_mhz, answering.memory_used_bytes) == (123.456, 1755.0, 40)
    assert (answering.utilization, answering.temperature_c) == (0.87, 41.0)
    # Having nothing to do (bit 0) slows no measurement down.
    assert answering.throttle_reasons == ("power cap", "hardware thermal slowdown")
    assert (silent.power_w, silent.utilization, silent.throttle_reasons) == (None, None, ())


@pytest.mark.parametrize(
    ("only", "lost", "seen"),
    [(None, None, [0, 1]), (["GPU-1"], None, [1]), (None, 0, [1]), (["GPU-0"], 0, []), ([], None, [])],
)
def test_which_cards_are_watched(only: list[str] | None, lost: int | None, seen: list[int]) -> None:
    gpus = Gpus(only, nvml=Library(lost=lost))
    assert [gpu.index for gpu in gpus.describe()] == seen
    assert [sample.index for sample in gpus.sample(t=0.0, run=0)] == seen


def test_the_real_library_opens_and_closes_wherever_we_are() -> None:
    with Gpus() as gpus:
        assert (gpus.driver() is None) <= (gpus.describe() == ())
