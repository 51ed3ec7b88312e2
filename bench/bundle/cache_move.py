"""Carries caches from host to host: into one file or folder, and back out of it or out of a signed bundle.

Caches are code that an engine executes. What comes back in is either signed, by somebody whom the user or this
repository trusts, or the user says in so many words that it may be executed.
"""

from __future__ import annotations

import shutil
import tarfile
import tempfile
from collections.abc import Callable, Container
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

from bench.bundle.archive import pack
from bench.bundle.entries import folder_files, walk
from bench.bundle.host.layout import CACHES
from bench.bundle.host.manifest import FILE_LIST, MANIFEST, BadManifestError, parse
from bench.bundle.host.refusal import Refusal
from bench.bundle.host.signature import check_file, signed_files
from bench.bundle.host.unpack import check_unpacked, unpack
from bench.engine import caches
from bench.errors import StreamproofError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench.bundle.entries import Entry
    from bench.engine.caches import MadeWith

Say: TypeAlias = Callable[[str], None]
"""Takes one line of progress at a time."""

ARCHIVE: Final = "caches"
"""Name of a bundle's archive that holds caches."""

SUFFIX: Final = ".tar.xz"
"""Of an export that shall be one file."""

_WHOLE: Final = 1 << 60
"""Bytes: no export is cut into parts."""


@dataclass(frozen=True, kw_only=True)
class Trust:
    """Whose code may be executed.

    Attributes:
        keys: ids of keys whose bundles are taken without asking.
        signer: the one key that must have signed the bundle; None for any of them.
        accepted: the user says that the code may be executed, whoever made it.
    """

    keys: Container[str]
    signer: str | None = None
    accepted: bool = False


def carried_caches(folder: Path) -> list[Entry]:
    """The files of caches for a bundle, where an engine on the host looks for them.

    Args:
        folder: of one recipe's caches, or of several as `export_caches` puts them.

    Raises:
        UsageError: it is no folder of caches, or nobody says what they were made with.
    """
    if not folder.is_dir():
        raise UsageError(
            f"{folder} is no folder.", remedy="Name a folder of compile caches (`just caches` lists them)."
        )
    described = [folder] if (folder / caches.MANIFEST).is_file() else sorted(folder.glob("*/*/"))
    entries: list[Entry] = []
    for one in described:
        made_with = caches.read_manifest(one)
        if made_with is None:
            raise UsageError(
                f"nobody says what the compiled code in {one} was made with.",
                remedy="`just caches` lists the caches that are here; --with-caches takes the right ones by itself.",
            )
        entries += folder_files(one, f"{CACHES}/{made_with.place.as_posix()}/")
    return entries


def export_caches(folder: Path, out: Path) -> None:
    """Copies one recipe's caches: to a folder, or into one file where the name ends in ".tar.xz".

    The folder is what `just bundle --caches`, `just build --with-caches` and `just caches import` take.

    Raises:
        UsageError: it is there already.
        StreamproofError: it cannot be written. Nothing is left behind.
    """
    if out.exists():
        raise UsageError(f"{out} is there already.", remedy="Remove it, or name another place with --out.")
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=f".{out.name}.", dir=out.parent) as scratch:
            made = Path(scratch) / out.name
            if out.name.endswith(SUFFIX):
                made = _packed(folder, Path(scratch))
            else:
                _copy(folder, made)
            made.rename(out)
    except OSError as error:
        raise StreamproofError(
            f"{error.filename or out} cannot be written: {error.strerror}",
            remedy="Make room there, or name another place with --out.",
        ) from error


def _packed(folder: Path, scratch: Path) -> Path:
    """One file with all of a folder, which is the same every time."""
    time = int((folder / caches.MANIFEST).stat().st_mtime)
    files = folder_files(folder, "")
    archive = pack(ARCHIVE, files, scratch, file_name="whole", compress=True, part_size=_WHOLE, time=time)
    return scratch / archive.parts[0].name


