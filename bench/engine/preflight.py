"""Is the hardware here that a recipe asks for? Asked before anything is downloaded or started."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from bench.errors import StreamproofError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from bench.observe.environment import Environment
    from bench.observe.gpu import Gpu
    from bench.observe.host import Host
    from recipes.schema import Hardware

_GIB: Final = 1 << 30
_HELD_BYTES: Final = _GIB
"""GPU memory that others may hold: a display server's or a monitor's. More is another engine."""


def check_hardware(hardware: Hardware, environment: Environment, *, share: float | None = None) -> tuple[Gpu, ...]:
    """Return if this host will do.

    Args:
        hardware: of the recipe.
        environment: of this host.
        share: of each card that the recipe's engine takes (its `gpu_memory_utilization`); None where the recipe leaves
            that to the engine, which then takes nearly all. A recipe that names its share may have a card together
            with other processes, as long as that share is free.

    Returns:
        The GPUs to use, none for a recipe of the CPU. Cards that nobody else uses come first.

    Raises:
        StreamproofError: it will not do; says what is missing, what was found, and what to do.
    """
    if hardware.kind == "gpu":
        return _choose_gpus(hardware, environment, share)
    _check_host(hardware, environment.host)
    return ()


def memory_share(flags: Mapping[str, object]) -> float | None:
    """The share of a card that the flags of an engine name; None where they leave it to the engine."""
    share = flags.get("gpu_memory_utilization")
    if isinstance(share, bool) or not isinstance(share, int | float) or not 0 < share <= 1:
        return None
    return float(share)


def device_variables(gpus: Sequence[Gpu]) -> dict[str, str]:
    """The environment variables that make an engine use these GPUs and no others; none for no GPUs."""
    if not gpus:
        return {}
    # CUDA's own order is by speed; the driver's, whose indices these are, is by PCI bus.
    return {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": ",".join(str(gpu.index) for gpu in gpus)}


def company_notes(gpus: Sequence[Gpu]) -> Iterator[str]:
    """A line for each chosen card that the engine will not have for itself: what was found on it."""
    for gpu in gpus:
        if _is_held(gpu):
            yield f"{_use(gpu)}: their work on it is in every figure of this run"


def _is_product(name: str, product: str) -> bool:
    """Whether a card's name has a product in it as words of its own: "H200 NVL" is an H200, "GH200" is none."""
    return re.search(rf"(?<!\w){re.escape(product)}(?!\w)", name, re.IGNORECASE) is not None


def _choose_gpus(hardware: Hardware, environment: Environment, share: float | None) -> tuple[Gpu, ...]:
    wanted = f"{hardware.count} {hardware.gpu} GPU{'' if hardware.count == 1 else 's'}"
    visible = _visible(environment)
    fitting = [gpu for gpu in visible if hardware.gpu and _is_product(gpu.name, hardware.gpu)]
    if len(fitting) < hardware.count:
        raise StreamproofError(
            f"this recipe needs {wanted}; this host has {_found(environment, visible)}",
            remedy="Run it on a host that has them, or choose a recipe for this one (`just recipes`). "
            "A server elsewhere can be measured with --base-url.",
        )
    whole = [gpu for gpu in fitting if not gpu.mig]
    if len(whole) < hardware.count:
        raise StreamproofError(
            f"this recipe needs {wanted} as a whole; {len(fitting) - len(whole)} are split into MIG instances",
            remedy="Turn MIG off (an administrator can: nvidia-smi -mig 0), or use another host.",
        )
    roomy = [gpu for gpu in whole if _free_gib(gpu) >= _needed_gib(hardware, gpu, share)]
    alone = [gpu for gpu in roomy if not _is_held(gpu)]
    # In their order, so that the same request takes the same cards, but those in company last.
    free = alone if share is None else [*alone, *(gpu for gpu in roomy if _is_held(gpu))]
    if len(free) < hardware.count:
        raise _no_room(hardware, whole, wanted, share)
    return tuple(free[: hardware.count])


