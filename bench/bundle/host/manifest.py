"""What a bundle holds: the manifest, written where the bundle is made and read where it is installed.

`manifest.json` is small and for people too. The list of single files (18,000 for an engine) travels as the first
member of each archive; the manifest pins it by its SHA-256, so that one signature covers every file.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass
from typing import Any, Final

SCHEMA: Final = 1

MANIFEST: Final = "manifest.json"
ATTESTATION: Final = "manifest.sigstore.json"
SIGNER: Final = "signer.pub.pem"
SCRIPT: Final = "install.sh"
INSTALLER: Final = "install.pyz"
FILE_LIST: Final = "FILES"
"""Name of the first member of every archive."""

PREDICATE_TYPE: Final = "https://pypi.org/project/streamproof/#bundle-attestation-v1"
"""Names what the signature says and its major version. It is a name, not an address to fetch."""

_SHA256: Final = re.compile(r"[0-9a-f]{64}")
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_REFERENCE: Final = re.compile(r"[a-z0-9][a-z0-9._/-]{0,127}:[A-Za-z0-9_][A-Za-z0-9._-]{0,127}")


class BadManifestError(ValueError):
    """Not a manifest, or not a list of files; the message says why."""


@dataclass(frozen=True)
class Part:
    """One file beside the manifest: a piece of an archive.

    Attributes:
        name: its file name.
        sha256: in hex.
        size: in bytes.
    """

    name: str
    sha256: str
    size: int


@dataclass(frozen=True)
class Archive:
    """A tar file in parts.

    Attributes:
        name: for people.
        compression: "xz" or "none".
        files_sha256: of the member `FILE_LIST`.
        file_count: entries of that list.
        unpacked_size: bytes of all files, duplicates counted each time.
        parts: in order.
    """

    name: str
    compression: str
    files_sha256: str
    file_count: int
    unpacked_size: int
    parts: tuple[Part, ...]


@dataclass(frozen=True)
class LeftOut:
    """Something that was not packed.

    Attributes:
        name: of the rule.
        why: its reason.
        size: bytes that it would have taken unpacked.
    """

    name: str
    why: str
    size: int


@dataclass(frozen=True)
class Image:
    """A container image, in the archive of the same name.

    Attributes:
        reference: what it is called once it is loaded: "streamproof/cpu:0123456789ab".
        id: digest of its configuration: "sha256:...".
        layers: digests of its uncompressed layers, lowest first.
    """

    reference: str
    id: str
    layers: tuple[str, ...]


@dataclass(frozen=True)
class Manifest:
    """See the module.

    Attributes:
        target: the recipe's target.
        title: the recipe's title.
        version: of streamproof.
        commit: of streamproof's repository.
        machine: processor architecture, as `platform.machine()` says it.
        python: major and minor version, "3.12".
        glibc: the least version of the GNU C library that the packed programs need, "2.34".
        engine: name of the engine's lock.
        engine_lock_sha256: of the lock file.
        host_provides: packages that the host must have, with the version that it must be ("" where any is right).
        left_out: what was not packed.
        archives: what was.
        next_arguments: arguments of the command that runs the target once it is installed.
        image: what the engine runs from, in Docker; None where the engine's packages are carried.
    """

    target: str
    title: str
    version: str
    commit: str
    machine: str
    python: str
    glibc: str
    engine: str
    engine_lock_sha256: str
    host_provides: dict[str, str]
    left_out: tuple[LeftOut, ...]
    archives: tuple[Archive, ...]
    next_arguments: tuple[str, ...]
    image: Image | None = None

    def as_json(self) -> dict[str, Any]:
        """For `parse`."""
        return {"schema": SCHEMA, **asdict(self)}


@dataclass(frozen=True)
class ListedFile:
    """One line of `FILE_LIST`.

    Attributes:
        path: within the installed folder; relative, "/" between its steps.
        sha256: in hex.
        size: in bytes.
        executable: whether its owner may run it.
    """

    path: str
    sha256: str
    size: int
    executable: bool


def parse(raw: bytes) -> Manifest:
    """Reads `manifest.json`.

    Raises:
        BadManifestError: with the reason.
    """
    try:
        value = json.loads(raw)
    except ValueError as error:
        raise BadManifestError(f"it is not JSON ({error})") from error
    if not isinstance(value, dict) or value.get("schema") != SCHEMA:
        found = value.get("schema") if isinstance(value, dict) else None
        raise BadManifestError(f"it is of schema {found!r}, and this installer reads schema {SCHEMA}")
    try:
        return Manifest(
            **{key: _text(value[key]) for key in _TEXTS},
            host_provides={_text(name): _text(version) for name, version in value["host_provides"].items()},
            left_out=tuple(LeftOut(_text(e["name"]), _text(e["why"]), _size(e["size"])) for e in value["left_out"]),
            archives=tuple(_archive(entry) for entry in value["archives"]),
            next_arguments=tuple(_text(argument) for argument in value["next_arguments"]),
            image=None if value["image"] is None else _image(value["image"]),
        )
    except KeyError as error:
        raise BadManifestError(f"{error.args[0]} is missing") from error
    except (AttributeError, TypeError) as error:
        raise BadManifestError(f"it is not of the right shape ({error})") from error


_TEXTS: Final = (
    *("target", "title", "version", "commit", "machine", "python", "glibc"),
    *("engine", "engine_lock_sha256"),
)


def write_file_list(files: list[ListedFile]) -> bytes:
    """The member `FILE_LIST`: a line a file, sorted by path."""
    lines = [
        f"{file.sha256} {'x' if file.executable else '-'} {file.size} {file.path}\n"
        for file in sorted(files, key=lambda file: file.path)
    ]
    return "".join(lines).encode()


def parse_file_list(raw: bytes) -> dict[str, ListedFile]:
    """Reads what `write_file_list` writes; by path.

    Raises:
        BadManifestError: a line is not of the right form, a path leads out of the folder or stands in it twice.
    """
    found: dict[str, ListedFile] = {}
    try:
        lines = raw.decode("utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise BadManifestError("the list of files is not UTF-8") from error
    if lines.pop():
        raise BadManifestError("the list of files is cut short")
    for line in lines:
        fields = line.split(" ", 3)
        if len(fields) != 4 or not _SHA256.fullmatch(fields[0]) or fields[1] not in "x-" or not fields[2].isdigit():
            raise BadManifestError(f"the list of files has a line of another form: {line[:120]!r}")
        path = fields[3]
        if not is_inside(path):
            raise BadManifestError(f"the list of files names one outside the folder: {path[:120]!r}")
        if path in found:
            raise BadManifestError(f"the list of files names {path[:120]!r} twice")
        found[path] = ListedFile(path, fields[0], int(fields[2]), fields[1] == "x")
    return found


def is_inside(path: str) -> bool:
    """Whether a path in an archive stays within the folder that it is unpacked to, in the one form that we write."""
    steps = path.split("/")
    return all(step not in ("", ".", "..") for step in steps) and path.isprintable() and "\\" not in path


def _archive(value: dict[str, Any]) -> Archive:
    if value["compression"] not in ("xz", "none"):
        raise BadManifestError(f"an archive is compressed with {value['compression']!r}")
    parts = tuple(Part(_name(p["name"]), _sha256(p["sha256"]), _size(p["size"])) for p in value["parts"])
    return Archive(
        name=_text(value["name"]),
        compression=value["compression"],
        files_sha256=_sha256(value["files_sha256"]),
        file_count=_size(value["file_count"]),
        unpacked_size=_size(value["unpacked_size"]),
        parts=parts,
    )


def _image(value: dict[str, Any]) -> Image:
    reference = _text(value["reference"])
    if not _REFERENCE.fullmatch(reference):
        raise BadManifestError(f"{reference!r:.80} is no name of an image")
    return Image(reference, _digest(value["id"]), tuple(_digest(layer) for layer in value["layers"]))


def _digest(value: object) -> str:
    kind, _, digits = _text(value).partition(":")
    if kind != "sha256":
        raise BadManifestError(f"{value!r:.80} is no digest")
    return f"{kind}:{_sha256(digits)}"


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise BadManifestError(f"{value!r:.80} is no text")
    return value


def _size(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise BadManifestError(f"{value!r:.80} is no size")
    return value


def _sha256(value: object) -> str:
    if not isinstance(value, str) or not _SHA256.fullmatch(value):
        raise BadManifestError(f"{value!r:.80} is no SHA-256")
    return value


def _name(value: object) -> str:
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        raise BadManifestError(f"{value!r:.80} is no name of a part")
    return value
