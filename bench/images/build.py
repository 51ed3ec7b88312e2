"""Images of ours: found by their definition, or built."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from docker.errors import DockerException, ImageNotFound
from requests.exceptions import RequestException

from bench.engine.docker_errors import explained as docker_explained
from bench.engine.docker_host import connect, docker_address
from bench.engine.environment import cache_root
from bench.engine.pins import REPOSITORY
from bench.errors import StreamproofError
from bench.images import labels
from bench.images.build_errors import explained
from bench.images.context import Packages, stage
from bench.images.definition import TOOLS_LOCK, image_definition
from bench.images.docker_cli import Build, Builder, find_builder, run_build
from bench.images.revision import Revision, revision_of
from bench.images.wheels import Place, WheelStore, extract_uv

if TYPE_CHECKING:
    import docker
    from docker.models.images import Image

    from bench.engine.install import Say
    from bench.images.base import Base
    from bench.images.definition import ImageDefinition

_GIB: Final = 1 << 30


@dataclass(frozen=True, kw_only=True)
class BuiltImage:
    """An image that is there.

    Attributes:
        id: "sha256:...", the digest of its configuration.
        reference: its tag, "streamproof/cpu:0123456789ab".
        target: name in docker/pins.toml.
        definition_sha256: of what it was built from.
        labels: as it carries them: OCI's (`org.opencontainers.image.*`) and `io.streamproof.*`.
        base_digest: of the image that it was built on.
        repo_digests: "registry/repository@sha256:..." where it was pushed or pulled; empty otherwise.
        layers: digests of its uncompressed layers, lowest first.
        size: bytes.
        cached: it was there already; nothing was built.
    """

    id: str
    reference: str
    target: str
    definition_sha256: str
    labels: Mapping[str, str]
    base_digest: str
    repo_digests: tuple[str, ...]
    layers: tuple[str, ...]
    size: int
    cached: bool


def ensure_image(  # noqa: PLR0913  the options of a build
    target: str,
    *,
    say: Say,
    client: docker.DockerClient | None = None,
    base: Base | None = None,
    caches: Path | None = None,
    terminal: bool = False,
    repository: Path = REPOSITORY,
) -> BuiltImage:
    """The image of a target as it is defined now; it is built if it is not there.

    Args:
        target: name in docker/pins.toml; of a recipe, `bench.images.definition.image_target` tells it.
        say: takes a line for each step of a build; hears nothing when there is nothing to do.
        client: of the Docker Engine that `DOCKER_HOST` and Docker's context name; None connects to it.
        base: takes the place of the pinned base (`bench.images.base.parse_base`).
        caches: folder of compile caches to bake in.
        terminal: standard error is a terminal that nobody else draws on: pip may draw its own progress there.
        repository: the checkout.

    Raises:
        UsageError: no such target, or a base without digest.
        StreamproofError: no Docker Engine, no BuildKit, too little disk, no network to fetch what is missing, or the
            build failed; its own words say why. Nothing is left behind.
    """
    definition = image_definition(target, base=base, caches=caches, repository=repository)
    with _connected(client) as engine:
        found = find_image(engine, definition)
        if found is not None:
            return found
        with prepared(definition, engine, caches=caches, say=say, terminal=terminal, repository=repository) as build:
            return build.run(definition.tag)


def find_image(client: docker.DockerClient, definition: ImageDefinition) -> BuiltImage | None:
    """The image of a definition, if it is there. One that only has its name is not it.

    Raises:
        StreamproofError: Docker does not say.
    """
    try:
        image = client.images.get(definition.tag)
    except ImageNotFound:
        return None
    except DockerException as error:
        raise docker_explained(error, f"look at the image {definition.tag}") from error
    found = _described(image, definition, cached=True)
    return found if found.labels.get(labels.DEFINITION) == definition.sha256 else None


@dataclass(frozen=True, kw_only=True)
class Prepared:
    """A build whose context is staged.

    Attributes:
        definition: of the image.
        revision: of its files.
        client: of the Docker Engine.
        builder: the docker command.
        context: the staged folder.
        labels: that the image gets.
        say: takes progress.
        attest: attach provenance and a bill of materials, where they can be kept.
    """

    definition: ImageDefinition
    revision: Revision
    client: docker.DockerClient
    builder: Builder
    context: Path
    labels: Mapping[str, str]
    say: Say
    attest: bool

    @property
    def arguments(self) -> dict[str, str]:
        """Of the Dockerfile: those that the stage declares."""
        carries = sorted(self.definition.carries.items())
        arguments = {
            "BASE": self.definition.base.reference,
            "CARRIES": " ".join(f"{name}=={version}" for name, version in carries),
            "SOURCE_DATE_EPOCH": str(self.revision.time),
        }
        if self.definition.lock is not None:
            arguments["PYTHON"] = self.definition.base.python or ""
        return arguments

    def run(self, tag: str, *, fresh: bool = False) -> BuiltImage:
        """Build the image.

        Args:
            tag: that it gets.
            fresh: take nothing from the builder's cache.

        Raises:
            StreamproofError: the build failed.
        """
        definition = self.definition
        with tempfile.TemporaryDirectory() as scratch:
            build = Build(
                context=self.context,
                stage=definition.stage,
                tag=tag,
                arguments=self.arguments,
                labels=self.labels,
                address=docker_address(os.environ),
                id_file=Path(scratch) / "id",
                fresh=fresh,
                attest=self.attest and _keeps_attestations(self.client.info()),
            )
            self.say(f"Building {tag} on {definition.base.reference}")
            if said := run_build(self.builder, build, say=self.say):
                raise explained(said, definition)
        try:
            return _described(self.client.images.get(tag), definition, cached=False)
        except DockerException as error:
            raise docker_explained(error, f"look at the image {tag}") from error


@contextmanager
def prepared(  # noqa: PLR0913  the options of a build
    definition: ImageDefinition,
    client: docker.DockerClient,
    *,
    caches: Path | None,
    say: Say,
    terminal: bool,
    attest: bool = False,
    repository: Path = REPOSITORY,
) -> Iterator[Prepared]:
    """Everything that a build needs, fetched and staged; the context is removed afterwards.

    Args:
        definition: of the image.
        client: of the Docker Engine.
        caches: folder of compile caches to bake in.
        say: takes progress.
        terminal: see `ensure_image`.
        attest: see `Prepared`. The program that makes the bill of materials is fetched from Docker's registry.
        repository: the checkout.

    Raises:
        StreamproofError: see `ensure_image`.
    """
    builder = find_builder()
    revision = revision_of(tuple(definition.files), repository)
    cache = cache_root()
    (cache / "builds").mkdir(parents=True, exist_ok=True)
    _check_disk(definition, client.info(), cache)
    # One name, so that the builder finds what it has of it; and one build at a time works in it.
    with (cache / "builds" / f"{definition.target}.lock").open("w") as lock:
        _lock(lock.fileno(), definition.target, say)
        context = cache / "builds" / definition.target
        shutil.rmtree(context, ignore_errors=True)
        try:
            project = tomllib.loads((repository / "pyproject.toml").read_text(encoding="utf-8"))["project"]
            if definition.lock is not None:
                _check_base(definition, client)
            packages = _packages(definition, WheelStore(cache / "wheels"), repository, say=say, terminal=terminal)
            version = str(project["version"])
            stage(definition, context, repository=repository, packages=packages, caches=caches, version=version)
            source = project.get("urls", {}).get("Repository")
            yield Prepared(
                definition=definition,
                revision=revision,
                client=client,
                builder=builder,
                context=context,
                labels=labels.labels_of(definition, revision, version=version, source=source),
                say=say,
                attest=attest,
            )
        finally:
            shutil.rmtree(context, ignore_errors=True)


@contextmanager
def _connected(client: docker.DockerClient | None) -> Iterator[docker.DockerClient]:
    if client is not None:
        yield client
        return
    own = connect(otherwise="An image's definition and hashes can be seen without Docker: just build --list.")
    try:
        yield own
    finally:
        own.close()


def _packages(
    definition: ImageDefinition, store: WheelStore, repository: Path, *, say: Say, terminal: bool
) -> Packages | None:
    base = definition.base
    if definition.lock is None:
        return None
    if base.python is None or base.glibc is None:
        raise StreamproofError(
            f"it is not known which Python the base {base.reference} has, and so not which wheels it needs",
            remedy="Say it with --base-python and --base-glibc, or as `python` and `glibc` in docker/pins.toml.",
        )
    place = Place(python=base.python, glibc=base.glibc)
    lock = (repository / definition.lock).read_text(encoding="utf-8")
    tools = (repository / TOOLS_LOCK).read_text(encoding="utf-8")
    return Packages(
        lock=lock,
        wheels=store.collect(lock, place, name=definition.lock, say=say, terminal=terminal),
        uv=extract_uv(store, tools, place, say=say, terminal=terminal),
    )


def _check_base(definition: ImageDefinition, client: docker.DockerClient) -> None:
    """Refuse before gigabytes of packages are fetched. The builder itself pulls the base, and asks again."""
    reference = definition.base.reference
    try:
        client.images.get(reference)
    except ImageNotFound:
        try:
            client.images.get_registry_data(reference)
        except (DockerException, RequestException) as error:
            raise explained([f"failed to solve: {reference}: {error}"], definition) from error


def _check_disk(definition: ImageDefinition, info: Mapping[str, Any], cache: Path) -> None:
    """Refuse before anything is fetched. The daemon's folder can be seen where it is this host's and we are root."""
    needs = {cache: definition.build_gib - definition.base.gib}
    needs[Path(str(info.get("DockerRootDir", cache)))] = definition.build_gib
    for folder, gib in needs.items():
        existing = next(place for place in (folder, *folder.parents) if place.exists())
        free = shutil.disk_usage(existing).free / _GIB
        if free < gib:
            raise StreamproofError(
                f"building {definition.target} needs {gib:g} GiB; {free:.1f} GiB are free at {existing}",
                remedy="Make room there (docker system df shows what Docker keeps, docker builder prune what builds "
                "left), or set XDG_CACHE_HOME or Docker's data-root to a larger disk.",
            )


def _lock(descriptor: int, target: str, say: Say) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        say(f"Another process is building {target}; waiting for it")
        fcntl.flock(descriptor, fcntl.LOCK_EX)


def _keeps_attestations(info: Mapping[str, Any]) -> bool:
    """Only the containerd image store keeps an index, which provenance and bill of materials are listed in."""
    return any("io.containerd.snapshotter" in str(pair) for pair in info.get("DriverStatus") or [])


def _described(image: Image, definition: ImageDefinition, *, cached: bool) -> BuiltImage:
    attributes = image.attrs
    return BuiltImage(
        id=str(image.id),
        reference=definition.tag,
        target=definition.target,
        definition_sha256=definition.sha256,
        labels=dict((attributes.get("Config") or {}).get("Labels") or {}),
        base_digest=definition.base.digest,
        repo_digests=tuple(attributes.get("RepoDigests") or ()),
        layers=tuple((attributes.get("RootFS") or {}).get("Layers") or ()),
        size=int(attributes.get("Size") or 0),
        cached=cached,
    )
