"""Audits a checkpoint: the one function that others call."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from quantize.audit.model import Audit
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
        served: JSON of a run that served the checkpoint (gate 8).
        processes: worker processes; as many as there are usable cores by default.
        on_progress: told, in this process, after every piece of work.

    Returns:
        The audit, whatever it found.

    Raises:
        StreamproofError: the folder, or the source, is not there or is no checkpoint at all.
    """
    raise NotImplementedError
