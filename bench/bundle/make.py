"""Makes a bundle: collects the files, packs them, writes the manifest, signs."""

from __future__ import annotations

import shutil
import tempfile
import tomllib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias, cast

from bench.bundle import cache_move, left_out, requirements, wheels
from bench.bundle.archive import Packed, pack
from bench.bundle.attest import attestation
from bench.bundle.cache_move import carried_caches
from bench.bundle.checkpoint import checkpoint_files
from bench.bundle.entries import Commit, Entry, committed_files, head, site_files
from bench.bundle.host import layout, manifest
from bench.bundle.hosts import provided
from bench.bundle.image import ImageSource, SavedImage, save_image
from bench.bundle.installer import installer
from bench.bundle.left_out import Saving
from bench.engine.pins import REPOSITORY, load_pins
from bench.errors import StreamproofError, UsageError
from bench.observe.packages import installed_packages, packages_sha256
from bench.report.folder_files import canonical_json, sha256
from bench.report.keys import own_signer, public_pem

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from bench.report.keys import Signer
    from recipes.schema import Recipe

Say: TypeAlias = Callable[[str], None]
"""Takes one line of progress at a time."""

_NAME: Final = "streamproof"
"""Of the distribution that the client is, for whoever asks for its version."""

_HOOK: Final = b"""\
# Python reads .pth files in its own site folders only; this folder is on PYTHONPATH.
import pathlib
import site

site.addsitedir(str(pathlib.Path(__file__).parent))
"""

_SCRIPT: Final = Path(__file__).with_name("install.sh")


@dataclass(frozen=True, kw_only=True)
class Options:
    """How a bundle is made.

    Attributes:
        out: the folder to make.
        part_size: bytes of every part but the last.
        host: Python of the host.
        host_packages: what the host has, see `bench.bundle.hosts`.
        keep: names of left-out rules that shall not apply.
        with_checkpoint: whether the weights are carried too.
        caches: folder of compile caches to carry (`bench.engine.caches`), or of several; None for none.
        overrides: of the recipe, key to value: the run on the host will get them too.
        image: what the engine shall run from, in Docker, instead of packages; None for the packages.
    """

    out: Path
    part_size: int
    host: wheels.Host
    host_packages: Mapping[str, str]
    keep: Sequence[str] = ()
    with_checkpoint: bool = False
    caches: Path | None = None
    overrides: Mapping[str, str] = field(default_factory=dict)
    image: ImageSource | None = None


@dataclass(frozen=True)
class Made:
    """A bundle that is made.

    Attributes:
        folder: where it is.
        manifest: what it holds.
        signer: id of the key that signed it.
        uncommitted: files of the client that are changed or new, and not in it.
        savings: what each rule left out.
        packages: what the caches of an engine on the host are told apart by (`bench.engine.caches.MadeWith.packages`);
            None where the bundle leaves a package of any version to the host.
    """

    folder: Path
    manifest: manifest.Manifest
    signer: str
    uncommitted: tuple[str, ...]
    savings: tuple[Saving, ...]
    packages: str | None


def make_bundle(
    recipe: Recipe, options: Options, *, say: Say, signer: Signer | None = None, repository: Path = REPOSITORY
) -> Made:
    """Makes a bundle of a recipe.

    Args:
        recipe: resolved.
        options: how.
        say: hears every step.
        signer: who signs; this user's own key by default.
        repository: the checkout.

    Raises:
        UsageError: the folder is there already, or an option names something that there is not.
        StreamproofError: it cannot be made. Nothing is left behind.
    """
    check_new(options.out)
    signer = own_signer() if signer is None else signer
    options.out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{options.out.name}.", dir=options.out.parent) as scratch:
        folder = Path(scratch) / "bundle"
        folder.mkdir()
        made = _Maker(recipe, options, say, repository, Path(scratch)).make(folder, signer)
        folder.rename(options.out)
    return made


def check_new(out: Path) -> None:
    """Return if a bundle can be made there.

    Raises:
        UsageError: there is something already.
    """
    if out.exists():
        raise UsageError(f"{out} is there already.", remedy="Remove it, or name another folder with --out.")


