"""Brings reports here, from wherever `just verify` takes one: folders, archives, addresses."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from bench.errors import StreamproofError, UsageError
from bench.report.intake.place import Wishes, brought, is_address
from bench.report.verify_files import RefusedError
from bench.report.verify_text import printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bench.release.progress import Progress


@dataclass(frozen=True, slots=True)
class Here:
    """A report that is here, not yet verified.

    Attributes:
        name: as the user named it, safe to print.
        folder: with its files.
    """

    name: str
    folder: Path


@contextmanager
def brought_here(places: Sequence[str], progress: Progress) -> Iterator[tuple[Here, ...]]:
    """The reports, for as long as the context lasts.

    Args:
        places: folders, archives, addresses.
        progress: told what is being done.

    Raises:
        UsageError: no such place.
        StreamproofError: it cannot be fetched, or what is there is no report.
    """
    with ExitStack() as stack:
        yield tuple([_bring(place, stack, progress) for place in places])


def _bring(place: str, stack: ExitStack, progress: Progress) -> Here:
    name = printable(place, 300)
    if not is_address(place) and not Path(place).exists():
        raise UsageError(f"{name} is not there.", remedy="Name a report's folder, a ZIP or tar of it, or its address.")
    try:
        with progress.of(f"reading {name}", None) as tell:
            return Here(name, stack.enter_context(brought(place, Wishes(), lambda done, _of: tell(done))).folder)
    except RefusedError as refused:
        reasons = "; ".join(f"{finding.file} {finding.reason}" for finding in refused.findings[:3])
        remedy = next((finding.remedy for finding in refused.findings if finding.remedy), "")
        raise StreamproofError(f"{name} is refused: {reasons}.", remedy=remedy) from refused
