"""What every stage has in common: it is done once, whole or not at all, and leaves a manifest.

A stage fills a folder beside its place, and the folder is renamed when it is whole. A stage whose manifest names the
same inputs and parameters, and whose outputs are there, is not done again. One that was cut off goes on in the folder
that it had begun, if it began with the same inputs and parameters.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from bench.errors import StreamproofError
from bench.report.folder_files import canonical_json, put, write_whole
from quantize.hashes import Hashes

MANIFEST: Final = "manifest.json"
_KEY: Final = "begun.json"
Sha256: TypeAlias = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class FileRecord(_Part):
    """A file, by content."""

    size: Annotated[int, Field(ge=0)]
    sha256: Sha256


class Environment(_Part):
    """What a worker ran in.

    Attributes:
        locked: it is the one of docker/locks/quantize.txt; False for an interpreter named with --python.
        packages_sha256: over its list of packages (`bench.observe.packages`).
        packages: that list, where it is not the locked one.
    """

    locked: bool
    packages_sha256: Sha256
    packages: dict[str, str] = {}


class Key(_Part):
    """What decides the outputs of a stage.

    Attributes:
        inputs: SHA-256 by name.
        parameters: everything else, ready for JSON.
    """

    inputs: dict[str, Sha256]
    parameters: dict[str, Any]


class Manifest(_Part):
    """What a stage leaves.

    Attributes:
        stage: its name.
        key: what decided its outputs.
        outputs: its files.
        versions: of programs that took part, by name.
        environment: of the worker; None where the client did the work.
        seconds: that its last attempt took.
        peak_rss_bytes: most memory of the worker's process; None where the client did the work.
        peak_gpu_bytes: most GPU memory that it held; 0 on a CPU.
    """

    stage: str
    key: Key
    outputs: dict[str, FileRecord]
    versions: dict[str, str] = {}
    environment: Environment | None = None
    seconds: float
    peak_rss_bytes: int | None = None
    peak_gpu_bytes: int | None = None

    def digests(self, prefix: str = "") -> dict[str, str]:
        """SHA-256 of every output, each name behind `prefix`."""
        return {f"{prefix}{name}": record.sha256 for name, record in self.outputs.items()}


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What the work of a stage tells of itself; see `Manifest`."""

    versions: dict[str, str] = field(default_factory=dict)
    environment: Environment | None = None
    peak_rss_bytes: int | None = None
    peak_gpu_bytes: int | None = None


Work: TypeAlias = Callable[[Path], Outcome]
"""Fills a folder. It may find there what an earlier attempt has finished."""


@dataclass(frozen=True)
class Workshop:
    """Where the stages of one checkpoint work.

    Attributes:
        folder: theirs.
        hashes: of files that were read before.
    """

    folder: Path
    hashes: Hashes

    def place(self, stage: str) -> Path:
        """The folder of a stage, once it is done."""
        return self.folder / stage

    def run(self, stage: str, key: Key, work: Work, *, say: Callable[[str], None]) -> Manifest:
        """Does a stage, or finds that it is done.

        Args:
            stage: its name, and its folder's.
            key: what decides its outputs.
            work: does it.
            say: takes a line about it.

        Raises:
            StreamproofError: the work failed, or its files cannot be written.
        """
        place = self.place(stage)
        done = self._done(stage, key)
        if done is not None:
            say(f"{stage}: done before")
            return done
        partial = place.with_name(f".{stage}.partial")
        self._begin(partial, key, lambda: say(f"{stage}: goes on from an earlier attempt"))
        started = time.monotonic()
        try:
            outcome = work(partial)
            seconds = round(time.monotonic() - started, 3)
            outputs = self._outputs(partial)
        except OSError as error:
            raise StreamproofError(
                f"{stage}: {error.filename or partial}: {error.strerror}",
                remedy=f"Free some space, or mend the permissions, and run it again: it goes on from {partial}.",
            ) from error
        manifest = Manifest(stage=stage, key=key, outputs=outputs, seconds=seconds, **vars(outcome))
        write_whole(partial / MANIFEST, canonical_json(manifest.model_dump(mode="json")))
        if place.exists():
            shutil.rmtree(place)
        put(partial, place)
        return manifest

    def _done(self, stage: str, key: Key) -> Manifest | None:
        place = self.place(stage)
        try:
            manifest = Manifest.model_validate_json((place / MANIFEST).read_bytes())
        except (OSError, ValidationError):
            return None
        if manifest.key != key or not self._intact(place, manifest):
            return None
        return manifest

    def _intact(self, place: Path, manifest: Manifest) -> bool:
        """Whether every output is there and has its size and content."""
        for name, record in manifest.outputs.items():
            path = place / name
            if not path.is_file() or path.stat().st_size != record.size:
                return False
        found = self.hashes.of([place / name for name in manifest.outputs])
        return all(found[place / name] == record.sha256 for name, record in manifest.outputs.items())

    def _begin(self, partial: Path, key: Key, resumed: Callable[[], None]) -> None:
        """Makes the folder to fill, or keeps the one that was begun with the same key."""
        begun = canonical_json(key.model_dump(mode="json"))
        if (partial / _KEY).is_file() and (partial / _KEY).read_bytes() == begun:
            resumed()
            return
        try:
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir(parents=True)
        except OSError as error:
            raise StreamproofError(
                f"cannot make {partial}: {error.strerror}", remedy="Name another folder with --work."
            ) from error
        write_whole(partial / _KEY, begun)

    def _outputs(self, partial: Path) -> dict[str, FileRecord]:
        names = sorted(
            path.relative_to(partial)
            for path in partial.rglob("*")
            if path.is_file() and path.name not in (MANIFEST, _KEY) and not _is_partial(path.relative_to(partial))
        )
        digests = self.hashes.of([partial / name for name in names])
        return {
            name.as_posix(): FileRecord(size=(partial / name).stat().st_size, sha256=digests[partial / name])
            for name in names
        }


def _is_partial(name: Path) -> bool:
    """Hidden files are unfinished ones of ours, and the notes of a download."""
    return any(part.startswith(".") for part in name.parts)
