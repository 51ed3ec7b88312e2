"""The `docker` command, for the one thing that Docker's SDK cannot do: build with BuildKit."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bench.errors import StreamproofError
from bench.images.definition import PLATFORM

if TYPE_CHECKING:
    from bench.engine.install import Say

_INSTALL: Final = (
    "Install docker-buildx beside docker (Debian and Ubuntu: apt-get install docker-buildx), or a Docker CLI"
)
_GRACE_S: Final = 20.0
_STEP: Final = re.compile(r"#\d+ (?:(?P<time>\d+\.\d+) )?(?P<text>.*\S)")

_PROXIES: Final = ("HTTP_PROXY", "HTTPS_PROXY", "FTP_PROXY", "NO_PROXY", "ALL_PROXY")


@dataclass(frozen=True, kw_only=True)
class Builder:
    """A `docker` that can build with BuildKit.

    Attributes:
        program: its path.
        buildx: it has the buildx plugin; without, BuildKit is built in (20.10 to 22).
    """

    program: str
    buildx: bool


@dataclass(frozen=True, kw_only=True)
class Build:
    """One build.

    Attributes:
        context: the staged folder.
        stage: of the Dockerfile.
        tag: of the image to be.
        arguments: of the Dockerfile, name to value.
        labels: of the image.
        address: of the Docker Engine.
        fresh: take nothing from the builder's cache.
        attest: attach provenance and a bill of materials, where the engine's image store can keep them.
        id_file: that the image's id is written to.
    """

    context: Path
    stage: str
    tag: str
    arguments: Mapping[str, str]
    labels: Mapping[str, str]
    address: str
    id_file: Path
    fresh: bool = False
    attest: bool = False


def find_builder(path: str | None = None) -> Builder:
    """The first `docker` on the path that can build with BuildKit.

    Args:
        path: as in PATH; None is the process's own.

    Raises:
        StreamproofError: there is no docker, or none that can.
    """
    tried = []
    for program in _programs(os.environ.get("PATH", os.defpath) if path is None else path):
        if _succeeds(program, "buildx", "version"):
            return Builder(program=program, buildx=True)
        # Without the plugin, a docker of 23 or newer cannot even say what its options are.
        if _succeeds(program, "build", "--help"):
            return Builder(program=program, buildx=False)
        tried.append(program)
    if not tried:
        raise StreamproofError(
            "the docker command is not there; Docker's SDK cannot build with BuildKit",
            remedy="Install Docker (https://docs.docker.com/engine/install/).",
        )
    raise StreamproofError(
        f"{', '.join(tried)}: no docker command here can build with BuildKit: the buildx plugin is missing",
        remedy=f"{_INSTALL} of version 20.10, which has it built in.",
    )


def build_command(builder: Builder, build: Build) -> list[str]:
    """The command line of a build.

    No network while it runs, and nothing of this host's settings: the proxies that a user has told Docker to pass into
    every build are passed empty.
    """
    # The engine's own builder, whatever other one a user has chosen: its images, its registries.
    buildx = ("buildx", "--builder", "default") if builder.buildx else ()
    command = [builder.program, "--host", build.address, *buildx, "build"]
    command += ["--platform", PLATFORM, "--network", "none", "--target", build.stage, "--tag", build.tag]
    command += ["--file", str(build.context / "Dockerfile"), "--iidfile", str(build.id_file)]
    if builder.buildx:
        command += ["--load"]
        command += ["--provenance=mode=max", "--sbom=true"] if build.attest else ["--provenance=false", "--sbom=false"]
    if build.fresh:
        command += ["--no-cache"]
    empty = {name: "" for proxy in _PROXIES for name in (proxy, proxy.lower())}
    for name, value in {**empty, **build.arguments}.items():
        command += ["--build-arg", f"{name}={value}"]
    for name, value in build.labels.items():
        command += ["--label", f"{name}={value}"]
    return [*command, str(build.context)]


def run_build(builder: Builder, build: Build, *, say: Say) -> list[str]:
    """Build, and say how far it is.

    Args:
        builder: from `find_builder`.
        build: what to build.
        say: takes lines of progress.

    Returns:
        Nothing when the image is there, else what the builder said, line by line.
    """
    command = [*build_command(builder, build), "--progress", "plain"]
    said: list[str] = []
    with subprocess.Popen(  # noqa: S603  docker with our own arguments
        command,
        env=_environment(os.environ),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,  # Ctrl-C in the terminal is for us, who then stop it
    ) as process:
        try:
            for line in filter(None, map(str.rstrip, process.stderr or ())):
                said.append(line)
                if (told := progress_of(line)) is not None:
                    say(told)
        except BaseException:
            _stop(process)
            raise
    if process.returncode == 0:
        return []
    return said or [f"docker ended with status {process.returncode} and said nothing"]


def progress_of(line: str) -> str | None:
    """What is worth telling of a line of BuildKit's plain progress; None where nothing is.

    "#7 12.41 installing" is what a RUN says, "#5 transferring context: 1.2GB" how far a transfer is.
    """
    step = _STEP.fullmatch(line)
    if step is None:
        return None
    text = step["text"]
    if step["time"] is not None or text.startswith(("ERROR", "CANCELED")):
        return f"  {text}"
    if text.startswith("[") and "[internal]" not in text:
        return text
    return f"  {text}" if text.startswith("transferring context") and "done" not in text else None


def _stop(process: subprocess.Popen[str]) -> None:
    """The builder stops the build when its client says so, or is gone."""
    process.send_signal(signal.SIGINT)
    try:
        process.communicate(timeout=_GRACE_S)  # and read on: it could not end with a full pipe
    except subprocess.TimeoutExpired:
        process.kill()


def _environment(variables: Mapping[str, str]) -> dict[str, str]:
    """Of the docker command: what it needs to find its settings, and BuildKit. No token of the user's is for it."""
    needed = ("PATH", "HOME", "DOCKER_CONFIG", "XDG_CONFIG_HOME", "TERM", "LANG", "TMPDIR")
    return {**{name: variables[name] for name in needed if name in variables}, "DOCKER_BUILDKIT": "1"}


def _programs(path: str) -> list[str]:
    """Every `docker` on a path, each once."""
    found = [shutil.which("docker", path=folder) for folder in path.split(os.pathsep) if folder]
    return list(dict.fromkeys(str(Path(program).resolve()) for program in found if program))


def _succeeds(program: str, *arguments: str) -> bool:
    answer = subprocess.run(  # noqa: S603  docker with our own arguments
        [program, *arguments], env=_environment(os.environ), capture_output=True, stdin=subprocess.DEVNULL, check=False
    )
    return answer.returncode == 0
