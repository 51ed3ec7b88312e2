"""`just verify`: brings the report here, verifies it, prints what came of it."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn
from rich.text import Text

from bench.report.intake.place import brought, is_address
from bench.report.verify import refused
from bench.report.verify_files import RefusedError
from bench.report.verify_show import check_and_show, show
from bench.report.verify_text import printable
from bench.signals import sigterm_is_ctrl_c

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from bench.report.intake.place import Wishes
    from bench.report.keys import TrustedIdentity


def verify_place(  # noqa: PLR0913  whom the user trusts, and how they want it told
    place: str,
    extra_keys: Sequence[Path],
    wishes: Wishes,
    *,
    identities: Sequence[TrustedIdentity] = (),
    instance: Path | None = None,
    as_json: bool = False,
) -> int:
    """Verifies a report from anywhere and prints the outcome.

    Args:
        place: of the report: its folder, an archive, an address.
        extra_keys: files with public keys that the user trusts.
        wishes: what else the user asked for.
        identities: of keyless signatures, that the user trusts.
        instance: the Sigstore instance that vouches for them, where it is not the public one.
        as_json: print one JSON object instead of text.

    Returns:
        The exit code.

    Raises:
        StreamproofError: no such place, or it cannot be fetched; or a key file that is none.
    """
    console = Console(stderr=True, highlight=False)
    named = printable(place, 300)
    try:
        with (
            sigterm_is_ctrl_c(),
            _progress(console, shown=is_address(place) and not as_json) as tell,
            brought(place, wishes, tell) as report,
        ):
            if report.sha256 is not None and not as_json:
                console.print(Text(f"{named}\n  SHA-256 {report.sha256}", "dim"))
            code = check_and_show(
                report.folder, extra_keys, identities=identities, instance=instance, as_json=as_json, named=named
            )
    except RefusedError as error:
        return show(refused(named, error.findings), as_json=as_json)
    if wishes.keep is not None and not as_json:
        console.print(Text(f"  its files are in {wishes.keep}", "dim"))
    return code


@contextmanager
def _progress(console: Console, *, shown: bool) -> Iterator[Callable[[int, int | None], None]]:
    """A bar on standard error while something is fetched; none where nobody watches."""
    columns = (TextColumn("  {task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    bar = Progress(*columns, TimeRemainingColumn(), console=console, transient=True)
    task = bar.add_task("fetching", total=None)

    def tell(done: int, announced: int | None) -> None:
        if not (shown and console.is_terminal):
            return
        bar.start()
        bar.update(task, completed=done, total=announced)
        if done == announced:
            bar.stop()

    try:
        yield tell
    finally:
        if bar.live.is_started:
            bar.stop()
