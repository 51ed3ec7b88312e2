"""`docker/pins.toml` as typed data: which images and environments engines and our own images are made of."""

from __future__ import annotations

import datetime as dt
import tomllib
from functools import cache
from pathlib import Path
from typing import Annotated, Final, Literal, TypeAlias, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from bench.errors import StreamproofError, UsageError

REPOSITORY: Final = Path(__file__).resolve().parents[2]
"""The checkout that this code runs from: recipes, locks and pins are files in it."""

PINS_FILE: Final = REPOSITORY / "docker" / "pins.toml"

Digest: TypeAlias = Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$")]
PythonVersion: TypeAlias = Annotated[str, Field(pattern=r"^3\.\d+$")]
Commit: TypeAlias = Annotated[str, Field(pattern=r"^[0-9a-f]{40}$")]


def _dashed(name: str) -> str:
    return name.replace("_", "-")


class _Pinned(BaseModel):
    """Base: frozen, no unknown keys; a field `tag_commit` is the key `tag-commit`."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, alias_generator=_dashed)


class ImagePin(_Pinned):
    """A container image, by content.

    Attributes:
        reference: repository and tag, for people.
        version: of the software inside.
        index: digest of the multi-platform index.
        linux_amd64: digest of the linux/amd64 manifest; None where it was not found.
        resolved: the day on which the digests were read.
        how: from where; "second-hand: ..." when no registry was asked.
        build_commit: the commit that the image says it was built from; None where it says nothing.
        tag_commit: the commit of the release's tag; None where unknown.
        python: major and minor version of the Python inside ("3.12"); None where nothing of ours is installed into it.
        glibc: minor version of its GNU C library 2, which decides what wheels it can load; None as above.
        unpacked_gib: space that its unpacked layers take, in GiB; None where nothing of ours is built on it.
    """

    reference: str
    version: str
    index: Digest
    linux_amd64: Digest | None = None
    resolved: dt.date
    how: str
    build_commit: Commit | None = None
    tag_commit: Commit | None = None
    python: PythonVersion | None = None
    glibc: Annotated[int, Field(ge=17)] | None = None
    unpacked_gib: Annotated[float, Field(gt=0)] | None = None


class EnginePin(_Pinned):
    """A hash-locked environment that an engine runs in.

    Attributes:
        lock: the requirements file with hashes, relative to the repository.
        version: of vLLM inside.
        python: the versions that the lock was resolved for ("3.11").
        module: what `python -m` starts to serve the OpenAI API.
        installed_gib: space that the finished environment takes, in GiB.
        env: environment variables that this environment needs whatever the recipe says.
    """

    lock: str
    version: str
    python: Annotated[list[Annotated[str, Field(pattern=r"^3\.\d+$")]], Field(min_length=1)]
    module: str
    installed_gib: Annotated[float, Field(gt=0)]
    env: dict[str, str] = {}


class PeerPin(_Pinned):
    """A hash-locked environment of another load generator, which `bench.peers` sets beside ours.

    Attributes:
        lock: the requirements file with hashes, relative to the repository.
        package: the distribution that is the tool.
        version: of it.
        python: the versions that the lock was resolved for; the first that is found is used.
        installed_gib: space that the finished environment takes, in GiB.
    """

    lock: str
    package: str
    version: str
    python: Annotated[list[Annotated[str, Field(pattern=r"^3\.\d+$")]], Field(min_length=1)]
    installed_gib: Annotated[float, Field(gt=0)]


class QuantizePin(_Pinned):
    """The hash-locked environment of `just quantize`.

    Attributes:
        lock: the requirements file with hashes, relative to the repository.
        version: of ModelOpt inside.
        python: the versions that the lock was resolved for; the first that is found is used.
        installed_gib: space that the finished environment takes, in GiB.
    """

    lock: str
    version: str
    python: Annotated[list[Annotated[str, Field(pattern=r"^3\.\d+$")]], Field(min_length=1)]
    installed_gib: Annotated[float, Field(gt=0)]


class TargetPin(_Pinned):
    """An image of ours: what it is built from and what it must carry (see `bench.images`).

    Attributes:
        title: one line for people.
        stage: of the Dockerfile.
        base: name of the image that it is built on.
        lock: the requirements file with hashes that is installed into it, relative to the repository; None for none.
        source: files and folders of the repository that are copied into it.
        engine: name of the engine environment that it takes the place of (a recipe's `engine.lock`); None for none.
        gpu: the card that it is for, as a recipe names it; None for a CPU.
        carries: distributions that must be inside, by exact version; checked during the build.
        build_gib: space that a build takes besides the base, wheels, context and layer together, in GiB.
    """

    title: str
    stage: Literal["serve-cuda", "serve-cpu", "quantize", "bench"]
    base: str
    lock: str | None = None
    source: list[str] = []
    engine: str | None = None
    gpu: str | None = None
    carries: dict[str, str] = {}
    build_gib: Annotated[float, Field(gt=0)]


class Pins(_Pinned):
    """The whole file."""

    images: dict[str, ImagePin]
    engines: dict[str, EnginePin]
    peers: dict[str, PeerPin] = {}
    quantize: QuantizePin | None = None
    targets: dict[str, TargetPin] = {}

    def image(self, name: str) -> ImagePin:
        """The image of that name.

        Raises:
            UsageError: there is none; the remedy lists those that exist.
        """
        return _entry(self.images, name, "image")

    def engine(self, name: str) -> EnginePin:
        """The engine environment of that name (a recipe's `engine.lock`).

        Raises:
            UsageError: there is none; the remedy lists those that exist.
        """
        return _entry(self.engines, name, "engine environment")

    def peer(self, name: str) -> PeerPin:
        """The environment of another load generator.

        Raises:
            UsageError: there is none; the remedy lists those that exist.
        """
        return _entry(self.peers, name, "load generator")

    def target(self, name: str) -> TargetPin:
        """The image of ours of that name.

        Raises:
            UsageError: there is none; the remedy lists those that exist.
        """
        return _entry(self.targets, name, "target that has an image")


_PinT = TypeVar("_PinT", ImagePin, EnginePin, PeerPin, TargetPin)


def _entry(entries: dict[str, _PinT], name: str, what: str) -> _PinT:
    try:
        return entries[name]
    except KeyError:
        known = ", ".join(sorted(entries))
        raise UsageError(f'docker/pins.toml has no {what} "{name}"', remedy=f"It has: {known}.") from None


@cache
def load_pins(path: Path = PINS_FILE) -> Pins:
    """Read the pins.

    Raises:
        StreamproofError: the file is missing, is no TOML, or holds something that this version does not know.
    """
    try:
        return Pins.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise StreamproofError(
            f"the pinned versions cannot be read: {path}: {error.strerror}",
            remedy="streamproof runs from its git checkout; clone it again or restore the file.",
        ) from error
    except (tomllib.TOMLDecodeError, ValidationError) as error:
        raise StreamproofError(
            f"the pinned versions are not valid: {path}: {error}",
            remedy="Compare the file with the one in git (git diff docker/pins.toml).",
        ) from error
