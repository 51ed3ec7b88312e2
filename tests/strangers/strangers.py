"""Verifiers that we did not write, each as a stranger would call it on a report folder."""

from __future__ import annotations

import base64
import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

import pytest

from bench.report import folder_files as files
from bench.report.keys import trusted_keys
from bench.report.verify import verify

HERE: Final = Path(__file__).parent
_LISTS: Final = ("package.json", "package-lock.json")


@dataclass(frozen=True)
class Said:
    """What a verifier made of a folder."""

    accepted: bool
    text: str


Verifier: TypeAlias = Callable[[Path, Path], Said]
"""Takes a report's folder and the signer's key as the stranger got it."""


def ours(folder: Path, key: Path) -> Said:
    """`just verify DIR --key KEY`, without printing."""
    found = verify(folder, trusted_keys(allow_list=None, extra=[key], own_folder=Path("/nobody")))
    return Said(found.verified, "; ".join(f"{each.file} {each.reason}" for each in found.findings))


def openssl(folder: Path, key: Path) -> Said:
    """Signature of the attestation, and the digests that it names; only the base64 is taken apart in Python."""
    envelope = json.loads((folder / files.ATTESTATION).read_bytes())["dsseEnvelope"]
    payload, signature = (base64.b64decode(text) for text in (envelope["payload"], envelope["signatures"][0]["sig"]))
    kind = envelope["payloadType"]
    with tempfile.TemporaryDirectory() as scratch:
        message, sig = Path(scratch) / "message", Path(scratch) / "sig"
        message.write_bytes(f"DSSEv1 {len(kind)} {kind} {len(payload)} ".encode() + payload)
        sig.write_bytes(signature)
        # Both keys: the one that the stranger trusts, and the one in the folder, as the page's own commands use it.
        for public in (key, folder / files.SIGNER):
            said = _run(["openssl", "dgst", "-sha256", "-verify", str(public), "-signature", str(sig), str(message)])
            if not said.accepted:
                return said
    for subject in json.loads(payload)["subject"]:
        said = _run(["openssl", "dgst", "-sha256", "-r", str(folder / subject["name"])])
        if said.text.split()[0] != subject["digest"]["sha256"]:
            return Said(accepted=False, text=f"{subject['name']}: changed")
    return Said(accepted=True, text="")


def sigstore_js(folder: Path, key: Path) -> Said:
    """npm's @sigstore/verify, with the stranger's key; and the folder's own, which the page's commands use."""
    for public in (key, folder / files.SIGNER):
        said = _node(folder, "key", str(public))
        if not said.accepted:
            return said
    return said


def sigstore_js_keyless(folder: Path, instance: Path, identity: str, issuer: str) -> Said:
    """The same, for a report that was signed keyless."""
    return _node(folder, "keyless", str(instance), identity, issuer)


def model_signing(folder: Path, key: Path) -> Said:
    """OpenSSF's command on the whole folder."""
    return _model_signing(folder, "key", "--public_key", str(key))


def model_signing_keyless(folder: Path, instance: Path, identity: str, issuer: str) -> Said:
    """The same, for a report that was signed keyless."""
    named = ["--identity", identity, "--identity_provider", issuer]
    return _model_signing(folder, "sigstore", "--trust_config", str(instance), *named)


def node_modules() -> Path:
    """npm's packages of `package-lock.json`, by hash, in the user's cache; installed on first use.

    Without a network the test is skipped; where CI is "true" it fails.
    """
    content = b"".join((HERE / name).read_bytes() for name in _LISTS)
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "streamproof" / "strangers"
    place = cache / hashlib.sha256(content).hexdigest()[:16]
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # of two test runs, one installs
        if (place / "whole").is_file():
            return place
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        for name in _LISTS:
            shutil.copy(HERE / name, place)
        command = [str(_tool("npm")), "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefix", str(place)]
        said = _run(command)
        if not said.accepted:
            why = f"npm's packages cannot be installed; the network? {said.text[-600:]}"
            if os.environ.get("CI") == "true":
                pytest.fail(why)
            pytest.skip(why)
        (place / "whole").touch()
    return place


def _node(folder: Path, *arguments: str) -> Said:
    command = [str(_tool("node")), str(HERE / "verify.mjs"), str(folder), *arguments]
    return _run(command, STRANGERS_MODULES=str(node_modules()))


def _model_signing(folder: Path, *arguments: str) -> Said:
    signature = str(folder / files.MODEL_SIGNATURE)
    command = [sys.executable, "-m", "model_signing", "verify", *arguments, "--signature", signature, str(folder)]
    return _run(command)


def _tool(name: str) -> Path:
    """A program that a development dependency brings: beside this interpreter."""
    return Path(sys.executable).parent / name


def _run(command: list[str], **more: str) -> Said:
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", "")))
    environment = os.environ | {"PATH": path} | more
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    return Said(done.returncode == 0, done.stdout + done.stderr)
