"""The fifth stage: the audit, of the bytes that will be published, against the source."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bench.report.folder_files import write_whole
from quantize.audit.model import FILE_NAME, SCHEMA_VERSION, Audit, audit_json, read_audit
from quantize.audit.run import audit_checkpoint
from quantize.stages import carry
from quantize.stages.stage import Key, Outcome

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from quantize.audit.work import Progress
    from quantize.stages.fetch import Source
    from quantize.stages.stage import Manifest, Workshop

NAME: Final = "audit"


def audit(  # noqa: PLR0913  what it works on, where, and whom it tells
    source: Source,
    carried: Manifest,
    shop: Workshop,
    *,
    name: str,
    say: Callable[[str], None],
    on_progress: Callable[[Progress], None],
) -> tuple[Audit, Manifest]:
    """Audits the checkpoint, whatever the outcome.

    Args:
        source: the BF16 checkpoint that it was made from.
        carried: what the stage before left.
        shop: where stages work.
        name: that the checkpoint will have.
        say: takes a line.
        on_progress: told how far it is.
    """
    folder = shop.place(carry.NAME) / carry.CHECKPOINT

    def work(partial: Path) -> Outcome:
        found = audit_checkpoint(folder, source=source.folder, on_progress=on_progress)
        write_whole(partial / FILE_NAME, audit_json(found.model_copy(update={"checkpoint": name})))
        return Outcome()

    key = Key(
        inputs=source.digests | carried.digests("checkpoint: "), parameters={"schema": SCHEMA_VERSION, "name": name}
    )
    manifest = shop.run(NAME, key, work, say=say)
    return read_audit(shop.place(NAME) / FILE_NAME), manifest
