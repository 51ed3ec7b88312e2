"""The host: what it is, and how busy it is."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import Final

import psutil
from pydantic import BaseModel, ConfigDict

from bench.observe.observations import HostSample

_HYPERVISOR_FLAG: Final = "hypervisor"
"""The CPU flag by which a guest of a virtual machine knows itself."""


class Host(BaseModel):
    """This machine as it stands before a run. None where it does not say.

    Attributes:
        cpu: model name.
        architecture: "x86_64".
        cores: physical cores. threads: logical ones. usable_threads: those that this process may use.
        governor: how the kernel chooses clock rates ("performance", "schedutil"); several where cores differ.
        kernel: release. os: name and version of the distribution.
        memory_bytes, memory_available_bytes: main memory.
        memory_limit_bytes: what a container's limit leaves of it (control group v2); None without a limit.
        cpu_limit: likewise, of the CPU time of that many threads.
        load_average: runnable processes over 1, 5 and 15 minutes.
        virtual: whether it is a virtual machine's guest.
        container: whether it is inside a container.
        product: maker and model of the (virtual) machine.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    cpu: str
    architecture: str
    cores: int | None
    threads: int
    usable_threads: int
    governor: str | None
    kernel: str
    os: str | None
    memory_bytes: int
    memory_available_bytes: int
    memory_limit_bytes: int | None
    cpu_limit: float | None
    load_average: tuple[float, float, float]
    virtual: bool | None
    container: bool
    product: str | None


def describe_host(root: Path = Path("/")) -> Host:
    """What this machine says of itself.

    Args:
        root: where `proc`, `sys` and `etc` are; tests pass their own.
    """
    cpuinfo = _read(root / "proc/cpuinfo") or ""
    memory = psutil.virtual_memory()
    return Host(
        cpu=_field(cpuinfo, "model name") or platform.machine(),
        architecture=platform.machine(),
        cores=psutil.cpu_count(logical=False),
        threads=psutil.cpu_count() or 1,
        usable_threads=len(os.sched_getaffinity(0)),
        governor=_governor(root),
        kernel=platform.release(),
        os=_os_name(root),
        memory_bytes=memory.total,
        memory_available_bytes=memory.available,
        memory_limit_bytes=_memory_limit(root),
        cpu_limit=_cpu_limit(root),
        load_average=os.getloadavg(),
        virtual=_HYPERVISOR_FLAG in flags.split() if (flags := _field(cpuinfo, "flags")) else None,
        container=any((root / mark).exists() for mark in (".dockerenv", "run/.containerenv")),
        product=_product(root),
    )


class HostLoad:
    """How busy the host is, from one sample to the next."""

    def __init__(self) -> None:
        self._before = psutil.cpu_times()

    def sample(self, *, t: float, run: int) -> HostSample:
        """The load since the last sample, or since this object was made.

        Args:
            t: the moment, on the run's clock.
            run: index of the engine start.
        """
        now, before = psutil.cpu_times(), self._before
        self._before = now
        total = _total(now) - _total(before)
        idle = now.idle + now.iowait - before.idle - before.iowait
        # The kernel's counters tick in hundredths of a second: two reads at once see no time pass.
        share = min(1.0, max(0.0, 1 - idle / total)) if total > 0 else 0.0
        return HostSample(
            t=t,
            run=run,
            cpu_cores_used=share * (psutil.cpu_count() or 1),
            memory_used_bytes=psutil.virtual_memory().used,
        )


def _total(times: psutil._pslinux.scputimes) -> float:
    # guest time is part of user time, guest_nice of nice (proc(5)).
    return sum(times) - times.guest - times.guest_nice


def _memory_limit(root: Path) -> int | None:
    limit = _read(root / "sys/fs/cgroup/memory.max")
    return int(limit) if limit and limit != "max" else None


def _cpu_limit(root: Path) -> float | None:
    # "200000 100000": 200 ms of CPU time in every 100 ms, so two threads' worth.
    quota, _, period = (_read(root / "sys/fs/cgroup/cpu.max") or "max").partition(" ")
    return int(quota) / int(period) if quota != "max" else None


def _governor(root: Path) -> str | None:
    files = root.glob("sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor")
    return ", ".join(sorted({text for file in files if (text := _read(file))})) or None


def _os_name(root: Path) -> str | None:
    for line in (_read(root / "etc/os-release") or "").splitlines():
        key, _, value = line.partition("=")
        if key == "PRETTY_NAME":
            return value.strip('"')
    return None


def _product(root: Path) -> str | None:
    words = [_read(root / "sys/class/dmi/id" / name) for name in ("sys_vendor", "product_name")]
    return " ".join(word for word in words if word) or None


def _field(cpuinfo: str, name: str) -> str | None:
    """The first processor's value of that name."""
    for line in cpuinfo.splitlines():
        key, _, value = line.partition(":")
        if key.strip() == name:
            return value.strip()
    return None


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return None