def import_caches(source: Path, root: Path, trust: Trust, *, say: Say) -> list[MadeWith]:
    """Brings caches in.

    Args:
        source: a bundle's folder, or what `export_caches` made.
        root: of all caches.
        trust: whose code may be executed.
        say: hears every step.

    Returns:
        What they were made with.

    Raises:
        UsageError: it is neither; or nobody vouches for it.
        StreamproofError: it is damaged, has none in it, or is here already. Nothing is changed then.
    """
    root.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".import.", dir=root) as scratch:
        staged = Path(scratch) / "staged"
        staged.mkdir()
        if (source / MANIFEST).is_file():
            came_from = _from_bundle(source, Path(scratch), staged, trust)
        else:
            if not trust.accepted:
                raise UsageError(
                    f"{source} is not signed, and what is in it would be executed by the engine.",
                    remedy="If you know who made it, say so with --accept-code. A bundle (`just bundle TARGET "
                    "--with-caches`) is signed.",
                )
            came_from = "accepted by hand"
            _from_export(source, Path(scratch), staged)
        found = _described(staged, source)
        for folder, made_with in found:
            if (root / made_with.place).exists():
                raise StreamproofError(
                    f"caches of {made_with.target} for the same fingerprint and machine are here already: "
                    f"{root / made_with.place}",
                    remedy="Remove them first: just caches prune --only " + made_with.fingerprint[:12],
                )
            caches.write_manifest(folder, made_with.model_copy(update={"came_from": came_from}))
        for folder, made_with in found:
            (root / made_with.place).parent.mkdir(exist_ok=True)
            folder.rename(root / made_with.place)
            say(f"imported {made_with.place} ({made_with.target}), {came_from}")
    return [made_with for _, made_with in found]


def _from_bundle(bundle: Path, scratch: Path, staged: Path, trust: Trust) -> str:
    """Unpacks the caches of a bundle. Returns who vouches for them."""
    with _refusals():
        who, signed = signed_files(bundle, trust.signer)
        if who not in trust.keys and trust.signer is None and not trust.accepted:
            raise UsageError(
                f"{bundle} is signed by {who}, whom nobody here knows, and what is in it would be executed.",
                remedy="Ask its maker for the id of their key, over another channel, and give it: --signer KEY_ID.",
            )
        check_file(bundle, MANIFEST, signed.get(MANIFEST, ""))
        archives = [part for part in parse((bundle / MANIFEST).read_bytes()).archives if part.name == ARCHIVE]
        for archive in archives:
            for part in archive.parts:
                check_file(bundle, part.name, signed.get(part.name, ""), part.size)
            check_unpacked(scratch, unpack(archive, bundle, scratch))
    if (scratch / CACHES).is_dir():
        staged.rmdir()
        (scratch / CACHES).rename(staged)
    return f"signed by {who}"


def _from_export(source: Path, scratch: Path, staged: Path) -> None:
    """Copies or unpacks what `export_caches` made, or a folder of several recipes' caches, to where they belong."""
    whole = scratch / "whole"
    try:
        if source.is_dir():
            _copy(source, whole)
        else:
            with tarfile.open(source) as tar:
                tar.extractall(whole, filter="data")
            (whole / FILE_LIST).unlink(missing_ok=True)
    except (OSError, tarfile.TarError, EOFError) as error:
        raise StreamproofError(
            f"no caches can be read from {source}: {error}",
            remedy="Name a bundle's folder, or what `just caches export` made.",
        ) from error
    if made_with := caches.read_manifest(whole):
        (staged / made_with.place).parent.mkdir(parents=True)
        whole.rename(staged / made_with.place)
    elif whole.is_dir():
        staged.rmdir()
        whole.rename(staged)


def _described(staged: Path, source: Path) -> list[tuple[Path, MadeWith]]:
    """The folders of caches with what each was made with."""
    found = []
    for folder in sorted(staged.glob("*/*/")):
        made_with = caches.read_manifest(folder)
        if made_with is None or made_with.place != folder.relative_to(staged):
            raise StreamproofError(
                f"{source}: nobody says what {folder.relative_to(staged)} was made with",
                remedy="Export it again where it was made.",
            )
        found.append((folder, made_with))
    if not found:
        raise StreamproofError(
            f"there are no caches in {source}", remedy="A bundle has them if it was made with --with-caches."
        )
    return found


def _copy(source: Path, target: Path) -> None:
    for path in walk(source):  # refuses what is neither a file nor a folder
        copy = target / path.relative_to(source)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, copy)


@contextmanager
def _refusals() -> Iterator[None]:
    """The installer's refusals as ours."""
    try:
        yield
    except Refusal as refusal:
        raise StreamproofError(refusal.message, remedy=refusal.remedy) from refusal
    except BadManifestError as error:
        raise StreamproofError(f"{MANIFEST}: {error}", remedy="Use the streamproof that it was made with.") from error
