"""`just serve-reports`: its options and its help."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def serve_reports(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="Searched for reports, recursively; links are not followed.")
    ] = Path("reports"),
    *,
    host: Annotated[
        str, typer.Option(help="Address to listen on. By default nobody but this machine can reach it.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="0 takes any that is free.", min=0, max=65535)] = 8600,
    key: Annotated[
        list[Path] | None, typer.Option(help="Public key (PEM) of a signer you trust, as for `verify`.")
    ] = None,
) -> None:
    """List all reports of a folder in a browser: filter them, open their pages, compare them.

    Each report is verified by this server itself, as `verify` does, and its status says when. Until then, and where it
    is refused, its figures are only what its files say. What takes too much memory or time is refused, and the
    others are shown meanwhile. Ablations, capacity searches and frontiers are listed too.
    Nothing is written, nothing is fetched, and no script runs in any page, those of strangers' reports included.

    Ctrl-C ends it.
    """
    from bench.serve.command import serve  # noqa: PLC0415  the heavy part: loaded for this command only

    raise typer.Exit(serve(folder, host=host, port=port, keys=key or ()))