def _no_room(hardware: Hardware, whole: Sequence[Gpu], wanted: str, share: float | None) -> StreamproofError:
    found = "; ".join(map(_use, whole))
    if share is None:
        return StreamproofError(
            f"this recipe needs {wanted} with {hardware.memory_gib} GiB free that nobody else uses; {found}",
            remedy="End the processes that hold them. A server that was killed can leave a VLLM::EngineCore behind. "
            "To have a card together with others, name the share of it that the engine may take: "
            "--set engine.flags.gpu_memory_utilization=0.4",
        )
    needed = sorted({f"{_needed_gib(hardware, gpu, share):.1f}" for gpu in whole})
    return StreamproofError(
        f"this recipe needs {wanted} with {' or '.join(needed)} GiB free (gpu_memory_utilization = {share:g}); {found}",
        remedy="End the processes that hold them, or lower engine.flags.gpu_memory_utilization.",
    )


def _needed_gib(hardware: Hardware, gpu: Gpu, share: float | None) -> float:
    """What must be free: vLLM itself refuses a card on which its share is not (`request_memory` of its worker)."""
    if share is None or gpu.memory_bytes is None:
        return hardware.memory_gib
    return share * gpu.memory_bytes / _GIB


def _check_host(hardware: Hardware, host: Host) -> None:
    threads = min(host.usable_threads, host.cpu_limit or host.usable_threads)
    if hardware.cores is not None and threads < hardware.cores:
        raise StreamproofError(
            f"this recipe needs {hardware.cores} CPU cores; {threads:g} may be used here ({host.cpu})",
            remedy="Give it more cores (of a container: --cpus, of a process: taskset), or use another host.",
        )
    total = min(host.memory_bytes, host.memory_limit_bytes or host.memory_bytes) / _GIB
    available = min(host.memory_available_bytes / _GIB, total)
    if available < hardware.memory_gib:
        raise StreamproofError(
            f"this recipe needs {hardware.memory_gib} GiB of free memory; {available:.1f} of {total:.1f} GiB are free",
            remedy="Close what uses it, give the container more (--memory), or use another host.",
        )


def _visible(environment: Environment) -> tuple[Gpu, ...]:
    """The GPUs that CUDA_VISIBLE_DEVICES lets us use, in its order: indices or (beginnings of) UUIDs.

    As CUDA reads it: an entry that names no card ends the list, and no card counts twice.
    """
    restriction = environment.variables.get("CUDA_VISIBLE_DEVICES")
    if restriction is None:
        return environment.gpus
    visible: list[Gpu] = []
    for entry in restriction.split(","):
        named = next((gpu for gpu in environment.gpus if _names(entry.strip(), gpu)), None)
        if named is None:
            break
        if named not in visible:
            visible.append(named)
    return tuple(visible)


def _names(entry: str, gpu: Gpu) -> bool:
    return entry == str(gpu.index) or (entry.startswith("GPU-") and gpu.uuid.startswith(entry))


def _found(environment: Environment, visible: Sequence[Gpu]) -> str:
    if environment.driver is None:
        return "no NVIDIA driver"
    names = [gpu.name for gpu in visible]
    counted = ", ".join(f"{names.count(name)} x {name}" for name in sorted(set(names))) or "no GPU"
    hidden = len(environment.gpus) - len(visible)
    return f"{counted}{f', and {hidden} that CUDA_VISIBLE_DEVICES hides' if hidden else ''}"


def _use(gpu: Gpu) -> str:
    held = ", ".join(f"{process.name or 'a process'} (pid {process.pid})" for process in gpu.processes)
    return f"GPU {gpu.index} has {_free_gib(gpu):.1f} GiB free" + (f" and is used by {held}" if held else "")


def _is_held(gpu: Gpu) -> bool:
    # A process whose memory the driver does not tell counts as a big one.
    return any(process.memory_bytes is None or process.memory_bytes >= _HELD_BYTES for process in gpu.processes)


def _free_gib(gpu: Gpu) -> float:
    # A driver that does not say cannot refuse us; the engine itself checks again.
    return float("inf") if gpu.memory_free_bytes is None else gpu.memory_free_bytes / _GIB
