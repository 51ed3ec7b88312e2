"""`streamproof.json`: what a published checkpoint says of its making. It holds no time and no path.

Two runs of the same target over the same source by the same programs write the same bytes.
"""

from __future__ import annotations

from typing import Any, Final

from pydantic import BaseModel, ConfigDict

from quantize.stages.stage import FileRecord, Manifest

FILE_NAME: Final = "streamproof.json"
SIGNATURE: Final = "model.sig"
"""The name that OpenSSF model-signing takes by default."""


class StageRecord(BaseModel):
    """One stage, without what differs between two runs of it.

    Attributes:
        stage: its name.
        inputs: SHA-256 by name.
        parameters: what else decided its outputs.
        outputs: its files.
        versions: of programs that took part.
        locked: whether its worker ran in the hash-locked environment; None without a worker.
        packages: what else it ran in.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    stage: str
    inputs: dict[str, str]
    parameters: dict[str, Any]
    outputs: dict[str, FileRecord]
    versions: dict[str, str]
    locked: bool | None
    packages: dict[str, str]

    @classmethod
    def of(cls, manifest: Manifest) -> StageRecord:
        """The record of a stage."""
        environment = manifest.environment
        return cls(
            stage=manifest.stage,
            inputs=manifest.key.inputs,
            parameters=manifest.key.parameters,
            outputs=manifest.outputs,
            versions=manifest.versions,
            locked=environment.locked if environment else None,
            packages=environment.packages if environment else {},
        )


class Provenance(BaseModel):
    """The file.

    Attributes:
        name: of the checkpoint.
        target: as resolved.
        audited: whether the audit passed; `audit.json` beside it says what it found.
        format: "nvfp4", or "mixed", which the engine takes as `modelopt_mixed` only.
        stages: all before the signature, in their order.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    target: dict[str, Any]
    audited: bool
    format: str
    stages: tuple[StageRecord, ...]
