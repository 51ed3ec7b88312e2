"""Asks a registry which image a tag means: index, linux/amd64 manifest and that image's own configuration.

Formats: the OCI image specification 1.1 (https://github.com/opencontainers/image-spec) and Docker's own, schema 2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Self

from bench.images.registry_auth import Credentials, stored_credentials
from bench.images.registry_http import DIGEST, NotThereError, RegistryConnection, digest_of, json_of, nonsense

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import TracebackType

    from bench.images.registry_reference import Reference

INDEXES: Final = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
)
MANIFESTS: Final = (
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)


@dataclass(frozen=True)
class Found:
    """What a tag means now.

    Attributes:
        index: digest of what the tag names: a multi-platform index, or the manifest itself where it is no index.
        linux_amd64: digest of the manifest for linux/amd64; None where the index has none.
        config: that image's configuration (OCI image specification, "config"); empty without a manifest.
    """

    index: str
    linux_amd64: str | None
    config: Mapping[str, Any]

    @property
    def platform(self) -> str:
        """What the image says that it runs on: "linux/amd64"."""
        return f"{self.config.get('os')}/{self.config.get('architecture')}"

    @property
    def labels(self) -> dict[str, str]:
        """The image's labels."""
        return dict(self._settings().get("Labels") or {})

    @property
    def env(self) -> dict[str, str]:
        """The environment variables that the image sets."""
        pairs = (str(entry).partition("=") for entry in self._settings().get("Env") or ())
        return {name: value for name, _, value in pairs}

    def _settings(self) -> Mapping[str, Any]:
        settings = self.config.get("config")
        return settings if isinstance(settings, dict) else {}


class Registries:
    """All registries that are asked in one go. Nothing is asked twice.

    Args:
        credentials: who we are to a registry; by default what `docker login` stored.
    """

    def __init__(self, credentials: Callable[[str], Credentials | None] = stored_credentials) -> None:
        self._connection = RegistryConnection(credentials, ", ".join((*INDEXES, *MANIFESTS)))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._connection.close()

    def resolve(self, reference: Reference) -> Found:
        """Which image a tag means now.

        Raises:
            NotThereError: there is no such repository or tag.
            NotAskedError: the registry cannot be reached, wants another login, limits us, or answers nonsense.
        """
        answer = self._connection.get(reference, "manifests", reference.tag)
        top = digest_of(answer.body)
        if answer.media_type in MANIFESTS:
            return Found(top, top, self._config(reference, json_of(answer, reference)))
        if answer.media_type not in INDEXES:
            raise nonsense(reference, f"with {answer.media_type or 'no media type'} for a manifest")
        chosen = _linux_amd64(json_of(answer, reference), reference)
        if chosen is None:
            return Found(top, None, {})
        manifest = self._connection.get(reference, "manifests", chosen)
        return Found(top, chosen, self._config(reference, json_of(manifest, reference)))

    def has(self, reference: Reference, digest: str) -> bool:
        """Whether the repository still has a manifest of this digest.

        Raises:
            NotAskedError: see `resolve`.
        """
        try:
            self._connection.get(reference, "manifests", digest)
        except NotThereError:
            return False
        return True

    def _config(self, reference: Reference, manifest: Mapping[str, Any]) -> dict[str, Any]:
        digest = _field(manifest, "config", "digest")
        if digest is None or not DIGEST.fullmatch(digest):
            raise nonsense(reference, "a manifest without a configuration")
        return json_of(self._connection.get(reference, "blobs", digest), reference)


def _linux_amd64(index: Mapping[str, Any], reference: Reference) -> str | None:
    entries = index.get("manifests")
    for entry in entries if isinstance(entries, list) else ():
        if _field(entry, "platform", "os") == "linux" and _field(entry, "platform", "architecture") == "amd64":
            digest = _field(entry, "digest")
            if digest is None or not DIGEST.fullmatch(digest):
                raise nonsense(reference, "an index with an entry that has no digest")
            return digest
    return None


def _field(value: object, *keys: str) -> str | None:
    """A text deep in JSON; None where there is none."""
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, str) else None
