"""Where the work runs, how much fits there, and what was used."""

from __future__ import annotations

import platform
from importlib.metadata import version
from typing import Final

import torch

PACKAGES: Final = ("nvidia-modelopt", "torch", "transformers", "safetensors")
_SHARE: Final = 1 / 3
"""Of the free GPU memory; the rest is for a layer's weights and what it computes."""


def room_for(size: int, device: str) -> bool:
    """Whether so many bytes may stay on the device."""
    return device == "cpu" or size <= _SHARE * torch.cuda.mem_get_info()[0]


def peak_bytes() -> int:
    """The most GPU memory that torch held at once, its own cache included; 0 without a GPU."""
    return torch.cuda.max_memory_reserved() if torch.cuda.is_available() else 0


def versions() -> dict[str, str]:
    """Of what decides the result."""
    found = {"python": platform.python_version(), **{name: version(name) for name in PACKAGES}}
    if torch.cuda.is_available():
        found["gpu"] = torch.cuda.get_device_name()
    return found
