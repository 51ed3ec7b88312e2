"""Audits a checkpoint: the one function that others call."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.errors import StreamproofError
from bench.report.verify_files import shown
from quantize.audit.declared import format_of
from quantize.audit.folder import open_checkpoint
from quantize.audit.gate_compare import dequantized_gate, unquantized_gate
from quantize.audit.gate_declared import ignored_gate, kv_gate
from quantize.audit.gate_inventory import files_gate, inventory_gate, sizes_gate
from quantize.audit.gate_scales import scales_gate
from quantize.audit.gate_served import served_gate
from quantize.audit.measure import LinearResult, forget_files
from quantize.audit.model import Audit, Format, Gate, GateName, Verdict
from quantize.audit.scene import Scene, build_scene, jobs_of, not_checked
from quantize.audit.work import run_jobs
from quantize.quality.folder import identity
from quantize.quality.served import read_served

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from quantize.audit.folder import Checkpoint
    from quantize.audit.work import Progress


def audit_checkpoint(
    folder: Path,
    *,
    source: Path | None = None,
    served: Path | None = None,
    processes: int | None = None,
    on_progress: Callable[[Progress], None] | None = None,
) -> Audit:
    """Audits an NVFP4 checkpoint.

    Args:
        folder: of the checkpoint; anybody may have made it.
        source: folder of the BF16 checkpoint that it was made from. Gates 4 and 5 need it.
        served: `served.json` of a run that served the checkpoint. Gate 8 needs it.
        processes: worker processes; as many as there are usable cores by default.
        on_progress: told, in this process, after every piece of work.

    Returns:
        The audit, whatever it found.

    Raises:
        StreamproofError: the folder or the source is not there or is no checkpoint at all, a file changed while it was
            read, or the source is not the kind of checkpoint that one quantizes.
    """
    checkpoint = open_checkpoint(folder)
    format_ = format_of(checkpoint)
    files = files_gate(checkpoint)
    run = None if served is None else read_served(served)
    if not format_.is_nvfp4 or files.verdict is Verdict.FAILED:
        why = format_.says if not format_.is_nvfp4 else "gate 0 failed: the files cannot be trusted"
        gates = (files, *(not_checked(name, why) for name in GateName if name is not GateName.FILES))
        return _audit(checkpoint, format_, None, gates)
    original = None if source is None else _open_source(source)
    try:
        scene = build_scene(checkpoint, original)
        for result in run_jobs(jobs_of(scene), processes=processes, on_progress=on_progress):
            if isinstance(result, LinearResult):
                scene.linears[result.module] = result
            else:
                scene.copies[result.name] = result
        gates = (
            files,
            inventory_gate(scene),
            sizes_gate(scene),
            scales_gate(scene),
            dequantized_gate(scene),
            unquantized_gate(scene),
            ignored_gate(scene),
            kv_gate(scene),
            served_gate(run, None if run is None else identity(checkpoint.path)),
        )
    finally:
        forget_files()
    return _audit(checkpoint, format_, scene, gates)


def _open_source(source: Path) -> Checkpoint:
    checkpoint = open_checkpoint(source, what="source")
    if checkpoint.faults:
        fault = checkpoint.faults[0]
        raise StreamproofError(
            f"The source {source} is not sound: {fault.name} {fault.reason}.", remedy="Download it again."
        )
    format_ = format_of(checkpoint)
    if format_.kind != "unquantized":
        raise StreamproofError(
            f"The source {source} is quantized already: {format_.says}.",
            remedy="Name the unquantized checkpoint that the audited one was made from.",
        )
    return checkpoint


def _audit(checkpoint: Checkpoint, format_: Format, scene: Scene | None, gates: tuple[Gate, ...]) -> Audit:
    inventory = None if scene is None else scene.inventory
    return Audit.of(
        checkpoint=shown(checkpoint.path.name),
        family=None if inventory is None else inventory.name,
        format_=format_,
        tensors=len(checkpoint.tensors),
        data_bytes=checkpoint.data_bytes,
        gates=gates,
    )
