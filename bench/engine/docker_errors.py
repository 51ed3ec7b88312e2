"""What the Docker Engine refuses, in our words and with a remedy. Its own words stay in the message."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from docker.errors import APIError, DockerException
from requests.exceptions import RequestException

from bench.engine.docker_host import no_gpu_driver
from bench.engine.driver_rules import advice_for
from bench.errors import StreamproofError

DOCKER_ERRORS: Final = (DockerException, RequestException)
"""What the SDK raises: its own, and those of the library that it talks to the Docker Engine with."""

DISK_FULL: Final = (
    "Make room on the disk of Docker's own files (docker info says where: Docker Root Dir). docker system df shows "
    "what takes it, docker image prune removes images without a name."
)


@dataclass(frozen=True, slots=True)
class Refusal:
    """One way in which the Docker Engine says no.

    Attributes:
        line: part of its answer.
        message: what that means.
        remedy: what to do.
    """

    line: re.Pattern[str]
    message: str
    remedy: str


_DISK: Final = Refusal(re.compile(r"no space left on device", re.IGNORECASE), "its disk is full", DISK_FULL)

PULL_REFUSALS: Final = (
    _DISK,
    Refusal(
        re.compile(r"manifest unknown|manifest for \S+ not found|not found: manifest", re.IGNORECASE),
        "the registry has no image with that digest",
        "Check repository and digest: the digest is that of a manifest or an index, not an image's id.",
    ),
    Refusal(
        re.compile(r"pull access denied|unauthorized|authentication required|denied: ", re.IGNORECASE),
        "the registry does not give it to this user, or has no such repository",
        "Check the repository's name; log in with docker login where it is private.",
    ),
    Refusal(
        re.compile(
            r"no such host|dial tcp|TLS handshake timeout|i/o timeout|connection refused|network is unreachable",
            re.IGNORECASE,
        ),
        "the registry cannot be reached",
        "Give the host network access, or bring the image: docker save on a host that has it, docker load here.",
    ),
)
"""Of a pull; the first one whose line is in the answer counts."""

RUN_REFUSALS: Final = (
    _DISK,
    Refusal(
        re.compile(r"port is already allocated|address already in use|failed to bind (host )?port", re.IGNORECASE),
        "the port is taken",
        "Run the command again: it takes another port. If it stays so, look for what holds them: ss -ltnp.",
    ),
    Refusal(
        re.compile(r"error setting rlimit", re.IGNORECASE),
        "the Docker Engine may not raise the limits that an engine needs (locked memory, stack, open files)",
        "It runs without CAP_SYS_RESOURCE, or inside a container: use one that runs on the host itself, or let its "
        "service have LimitMEMLOCK=infinity and LimitNOFILE=infinity.",
    ),
    Refusal(
        re.compile(r"bind source path does not exist", re.IGNORECASE),
        "the Docker Engine does not see this file system",
        "The client runs inside a container or a chroot with the host's Docker socket: run it on the host itself.",
    ),
    Refusal(
        re.compile(r"executable file not found|no such file or directory", re.IGNORECASE),
        "the image has no such program",
        "It is not an engine's image of ours: just build TARGET makes one.",
    ),
    Refusal(
        re.compile(r"nvidia-container-cli: (?!requirement error)|unresolvable CDI devices", re.IGNORECASE),
        "the GPU cannot be given to a container",
        "See whether nvidia-smi works on the host, and docker run --rm --gpus all IMAGE nvidia-smi in a container.",
    ),
)
"""Of a container; as above."""

_NO_GPU_DRIVER: Final = re.compile(r"could not select device driver")


def explained(error: Exception, doing: str) -> StreamproofError:
    """An error of the Docker Engine as one of ours.

    Args:
        error: from the SDK.
        doing: what was asked for, after "cannot": "start the engine's container".
    """
    if isinstance(error, RequestException) and not isinstance(error, APIError):
        return StreamproofError(
            f"Docker cannot {doing}: the Docker Engine no longer answers ({_words(error)})",
            remedy="Start it again (sudo systemctl start docker) and look at: journalctl -u docker.",
        )
    return refused(_words(error), doing)


def pull_explained(error: Exception, reference: str) -> StreamproofError:
    """The same, of a pull."""
    return refused(_words(error), f"pull {reference}", PULL_REFUSALS)


def refused(words: str, doing: str, refusals: Sequence[Refusal] = RUN_REFUSALS) -> StreamproofError:
    """The same, from the Docker Engine's words.

    Args:
        words: of its answer.
        doing: as above.
        refusals: those that may be meant.
    """
    words = " ".join(words.split())
    if _NO_GPU_DRIVER.search(words):
        return no_gpu_driver()
    if advice := advice_for(words):
        return StreamproofError(f"Docker cannot {doing}: {words}", remedy=advice)
    for refusal in refusals:
        if refusal.line.search(words):
            return StreamproofError(f"Docker cannot {doing}: {refusal.message} ({words})", remedy=refusal.remedy)
    return StreamproofError(
        f"Docker cannot {doing}: {words}",
        remedy="Its own log may say more (journalctl -u docker). Nothing was left running.",
    )


def _words(error: Exception) -> str:
    explanation = error.explanation if isinstance(error, APIError) else None
    return str(explanation or "") or str(error) or type(error).__name__
