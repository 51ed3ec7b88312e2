"""What this host has: memory, disk, and a GPU or none."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING, Final

from bench.errors import UsageError
from bench.observe.gpu import Gpus
from bench.observe.host import describe_host
from quantize.needs import Available

if TYPE_CHECKING:
    from pathlib import Path

_BLOCK: Final = 512
"""Bytes in a block, as `stat` counts them."""


def available(work: Path) -> Available:
    """What there is now.

    Args:
        work: the work folder, which need not exist yet. What it holds already counts as free: it is our own.
    """
    host = describe_host()
    memory = min(host.memory_available_bytes, host.memory_limit_bytes or host.memory_available_bytes)
    existing = next(folder for folder in (work, *work.parents) if folder.exists())
    # By inode: stages give each other's files a second name.
    status = [path.stat() for path in work.rglob("*") if path.is_file()]
    held = sum({one.st_ino: one.st_blocks * _BLOCK for one in status}.values())
    with Gpus() as gpus:
        free = [gpu.memory_free_bytes or 0 for gpu in gpus.describe() if _is_visible(gpu.index)]
    return Available(gpu=max(free, default=None), memory=memory, disk=shutil.disk_usage(existing).free + held)


def choose_device(wanted: str, there: Available) -> str:
    """The device to work on.

    Args:
        wanted: "auto", "cpu" or "cuda".
        there: what this host has.

    Raises:
        UsageError: a GPU is asked for and there is none.
    """
    if wanted == "cuda" and there.gpu is None:
        raise UsageError("--device cuda: this host has no NVIDIA GPU", remedy="Leave it out, or --device cpu.")
    if wanted != "auto":
        return wanted
    return "cpu" if there.gpu is None else "cuda"


def _is_visible(index: int) -> bool:
    """Whether CUDA_VISIBLE_DEVICES leaves us the GPU; identities in place of numbers are taken as visible."""
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES")
    if chosen is None:
        return True
    numbers = [entry.strip() for entry in chosen.split(",") if entry.strip()]
    return str(index) in numbers or any(not entry.isdigit() for entry in numbers)
