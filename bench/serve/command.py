"""`just serve-reports`: serves until it is stopped."""

from __future__ import annotations

import signal
import threading
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from bench.errors import Exit, UsageError
from bench.report.apart import Apart
from bench.report.keys import trusted_keys
from bench.report.render.words import plural
from bench.report.trust.instance import instance_file
from bench.report.verify_show import ALLOW_LIST
from bench.serve.catalogue import Catalogue
from bench.serve.checker import Checker
from bench.serve.server import Server
from bench.serve.site import Site
from bench.signals import sigterm_is_ctrl_c

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path


def serve(folder: Path, *, host: str, port: int, keys: Sequence[Path] = ()) -> Exit:
    """Serves the reports of a folder until Ctrl-C or SIGTERM.

    Args:
        folder: searched recursively.
        host: to listen on.
        port: 0 for any that is free.
        keys: files with public keys that the user trusts.

    Returns:
        0: being stopped is how it ends.

    Raises:
        UsageError: there is no such folder, or no such address.
        StreamproofError: a key file that is none, or the port is taken.
    """
    if not folder.is_dir():
        raise UsageError(f"{folder} is no folder.", remedy="Name a folder that holds reports, e.g. reports")
    trusted = trusted_keys(allow_list=ALLOW_LIST, extra=keys, instance=instance_file())
    console = Console(highlight=False)
    with sigterm_is_ctrl_c(), closing(Apart("bench.__main__", "bench.serve.site")) as apart:
        catalogue, checker = Catalogue(folder, apart), Checker(trusted, apart)
        with Server(host, port, Site(str(folder), catalogue, checker, apart)) as server:
            entries = catalogue.entries()
            checker.start()
            checker.ask(entries)
            console.print(f"[bold]{server.url}[/]", soft_wrap=True)
            console.print(Text(f"{plural(len(entries), 'report')} in {folder}; Ctrl-C ends it"))
            if not server.loopback:
                console.print("[yellow]Everybody who reaches this machine can read these reports: --host says so.[/]")
            with _stopped_by_signals(server):
                server.serve_forever()
    console.print("stopped")
    return Exit.OK


@contextmanager
def _stopped_by_signals(server: Server) -> Iterator[None]:
    """Both signals end the server between two requests."""

    def stop(_signal: int, _frame: object) -> None:
        # `shutdown` waits for the loop that this very thread is in.
        threading.Thread(target=server.shutdown).start()

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
