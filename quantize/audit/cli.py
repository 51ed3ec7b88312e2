"""The command `quantize audit`. It reads its options and calls what does the work."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from bench.errors import StreamproofError

WIDTH_OF_A_PIPE = 120


def audit(
    folder: Annotated[Path, typer.Argument(help="Folder of the checkpoint; anybody may have made it.")],
    source: Annotated[
        Path | None,
        typer.Option(help="Folder of the BF16 checkpoint that it was made from: gates 4 and 5 compare with it."),
    ] = None,
    served: Annotated[
        Path | None, typer.Option(help="`served.json` of a run that served the checkpoint: gate 8 judges it.")
    ] = None,
    processes: Annotated[
        int | None, typer.Option(min=1, help="Worker processes; as many as there are usable cores by default.")
    ] = None,
    json_file: Annotated[Path | None, typer.Option(help="Also write the outcome to this file (`audit.json`).")] = None,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print the outcome as JSON, for scripts.")] = False,
) -> None:
    """Audit an NVFP4 checkpoint of ModelOpt, to the byte.

    Gates: 0 the files are sound; 1 every tensor is there and no other; 2 shapes and sizes; 3 scales; 4 dequantized
    weights are near the source; 5 everything else is the source, byte by byte; 6 the ignore lists are true; 7 KV
    scales; 8 a run served it. What cannot be checked is "not checked", and never green.

    Exit codes: 0 passed; 1 the checkpoint cannot be read; 2 wrong usage; 3 a gate failed, or it is no such checkpoint.
    """
    from quantize.audit.model import audit_json, write_audit  # noqa: PLC0415  the heavy part: for this command only
    from quantize.audit.run import audit_checkpoint  # noqa: PLC0415  as above
    from quantize.audit.show import progress_bar, shown  # noqa: PLC0415  as above

    with progress_bar(Console(stderr=True)) as on_progress:
        found = audit_checkpoint(folder, source=source, served=served, processes=processes, on_progress=on_progress)
    if json_file is not None:
        try:
            write_audit(found, json_file)
        except OSError as error:
            raise StreamproofError(
                f"{json_file} cannot be written: {error.strerror}.", remedy="Name another file with --json-file."
            ) from error
    if as_json:
        sys.stdout.write(audit_json(found).decode())
    else:
        console = Console(highlight=False)
        console.print(shown(found), width=None if console.is_terminal else WIDTH_OF_A_PIPE)
    raise typer.Exit(found.exit_code)
