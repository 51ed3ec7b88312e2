"""The image that an engine runs from: here already or pulled by digest, and checked before anything is started."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Self

from docker.errors import DockerException, ImageNotFound, NotFound

from bench.engine.docker_errors import DOCKER_ERRORS, explained, pull_explained
from bench.engine.docker_host import ARCHITECTURE
from bench.errors import StreamproofError, UsageError
from bench.images.labels import BASE_DIGEST, DEFINITION, STAGE

if TYPE_CHECKING:
    import docker
    from docker.models.images import Image

    from bench.engine.install import Say

_SERVES: Final = frozenset({"serve-cuda", "serve-cpu"})
"""Stages of the Dockerfile whose images take an engine's flags."""

_TOLD: Final = ("org.opencontainers.image.", "io.streamproof.")
_LONGEST_LABEL: Final = 500

_BY_DIGEST: Final = re.compile(r"[^@\s]+@(?P<digest>sha256:[0-9a-f]{64})")
_NUMERIC_USER: Final = re.compile(r"[1-9]\d*(?::\d+)?")


@dataclass(frozen=True, kw_only=True)
class EngineImage:
    """An image that is here, of an engine.

    Attributes:
        id: digest of its configuration.
        name: what was asked for.
        repo_digests: what registries call it.
        labels, env, entrypoint: as it carries them.
        user: number of its user, and perhaps of its group: "10001:10001".
    """

    id: str
    name: str
    repo_digests: tuple[str, ...]
    labels: Mapping[str, str]
    env: Mapping[str, str]
    entrypoint: tuple[str, ...]
    user: str

    @property
    def base_digest(self) -> str | None:
        """Of the image that it was built on, as its labels say; None where they do not."""
        return self.labels.get(BASE_DIGEST)

    @property
    def told_labels(self) -> dict[str, str]:
        """The labels that a report tells: OCI's and ours, not whatever else the base brought along."""
        told = {name: value for name, value in sorted(self.labels.items()) if name.startswith(_TOLD)}
        return {name: value[:_LONGEST_LABEL] for name, value in told.items()}

    @property
    def stage(self) -> str:
        """Of the Dockerfile: "serve-cuda" or "serve-cpu"."""
        return self.labels[STAGE]

    @classmethod
    def of(cls, image: Image, name: str) -> Self:
        """What Docker says of an image.

        Raises:
            StreamproofError: it is for another architecture.
            UsageError: it is not made to serve here: it runs as root, or starts no program.
        """
        config = image.attrs["Config"] or {}
        architecture = image.attrs.get("Architecture", ARCHITECTURE)
        if architecture != ARCHITECTURE:
            raise StreamproofError(
                f"the image {name} is for {architecture}; this host runs {ARCHITECTURE}",
                remedy=f"Name the one for linux/{ARCHITECTURE}: an index's digest chooses by itself.",
            )
        labels: dict[str, str] = dict(config.get("Labels") or {})
        user, entrypoint = str(config.get("User") or ""), tuple(config.get("Entrypoint") or ())
        if wrong := _why_not_ours(labels, user, entrypoint):
            raise UsageError(
                f"the image {name} is no engine of ours: {wrong}",
                remedy="just build TARGET makes one. A server that runs in another image is measured with --base-url.",
            )
        return cls(
            id=str(image.id),
            name=name,
            repo_digests=tuple(image.attrs.get("RepoDigests") or ()),
            labels=labels,
            env=dict(variable.partition("=")[::2] for variable in config.get("Env") or ()),
            entrypoint=entrypoint,
            user=user,
        )


def local_image(client: docker.DockerClient, reference: str) -> EngineImage:
    """An image that must be here: by id, or by name.

    Raises:
        StreamproofError: it is not here, or not made to serve here.
    """
    try:
        return EngineImage.of(client.images.get(reference), reference)
    except ImageNotFound as error:
        raise StreamproofError(
            f"there is no image {reference} on this host", remedy="docker image ls shows those that are here."
        ) from error
    except DOCKER_ERRORS as error:
        raise explained(error, f"look at the image {reference}") from error


def given_image(client: docker.DockerClient, reference: str, *, say: Say) -> EngineImage:
    """The image that a user names: one that is here, or one that is pulled because it is named by its digest.

    Args:
        client: of the Docker Engine.
        reference: id or name of an image that is here, or "repository@sha256:...".
        say: hears of a pull.

    Raises:
        UsageError: a tag that is not here is not pulled: tomorrow it may be another image.
        StreamproofError: it cannot be had, is not what its digest says, or is not made to serve here.
    """
    try:
        return EngineImage.of(client.images.get(reference), reference)
    except NotFound:
        pass
    except DOCKER_ERRORS as error:
        raise explained(error, f"look at the image {reference}") from error
    pinned = _BY_DIGEST.fullmatch(reference)
    if pinned is None:
        raise UsageError(
            f"there is no image {reference} on this host, and nothing is pulled by a name that may mean another image "
            "tomorrow",
            remedy="docker image ls shows those that are here; one to be pulled is named by its digest: "
            "REPOSITORY@sha256:...",
        )
    return _pull(client, reference, pinned["digest"], say)


def _pull(client: docker.DockerClient, reference: str, digest: str, say: Say) -> EngineImage:
    say(f"Pulling {reference}")
    try:
        for step in client.api.pull(reference, stream=True, decode=True):
            _hear(step, say)
        image = client.images.get(reference)
    except DOCKER_ERRORS as error:
        raise pull_explained(error, reference) from error
    if not any(found.endswith(f"@{digest}") for found in image.attrs["RepoDigests"]):
        raise StreamproofError(
            f"what was pulled as {reference} is another image: {', '.join(image.attrs['RepoDigests'])}",
            remedy="Do not use that registry, or what stands between it and you.",
        )
    return EngineImage.of(image, reference)


def _hear(step: Mapping[str, Any], say: Say) -> None:
    """One line of a pull's progress; those that repeat several times a second are dropped."""
    if problem := step.get("error"):
        raise DockerException(problem)
    if step.get("status") in {"Pull complete", "Already exists"}:
        say(f"  {step.get('id')}: {step['status'].lower()}")


def _why_not_ours(labels: Mapping[str, str], user: str, entrypoint: tuple[str, ...]) -> str:
    if DEFINITION not in labels:
        return f"it has no label {DEFINITION}"
    if labels.get(STAGE) not in _SERVES:
        return f"it was made as {labels.get(STAGE, 'something')}, not to serve"
    if not _NUMERIC_USER.fullmatch(user):
        return f"it runs as {f'the user {user!r}' if user else 'root'}, and only a user's number above 0 is sure"
    return "" if entrypoint else "it has no entrypoint that takes an engine's flags"
