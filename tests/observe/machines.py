"""Machines to test with: none of them needs to be here."""

from __future__ import annotations

from bench.observe.environment import Client, Environment
from bench.observe.gpu import Gpu, GpuDriver, GpuProcess
from bench.observe.host import Host

GIB = 1 << 30


def host(**changes: object) -> Host:
    """Sixteen cores and 64 GiB, of which 60 are free."""
    values: dict[str, object] = {
        "cpu": "A CPU",
        "architecture": "x86_64",
        "cores": 8,
        "threads": 16,
        "usable_threads": 16,
        "governor": "performance",
        "kernel": "6.1",
        "os": "Debian",
        "memory_bytes": 64 * GIB,
        "memory_available_bytes": 60 * GIB,
        "memory_limit_bytes": None,
        "cpu_limit": None,
        "load_average": (0.0, 0.0, 0.0),
        "virtual": False,
        "container": False,
        "product": None,
    }
    return Host.model_validate({**values, **changes})


def gpu(index: int = 0, name: str = "NVIDIA H200", **changes: object) -> Gpu:
    """A free GPU of 140 GiB."""
    values: dict[str, object] = {
        "index": index,
        "uuid": f"GPU-{index:08d}",
        "name": name,
        "memory_bytes": 140 * GIB,
        "memory_free_bytes": 139 * GIB,
        "sm_clock_mhz": 345,
        "sm_clock_max_mhz": 1980,
        "memory_clock_mhz": 3201,
        "memory_clock_max_mhz": 3201,
        "power_limit_w": 700.0,
        "power_limit_default_w": 700.0,
        "ecc": True,
        "mig": False,
        "persistence": True,
        "processes": (),
    }
    return Gpu.model_validate({**values, **changes})


def process(pid: int = 4242, name: str | None = "VLLM::EngineCore", memory: int | None = 120 * GIB) -> GpuProcess:
    """A leftover engine."""
    return GpuProcess(pid=pid, name=name, memory_bytes=memory)


def environment(
    *gpus: Gpu, on: Host | None = None, driver: bool = True, variables: dict[str, str] | None = None
) -> Environment:
    """A host with these GPUs."""
    return Environment(
        host=on or host(),
        driver=GpuDriver(version="580.159", cuda="13.0") if driver else None,
        gpus=gpus,
        client=Client(python="CPython 3.11.7", packages={}, packages_sha256="00" * 32, commit=None, dirty=None),
        variables=variables or {},
    )
