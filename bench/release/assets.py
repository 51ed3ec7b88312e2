"""Everything that lies beside a release: a ZIP file per report, the picture, the hashes of both."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bench.errors import StreamproofError
from bench.release.archive import PREFIX, pack
from bench.release.notes import Asset, Contents
from bench.release.picture import Drawn, draw
from bench.report import folder_files as files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from bench.release.former import Since
    from bench.release.published import Published

PICTURE: Final = f"{PREFIX}p95.svg"
SUMS: Final = f"{PREFIX}SHA256SUMS"


def make_assets(
    reports: Sequence[Published],
    since: Mapping[str, Since],
    folder: Path,
    *,
    say: Callable[[str], None] = lambda _: None,
) -> Contents:
    """Writes them. What an earlier call left in the folder and is not written again is removed.

    Args:
        reports: verified.
        since: by stem, what changed since a former release.
        folder: to write to; made where it is missing.
        say: told what is being done.

    Raises:
        StreamproofError: the folder cannot be written, or the disk is full.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        packed = []
        for report in reports:
            say(f"packing {report.here.name}")
            path = folder / f"{report.stem}.zip"
            pack(report.here.folder, path)
            packed.append(_asset(path, "application/zip"))
        picture = _picture(reports, since, folder)
        drawn = [] if picture is None else [picture]
        lines = "".join(f"{asset.sha256}  {asset.name}\n" for asset in sorted([*packed, *drawn], key=lambda a: a.name))
        files.write_whole(folder / SUMS, lines.encode())
        contents = Contents(tuple(reports), since, tuple(packed), picture, _asset(folder / SUMS, "text/plain"))
        for path in _left_over(folder, contents):
            path.unlink()
    except OSError as error:
        raise StreamproofError(
            f"cannot write {error.filename or folder}: {error.strerror or error}",
            remedy="Free some space, or name another folder with --out.",
        ) from error
    return contents


def _picture(reports: Sequence[Published], since: Mapping[str, Since], folder: Path) -> Asset | None:
    once = len({report.report.target for report in reports}) == len(reports)
    now = [
        Drawn(report.report.target if once else f"{report.report.target} {number}", report.report, report.judged)
        for number, report in enumerate(reports, start=1)
    ]
    former = [
        Drawn(f"{each.former.report.target}, former", each.former.report, (), former=True) for each in since.values()
    ]
    svg = draw([*now, *former])
    if svg is None:
        return None
    files.write_whole(folder / PICTURE, svg.encode())
    return _asset(folder / PICTURE, "image/svg+xml")


def _asset(path: Path, media_type: str) -> Asset:
    return Asset(path, files.file_sha256(path), media_type)


def _left_over(folder: Path, contents: Contents) -> Iterator[Path]:
    """Nobody shall upload by hand, with a pattern, what the hashes do not name."""
    current = {asset.name for asset in contents.assets}
    yield from (path for path in folder.glob(f"{PREFIX}*") if path.name not in current and path.is_file())