class _Maker:
    def __init__(self, recipe: Recipe, options: Options, say: Say, repository: Path, scratch: Path) -> None:
        self._recipe = recipe
        self._options = options
        self._say = say
        self._repository = repository
        self._scratch = scratch
        self._saved: dict[str, Saving] = {}
        self._packed: Packed = {}
        self._glibc = 0

    def make(self, folder: Path, signer: Signer) -> Made:
        # What can be refused is refused first: fetching and packing take minutes.
        commit = head(self._repository)
        client = {entry.path: entry for entry in committed_files(self._repository, commit.id, f"{layout.CLIENT}/")}
        lock = self._lock(client)
        gpu, keep = self._recipe.hardware.gpu, self._options.keep
        client_rules = left_out.rules_for(left_out.CLIENT, gpu=gpu, keep=keep)
        engine_rules = left_out.rules_for(self._recipe.engine.lock, gpu=gpu, keep=keep)
        caches = carried_caches(self._options.caches) if self._options.caches else []
        weights = [entry for entry in self._weights() if entry.path not in client]
        version = self._version(client)
        image = self._image()
        host_has = {} if image else provided(requirements.blocks(lock), self._options.host_packages)
        software = [
            *client.values(),
            *self._client_packages(version, client_rules),
            *([] if image else self._engine(lock, engine_rules, host_has)),
        ]
        archives = [
            *self._archive(cache_move.ARCHIVE, caches, folder, commit),
            *self._archive("software", software, folder, commit),
            *self._archive("image", image.entries if image else [], folder, commit),
            *self._archive("checkpoint", weights, folder, commit),
        ]
        written = manifest.Manifest(
            target=self._recipe.target,
            title=self._recipe.title,
            version=version,
            commit=commit.id,
            machine=wheels.MACHINE,
            python=self._options.host.python,
            glibc=f"2.{self._glibc}",
            engine=self._recipe.engine.lock,
            engine_lock_sha256=sha256(lock.encode()),
            host_provides=host_has,
            left_out=tuple(manifest.LeftOut(s.rule.name, s.rule.why, s.size) for s in self._saved.values()),
            archives=tuple(archives),
            next_arguments=self._next_arguments(),
            image=image.image if image else None,
        )
        self._write(folder, written, signer)
        return Made(
            folder=self._options.out,
            manifest=written,
            signer=signer.key_id,
            uncommitted=commit.uncommitted,
            savings=tuple(self._saved.values()),
            packages=self._packages_on_the_host(host_has),
        )

    def _packages_on_the_host(self, host_has: Mapping[str, str]) -> str | None:
        if self._options.image is not None:
            return self._options.image.digest
        if not all(host_has.values()):
            return None
        return packages_sha256({**host_has, **installed_packages(self._scratch / self._recipe.engine.lock)})

    def _lock(self, client: Mapping[str, Entry]) -> str:
        """The engine's closure as it is committed.

        Raises:
            UsageError: the host's Python is none of its, or the recipe is not one that the client will have.
        """
        name = self._recipe.engine.lock
        pin = load_pins().engine(name)
        if self._options.host.python not in pin.python:
            raise UsageError(
                f"the engine {name} is locked for Python {', '.join(pin.python)}, not {self._options.host.python}.",
                remedy="Name one of them with --python.",
            )
        recipe = f"recipes/{self._recipe.target}.toml"
        for path in (recipe, pin.lock):
            if f"{layout.CLIENT}/{path}" not in client:
                raise UsageError(
                    f"{path} is not in the commit that the bundle is made from, and so not on the host.",
                    remedy="Commit it first.",
                )
        return _text(client[f"{layout.CLIENT}/{pin.lock}"])

    @staticmethod
    def _version(client: Mapping[str, Entry]) -> str:
        return str(tomllib.loads(_text(client[f"{layout.CLIENT}/pyproject.toml"]))["project"]["version"])

    def _client_packages(self, version: str, rules: Sequence[left_out.Rule]) -> list[Entry]:
        inside = f"{layout.CLIENT_ENVIRONMENT}/lib/python{self._options.host.python}/site-packages/"
        # One line, relative to this folder: where the client itself is (see the module site of Python).
        climb = Entry(f"{inside}streamproof.pth", f"../../../../{layout.CLIENT}\n".encode())
        about = f"Metadata-Version: 2.1\nName: {_NAME}\nVersion: {version}\n".encode()
        described = Entry(f"{inside}{_NAME}-{version}.dist-info/METADATA", about)
        lock = wheels.client_requirements(self._repository)
        return [climb, described, *self._packages(left_out.CLIENT, lock, rules, inside)]

    def _engine(self, lock: str, rules: Sequence[left_out.Rule], host_has: Iterable[str]) -> list[Entry]:
        prefix = f"{layout.ENGINE_SITE}/"
        entries = self._packages(self._recipe.engine.lock, lock, rules, prefix, host_has)
        if any(entry.path.endswith(".pth") and entry.path.count("/") == 1 for entry in entries):
            entries.append(Entry(f"{prefix}sitecustomize.py", _HOOK))
        return entries

    def _packages(
        self, name: str, lock: str, rules: Sequence[left_out.Rule], prefix: str, host_has: Iterable[str] = ()
    ) -> list[Entry]:
        """The files of a closure's packages, without what the rules leave out and the host has."""
        locked = requirements.blocks(lock)
        for rule in rules:
            if lost := [package for package in rule.packages if package not in locked]:
                raise StreamproofError(
                    f"the rule {rule.name} leaves out {lost[0]}, which {name} does not have.",
                    remedy=f"Correct {left_out.RULES_FILE.name}.",
                )
            if rule.packages:
                self._note(Saving(rule, (rule.megabytes or 0) * 10**6))
        dropped = {package for rule in rules for package in rule.packages}
        self._say(f"Fetching the packages of {name}")
        site = self._scratch / name
        wheels.fetch(requirements.without(lock, dropped.union(host_has)), site, self._options.host)
        entries, savings = site_files(site, prefix, rules, self._options.host.tag)
        for saving in savings:
            self._note(saving)
        self._glibc = max(self._glibc, wheels.glibc_needed(site))
        return entries

    def _note(self, saving: Saving) -> None:
        """A rule about any site saves in several."""
        name = saving.rule.name
        before = self._saved[name].size if name in self._saved else 0
        self._saved[name] = Saving(saving.rule, before + saving.size)

    def _image(self) -> SavedImage | None:
        source = self._options.image
        if source is None:
            return None
        self._say(f"Taking {source.reference} out of Docker")
        return save_image(source, self._scratch / layout.IMAGE)

    def _next_arguments(self) -> tuple[str, ...]:
        """Of the command that runs the target on the host as it would run here."""
        arguments = ["repro", self._recipe.target]
        if source := self._options.image:
            arguments += ["--engine", "docker", *([] if source.own else ["--image", source.reference])]
        for key, value in self._options.overrides.items():
            arguments += ["--set", f"{key}={value}"]
        return tuple(arguments)

    def _weights(self) -> list[Entry]:
        if not self._options.with_checkpoint:
            return []
        return checkpoint_files(self._recipe.checkpoint, f"{layout.CLIENT}/")

    def _archive(self, name: str, entries: list[Entry], folder: Path, commit: Commit) -> list[manifest.Archive]:
        """Packs an archive, or none where there is nothing for it."""
        if not entries:
            return []
        self._say(f"Packing the {name}: {len(entries):,} files")
        compress = name != "checkpoint"  # weights do not get smaller
        archive = pack(
            name,
            entries,
            folder,
            file_name=f"{self._recipe.target}.{name}.tar{'.xz' if compress else ''}",
            compress=compress,
            part_size=self._options.part_size,
            time=commit.time,
            # An engine writes to its caches: no file of theirs may be a link to another one's.
            packed=None if name == cache_move.ARCHIVE else self._packed,
        )
        return [archive]

    def _write(self, folder: Path, written: manifest.Manifest, signer: Signer) -> None:
        shutil.copyfile(_SCRIPT, folder / manifest.SCRIPT)
        (folder / manifest.INSTALLER).write_bytes(installer())
        (folder / manifest.MANIFEST).write_bytes(canonical_json(written.as_json()))
        digests = {part.name: part.sha256 for archive in written.archives for part in archive.parts}
        for name in (manifest.SCRIPT, manifest.INSTALLER, manifest.MANIFEST):
            digests[name] = sha256((folder / name).read_bytes())
        (folder / manifest.ATTESTATION).write_bytes(attestation(digests, written, signer))
        (folder / manifest.SIGNER).write_bytes(public_pem(signer.public))


def _text(entry: Entry) -> str:
    """A committed file's text."""
    return cast("bytes", entry.source).decode()
