"""How an image is named: registry, repository, tag."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from docker.auth import INDEX_NAME, resolve_repository_name
from docker.errors import InvalidRepository

from bench.errors import UsageError

_TAG: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")
_STEP: Final = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_REPOSITORY: Final = re.compile(rf"{_STEP}(?:/{_STEP})*")
"""Both from the OCI distribution specification 1.1."""

_DOCKER_HUB: Final = "registry-1.docker.io"
"""Where the images of docker.io are."""


@dataclass(frozen=True, slots=True)
class Reference:
    """A repository's tag.

    Attributes:
        registry: as `docker login` names it: "docker.io", "ghcr.io", "127.0.0.1:5000".
        repository: within the registry: "library/debian".
        tag: "v0.26.0".
    """

    registry: str
    repository: str
    tag: str

    @property
    def host(self) -> str:
        """Where the registry's interface is."""
        return _DOCKER_HUB if self.registry == INDEX_NAME else self.registry

    def __str__(self) -> str:
        return f"{self.registry}/{self.repository}:{self.tag}"


def parse_reference(text: str) -> Reference:
    """Reads "vllm/vllm-openai:v0.26.0" as Docker does.

    Raises:
        UsageError: it is no reference with a tag.
    """
    name, colon, tag = text.rpartition(":")
    try:
        registry, repository = resolve_repository_name(name)
    except (InvalidRepository, IndexError):
        registry = repository = ""
    if not (colon and _REPOSITORY.fullmatch(repository) and _TAG.fullmatch(tag)):
        raise UsageError(f"{text!r} is no image with a tag.", remedy="E.g. vllm/vllm-openai:v0.26.0")
    if registry == INDEX_NAME and "/" not in repository:
        repository = f"library/{repository}"
    return Reference(registry, repository, tag)
