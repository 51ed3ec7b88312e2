from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

import psutil
import pytest

from bench.observe.host import HostLoad, describe_host
from bench.observe.observations import OBSERVATION

if TYPE_CHECKING:
    from pathlib import Path

CPUINFO = """processor\t: 0
model name\t: AMD EPYC 9654 96-Core Processor
flags\t\t: fpu avx512f {extra}

processor\t: 1
model name\t: another
"""


def write(root: Path, path: str, text: str) -> None:
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def test_what_a_machine_says_of_itself(tmp_path: Path) -> None:
    write(tmp_path, "proc/cpuinfo", CPUINFO.format(extra="hypervisor"))
    write(tmp_path, "etc/os-release", 'NAME="Debian"\nPRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\n')
    write(tmp_path, "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "performance\n")
    write(tmp_path, "sys/devices/system/cpu/cpu1/cpufreq/scaling_governor", "schedutil\n")
    write(tmp_path, "sys/class/dmi/id/sys_vendor", "QEMU\n")
    write(tmp_path, "sys/class/dmi/id/product_name", "Standard PC\n")
    write(tmp_path, "sys/fs/cgroup/memory.max", "4294967296\n")
    write(tmp_path, "sys/fs/cgroup/cpu.max", "150000 100000\n")
    write(tmp_path, ".dockerenv", "")
    host = describe_host(tmp_path)
    assert host.cpu == "AMD EPYC 9654 96-Core Processor"
    assert host.os == "Debian GNU/Linux 12 (bookworm)"
    assert host.governor == "performance, schedutil"
    assert host.product == "QEMU Standard PC"
    assert (host.virtual, host.container) == (True, True)
    assert (host.memory_limit_bytes, host.cpu_limit) == (4 << 30, 1.5)
    assert host.usable_threads == len(os.sched_getaffinity(0))
    assert host.memory_bytes == psutil.virtual_memory().total


def test_a_machine_that_says_nothing(tmp_path: Path) -> None:
    host = describe_host(tmp_path)
    assert host.cpu == os.uname().machine
    unknown = (host.os, host.governor, host.product, host.virtual, host.memory_limit_bytes, host.cpu_limit)
    assert unknown == (None,) * 6
    assert host.container is False


def test_a_machine_of_its_own_without_limits(tmp_path: Path) -> None:
    write(tmp_path, "proc/cpuinfo", CPUINFO.format(extra=""))
    write(tmp_path, "etc/os-release", "ID=debian\n")
    write(tmp_path, "sys/fs/cgroup/memory.max", "max\n")
    write(tmp_path, "sys/fs/cgroup/cpu.max", "max 100000\n")
    host = describe_host(tmp_path)
    assert (host.virtual, host.os, host.memory_limit_bytes, host.cpu_limit) == (False, None, None, None)


class Times(NamedTuple):
    """As `psutil.cpu_times()` gives them."""

    user: float
    nice: float
    system: float
    idle: float
    iowait: float
    irq: float
    softirq: float
    steal: float
    guest: float
    guest_nice: float


def times(user: float, idle: float, *, iowait: float = 0.0, guest: float = 0.0) -> Times:
    return Times(user, 0.0, 0.0, idle, iowait, 0.0, 0.0, 0.0, guest, 0.0)


@pytest.mark.parametrize(
    ("before", "after", "cores"),
    [
        (times(10, 10), times(13, 11), 3.0),  # 3 of 4 seconds of 4 cores
        (times(10, 10), times(10, 10), 0.0),  # no time has passed
        (times(10, 10), times(11, 10, iowait=3), 1.0),  # waiting for a disk uses no core
        (times(10, 10), times(14, 10, guest=4), 4.0),  # a guest's time is counted in user time already
        (times(10, 10), times(10, 14), 0.0),
        (times(10, 10), times(14, 9), 4.0),  # the idle counter may step back
    ],
)
def test_cores_in_use_between_two_samples(
    monkeypatch: pytest.MonkeyPatch, before: Times, after: Times, cores: float
) -> None:
    seen = iter((before, after))
    monkeypatch.setattr(psutil, "cpu_times", lambda: next(seen))
    monkeypatch.setattr(psutil, "cpu_count", lambda: 4)
    sample = HostLoad().sample(t=1.5, run=2)
    assert sample.cpu_cores_used == pytest.approx(cores)
    assert (sample.t, sample.run) == (1.5, 2)
    assert sample.memory_used_bytes > 0
    assert OBSERVATION.validate_json(sample.model_dump_json()) == sample


def test_this_machine() -> None:
    assert describe_host().threads >= 1
    assert 0.0 <= HostLoad().sample(t=0.0, run=0).cpu_cores_used <= (psutil.cpu_count() or 1)
