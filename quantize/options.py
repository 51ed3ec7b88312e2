"""What the command line of `just quantize` says beside the target."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

StageName: TypeAlias = Literal["fetch", "calibrate", "export", "carry", "audit", "sign"]
DeviceChoice: TypeAlias = Literal["auto", "cpu", "cuda"]


@dataclass(frozen=True, kw_only=True)
class Options:
    """Where and how.

    Attributes:
        source: a folder that takes the place of the target's source.
        out: the folder that the checkpoint shall be.
        work: where stages work and leave their manifests.
        device: what calibrates and exports.
        python: interpreter for the workers; None is the locked environment.
        until: the last stage to do.
    """

    source: Path | None
    out: Path
    work: Path
    device: DeviceChoice = "auto"
    python: Path | None = None
    until: StageName = "sign"
