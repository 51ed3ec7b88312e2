"""What decides the content of an image, as one hash, without Docker: another hash is another image.

In it: the Dockerfile and its stage, the base's digest, the lock, the tools and files that are copied in, the versions
that it must carry, baked caches. Not in it: the commit. Whoever builds the same definition at another commit gets the
same layers, because the times of files are those of the last commit that changed any of this (`bench.images.revision`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bench.engine.pins import REPOSITORY, load_pins
from bench.errors import StreamproofError, UsageError
from bench.images.base import Base, pinned_base
from bench.images.revision import tracked_files
from recipes.fingerprint import file_sha256, folder_sha256

if TYPE_CHECKING:
    from bench.engine.pins import Pins
    from recipes.schema import Recipe

DOCKERFILE: Final = "Dockerfile"
PLATFORM: Final = "linux/amd64"
"""Of every image of ours: the GPUs' hosts are, and vLLM's CPU build asks for AVX-512."""

REPOSITORY_NAME: Final = "streamproof"
"""Of the images that we make: "streamproof/cpu:0123456789ab"."""

TOOLS_LOCK: Final = "docker/locks/tools.txt"
"""uv, which installs the wheels inside, is in there."""

_INSIDE: Final = "bench/images/inside"
_PACKAGES: Final = ("bench/__init__.py", "bench/images/__init__.py", "bench/images/layout.py")
"""What the modules in there import from besides Python's own."""

_SERVES: Final = frozenset({"serve-cuda", "serve-cpu"})


@dataclass(frozen=True, kw_only=True)
class ImageDefinition:
    """Everything that decides what is in an image.

    Attributes:
        target: name in docker/pins.toml.
        title: one line for people.
        stage: of the Dockerfile.
        base: what it is built on.
        lock: requirements file that is installed into it, relative to the repository; None for none.
        files: path in the repository to SHA-256: the Dockerfile, locks, and all that follow.
        tools: those of `files` that assemble the image.
        source: those of `files` that are copied into it: modules of ours and their data.
        carries: distributions that must be inside, by exact version.
        caches_sha256: of the folder of compile caches that is baked into it (`recipes.fingerprint.folder_sha256`);
            None where there is none.
        build_gib: space that a build takes, its base included, in GiB. Not part of the hash.
    """

    target: str
    title: str
    stage: str
    base: Base
    lock: str | None
    files: Mapping[str, str]
    tools: tuple[str, ...]
    source: tuple[str, ...]
    carries: Mapping[str, str]
    caches_sha256: str | None
    build_gib: float

    @cached_property
    def sha256(self) -> str:
        """64 hex digits: SHA-256 of canonical JSON. The name of the target and of the base are not part of it."""
        decides = {
            "stage": self.stage,
            "platform": PLATFORM,
            "base": self.base.digest,
            "python": self.base.python,
            "files": dict(self.files),
            "source": self.source,
            "carries": dict(self.carries),
            "caches": self.caches_sha256,
        }
        return hashlib.sha256(json.dumps(decides, sort_keys=True, separators=(",", ":")).encode()).hexdigest()

    @property
    def tag(self) -> str:
        """What the built image is called: "streamproof/cpu:0123456789ab"."""
        return f"{REPOSITORY_NAME}/{self.target}:{self.sha256[:12]}"


def image_definition(
    target: str,
    *,
    base: Base | None = None,
    caches: Path | None = None,
    pins: Pins | None = None,
    repository: Path = REPOSITORY,
) -> ImageDefinition:
    """The definition of a target's image, from files alone.

    Args:
        target: name in docker/pins.toml ("cpu"); of a recipe, `image_target` tells it.
        base: takes the place of the pinned one: a registry's copy of it, or a stand-in.
        caches: folder of compile caches to bake in.
        pins: the pinned versions; None reads docker/pins.toml.
        repository: the checkout.

    Raises:
        UsageError: no such target, or the caches are no folder.
        StreamproofError: a file that it is made from is missing, or git, which knows the files of the client.
    """
    pins = pins or load_pins()
    pin = pins.target(target)
    own = pinned_base(pins.image(pin.base))
    if base is None:
        base = own
    elif pin.lock is not None:  # a stand-in that does not say otherwise is what it stands for
        base = replace(base, python=base.python or own.python, glibc=base.glibc or own.glibc)
    if caches is not None and not caches.is_dir():
        raise UsageError(f"{caches} is no folder.", remedy="Name the folder of the compile caches.")
    tools = _tools(repository)
    source = tracked_files(pin.source, repository) if pin.source else []
    locks = [] if pin.lock is None else [pin.lock, TOOLS_LOCK]
    return ImageDefinition(
        target=target,
        title=pin.title,
        stage=pin.stage,
        base=base,
        lock=pin.lock,
        files=_hashes(sorted({DOCKERFILE, *locks, *tools, *source}), repository),
        tools=tuple(tools),
        source=tuple(source),
        carries=pin.carries,
        caches_sha256=None if caches is None else folder_sha256(caches),
        build_gib=pin.build_gib + base.gib,
    )


def image_target(recipe: Recipe, *, pins: Pins | None = None) -> str:
    """Which image a recipe runs in: the target of its own name, else the first one for its engine and card.

    Raises:
        UsageError: no image fits.
    """
    targets = (pins or load_pins()).targets
    fitting = [
        name
        for name, pin in targets.items()
        if pin.stage in _SERVES and pin.engine == recipe.engine.lock and pin.gpu == recipe.hardware.gpu
    ]
    if not fitting:
        raise UsageError(
            f"no image serves the engine {recipe.engine.lock} on {recipe.hardware.gpu or 'a CPU'}.",
            remedy=f"docker/pins.toml has targets: {', '.join(sorted(targets))}. "
            "The process engine needs no image: --engine process.",
        )
    return recipe.target if recipe.target in fitting else fitting[0]


def _tools(repository: Path) -> list[str]:
    """What runs while the image is built, and what that imports; sorted."""
    inside = sorted(path.relative_to(repository).as_posix() for path in (repository / _INSIDE).glob("*.py"))
    return [*_PACKAGES, *inside]


def _hashes(paths: Iterable[str], repository: Path) -> dict[str, str]:
    try:
        return {path: file_sha256(repository / path) for path in paths}
    except OSError as error:
        raise StreamproofError(
            f"an image's definition cannot be read: {error.filename}: {error.strerror}",
            remedy="Images are built from a git checkout of streamproof; clone it again or restore the file.",
        ) from error
