"""Loads the image of a bundle into this host's Docker, through the `docker` command.

Its files have been unpacked and checked one by one. They are handed over as one tar file, and Docker's own word on what
it then has is compared with what was signed.
"""

from __future__ import annotations

import json
import subprocess
import tarfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Final, cast

from .manifest import Image
from .refusal import Refusal

_DOCKER: Final = "docker"
_PIECE: Final = 1 << 20


def check_docker() -> None:
    """Docker is here and answers.

    Raises:
        Refusal: it is not, or does not.
    """
    said = _docker("version", "--format", "{{.Server.Version}}")
    if said.returncode:
        raise Refusal(
            f"the bundle carries an image, and Docker does not answer: {_last_line(said.stderr)}",
            "Start it (sudo systemctl start docker), and let this user use it (sudo usermod -aG docker $USER, then log "
            "in again).",
        )


def load_image(folder: Path, image: Image) -> bool:
    """Loads an image and checks that it is the one that was signed.

    Args:
        folder: of its files.
        image: from the signed manifest.

    Returns:
        Whether it was loaded: False where it was there already.

    Raises:
        Refusal: Docker could not load it, or has another one under its name then. None of it is left.
    """
    is_new = not _inspect(image.id, image)
    if is_new:
        _load(folder)
    else:
        _docker("tag", image.id, image.reference)
    if not _inspect(image.reference, image):
        if is_new:
            remove_image(image)
        raise Refusal(
            f"what Docker has as {image.reference} now is not the image that was signed",
            "Update Docker, then install again.",
        )
    return is_new


def remove_image(image: Image) -> None:
    """Takes an image back out of Docker, as far as nothing else uses it."""
    _docker("image", "rm", image.reference)


def _load(folder: Path) -> None:
    with subprocess.Popen(  # noqa: S603  Docker's own command
        [_DOCKER, "load", "--quiet"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as loading:
        with suppress(BrokenPipeError):  # it has ended: what it says, below, tells why
            _write_tar(folder, cast("IO[bytes]", loading.stdin))
        with suppress(BrokenPipeError):
            cast("IO[bytes]", loading.stdin).close()
        said = cast("IO[bytes]", loading.stdout).read().decode(errors="replace")
    if loading.returncode:
        raise Refusal(
            f"Docker could not load the image: {_last_line(said)}",
            "See that Docker's own disk has room (docker system df), then install again.",
        )


def _inspect(name: str, image: Image) -> bool:
    """Whether Docker has the image under this name.

    A Docker that keeps its images in containerd calls them by the digest of their manifest and not of their
    configuration; its layers are the same.
    """
    said = _docker("image", "inspect", name)
    if said.returncode:
        return False
    (found,) = json.loads(said.stdout)
    return bool(found["Id"] == image.id or found["RootFS"]["Layers"] == list(image.layers))


def _write_tar(folder: Path, sink: IO[bytes]) -> None:
    with tarfile.open(fileobj=sink, mode="w|", bufsize=_PIECE) as tar:
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                tar.add(path, path.relative_to(folder).as_posix())


def _docker(*arguments: str) -> subprocess.CompletedProcess[str]:
    command: Sequence[str] = [_DOCKER, *arguments]
    try:
        return subprocess.run(  # noqa: S603  Docker's own command
            command, check=False, capture_output=True, text=True, stdin=subprocess.DEVNULL
        )
    except FileNotFoundError as error:
        raise Refusal(
            "the bundle carries an image, and there is no docker here",
            "Install Docker Engine, or ask for a bundle without --image.",
        ) from error


def _last_line(said: str) -> str:
    return (said.strip().splitlines() or ["it said nothing"])[-1]
