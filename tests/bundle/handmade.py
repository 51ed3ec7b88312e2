"""Bundles made by hand, so that they can hold what no maker would pack; and hosts to install them on."""

from __future__ import annotations

import hashlib
import io
import json
import lzma
import platform
import sys
import tarfile
from dataclasses import replace
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric import ec

from bench.bundle.attest import attestation
from bench.bundle.host.manifest import (
    ATTESTATION,
    FILE_LIST,
    INSTALLER,
    MANIFEST,
    SCRIPT,
    SIGNER,
    Archive,
    ListedFile,
    Manifest,
    Part,
    write_file_list,
)
from bench.bundle.installer import installer
from bench.report.folder_files import canonical_json
from bench.report.keys import Signer, key_id, public_pem

PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
CLIENT = {
    "client/bench/__init__.py": b"",
    "client/bench/__main__.py": b"import sys\nprint('client says', *sys.argv[1:])\n",
    f"client-env/lib/python{PYTHON}/site-packages/streamproof.pth": b"../../../../client\n",
}
"""The least that installs."""


def new_signer() -> Signer:
    private = ec.generate_private_key(ec.SECP256R1())
    return Signer(private, key_id(private.public_key()))


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def file_member(path: str, content: bytes) -> tuple[tarfile.TarInfo, bytes]:
    member = tarfile.TarInfo(path)
    member.size = len(content)
    return member, content


def listing(files: dict[str, bytes]) -> list[ListedFile]:
    return [ListedFile(path, sha256(content), len(content), executable=False) for path, content in files.items()]


def tar_of(listed: bytes, members: list[tuple[tarfile.TarInfo, bytes]]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for member, content in [file_member(FILE_LIST, listed), *members]:
            tar.addfile(member, io.BytesIO(content))
    return packed.getvalue()


def manifest_of(archives: tuple[Archive, ...], **changes: object) -> Manifest:
    made = Manifest(
        target="toy",
        title="A toy",
        version="0.1.0",
        commit="c" * 40,
        machine=platform.machine(),
        python=PYTHON,
        glibc="2.17",
        engine="engine-cpu",
        engine_lock_sha256="a" * 64,
        host_provides={},
        left_out=(),
        archives=archives,
        next_arguments=("repro", "toy"),
    )
    return replace(made, **changes)  # type: ignore[arg-type]  # names of its own fields


def write_signed(folder: Path, made: Manifest, signer: Signer, others: dict[str, bytes]) -> None:
    """The files of a bundle beside its parts, and everything signed."""
    script = Path("bench/bundle/install.sh").read_bytes()
    files = {**others, SCRIPT: script, INSTALLER: installer(), MANIFEST: canonical_json(made.as_json())}
    for name, content in files.items():
        (folder / name).write_bytes(content)
    digests = {name: sha256(content) for name, content in files.items()}
    (folder / ATTESTATION).write_bytes(attestation(digests, made, signer))
    (folder / SIGNER).write_bytes(public_pem(signer.public))


def write_bundle(  # a bundle has as many properties as it has
    folder: Path,
    files: dict[str, bytes] | None = None,
    *,
    signer: Signer | None = None,
    listed: bytes | None = None,
    members: list[tuple[tarfile.TarInfo, bytes]] | None = None,
    compression: str = "xz",
    **changes: object,
) -> Signer:
    """A bundle of two parts, validly signed whatever is in it.

    Args:
        folder: made.
        files: what it holds; `CLIENT` by default.
        signer: a new one by default.
        listed: the list of files in the archive, where it shall not be the right one.
        members: the archive's members after the list, where they shall not be the right ones.
        compression: "xz" or "none".
        changes: of the manifest.
    """
    folder.mkdir(parents=True)
    files = CLIENT if files is None else files
    signer = signer or new_signer()
    listed = write_file_list(listing(files)) if listed is None else listed
    members = [file_member(path, content) for path, content in sorted(files.items())] if members is None else members
    packed = tar_of(listed, members)
    packed = lzma.compress(packed) if compression == "xz" else packed
    pieces = {"toy.tar.001": packed[:200], "toy.tar.002": packed[200:]}
    archive = Archive(
        name="software",
        compression=compression,
        files_sha256=sha256(listed),
        file_count=len(files),
        unpacked_size=sum(map(len, files.values())),
        parts=tuple(Part(name, sha256(piece), len(piece)) for name, piece in pieces.items()),
    )
    write_signed(folder, manifest_of((archive,), **changes), signer, pieces)
    return signer


def edit_json(path: Path, **changes: object) -> None:
    value = json.loads(path.read_bytes())
    path.write_bytes(canonical_json({**value, **changes}))
