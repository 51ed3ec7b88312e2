"""The installer on bundles made by hand: what it refuses, in which words, and that nothing is left behind then."""

from __future__ import annotations

import hashlib
import importlib.metadata
import io
import json
import os
import platform
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bench.bundle.host import finish
from bench.bundle.host.install import main
from bench.bundle.host.manifest import ATTESTATION, MANIFEST, SIGNER, Archive, Part, write_file_list
from bench.report.keys import public_pem
from tests.bundle.handmade import (
    CLIENT,
    PYTHON,
    edit_json,
    file_member,
    listing,
    manifest_of,
    new_signer,
    sha256,
    write_bundle,
    write_signed,
)


def install(bundle: Path, *arguments: str) -> int:
    to = bundle.parent / "installed"
    return main(["--to", str(to), "--no-compile", *arguments], bundle=bundle)


def refused(bundle: Path, capsys: pytest.CaptureFixture[str], *words: str, arguments: tuple[str, ...] = ()) -> str:
    before = sorted(bundle.parent.iterdir())
    capsys.readouterr()
    assert install(bundle, *arguments) == 1
    said = capsys.readouterr().err
    assert all(word in said for word in words), said
    assert "\n  do: " in said
    assert sorted(bundle.parent.iterdir()) == before, "something was left behind"
    return said


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    write_bundle(tmp_path / "bundle")
    return tmp_path / "bundle"


def test_a_sound_bundle_is_installed_and_runs(bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert install(bundle) == 0
    root = bundle.parent / "installed"
    assert f"next: {root}/streamproof repro toy" in capsys.readouterr().out
    answer = subprocess.run([str(root / "streamproof"), "a", "b"], check=True, capture_output=True, text=True)
    assert answer.stdout == "client says a b\n"
    known = json.loads((root / "bundle.json").read_text())
    assert known["python"] == sys.executable
    assert known["engine"] == "engine-cpu"


def test_a_carried_checkpoint_is_found_without_a_hub(tmp_path: Path) -> None:
    ask = b"import os\nprint(os.environ.get('HF_HUB_CACHE'), os.environ.get('HF_HUB_OFFLINE'))\n"
    files = {**CLIENT, "client/bench/__main__.py": ask}
    for name, more in (("without", {}), ("with", {"hub/models--x/snapshots/y/config.json": b"{}"})):
        write_bundle(tmp_path / name / "bundle", {**files, **more})
        assert install(tmp_path / name / "bundle") == 0
    said = [
        subprocess.run(["./streamproof"], check=True, capture_output=True, text=True, cwd=tmp_path / name / "installed")
        for name in ("without", "with")
    ]
    assert [answer.stdout.split() for answer in said] == [
        ["None", "None"],
        [str(tmp_path / "with" / "installed" / "hub"), "1"],
    ]


def test_the_client_sees_its_own_packages_only(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert install(bundle) == 0
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    python = bundle.parent / "installed" / "client-env" / "bin" / "python"
    ask = "import sys, importlib.util as u; print(sys.prefix, u.find_spec('pytest'), u.find_spec('bench') is not None)"
    answer = subprocess.run([str(python), "-I", "-c", ask], check=True, capture_output=True, text=True)
    assert answer.stdout.split() == [str(bundle.parent / "installed" / "client-env"), "None", "True"]


def test_an_uncompressed_archive_is_installed(tmp_path: Path) -> None:
    write_bundle(tmp_path / "bundle", compression="none")
    assert install(tmp_path / "bundle") == 0
    for path, content in CLIENT.items():
        assert (tmp_path / "installed" / path).read_bytes() == content


def test_bytecode_is_compiled_unless_told_not_to(bundle: Path) -> None:
    assert main(["--to", str(bundle.parent / "one")], bundle=bundle) == 0
    assert list((bundle.parent / "one" / "client").rglob("*.pyc"))
    assert install(bundle) == 0
    compiled = [path.parent.parent.name for path in (bundle.parent / "installed").rglob("*.pyc")]
    assert "site-packages" not in compiled


def test_check_writes_nothing(bundle: Path) -> None:
    before = sorted(bundle.parent.iterdir())
    assert install(bundle, "--check") == 0
    assert sorted(bundle.parent.iterdir()) == before


def test_the_signer_is_told_or_demanded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    signer = write_bundle(tmp_path / "bundle")
    assert install(tmp_path / "bundle", "--check") == 0
    assert f"signed by {signer.key_id}: compare" in capsys.readouterr().out
    assert install(tmp_path / "bundle", "--check", "--signer", signer.key_id) == 0
    assert "compare" not in capsys.readouterr().out
    other = new_signer().key_id
    refused(tmp_path / "bundle", capsys, f"signed by {signer.key_id}, not by {other}", arguments=("--signer", other))


def test_a_corrupted_part(bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    part = bundle / "toy.tar.002"
    content = bytearray(part.read_bytes())
    content[10] ^= 1
    part.write_bytes(content)
    refused(bundle, capsys, "toy.tar.002 is damaged")


def test_a_part_that_was_cut_short(bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    part = bundle / "toy.tar.002"
    part.write_bytes(part.read_bytes()[:-1])
    refused(bundle, capsys, "toy.tar.002 has", "cut short")


def test_a_manifest_that_nobody_signed(
    bundle: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.bundle.handmade.MANIFEST", "other.json")
    shutil.rmtree(bundle)
    write_bundle(bundle)
    refused(bundle, capsys, "manifest.json is not among the signed files")


def test_a_missing_part(bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (bundle / "toy.tar.002").unlink()
    (bundle / "toy.tar.001").write_bytes(b"damaged too: what is missing comes first, since one more copy mends both")
    refused(bundle, capsys, "toy.tar.002 is missing", "Copy every file")
    (bundle / "toy.tar.001").unlink()
    refused(bundle, capsys, "toy.tar.001, toy.tar.002 are missing")
    (bundle / MANIFEST).unlink()
    refused(bundle, capsys, f"{MANIFEST} is missing")


@pytest.mark.parametrize("name", [MANIFEST, "install.sh", "install.pyz"])
def test_every_other_file_is_covered_too(bundle: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with (bundle / name).open("ab") as file:
        file.write(b"\n")
    refused(bundle, capsys, f"{name} is damaged or was edited")


def test_an_edited_manifest(bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    edit_json(bundle / MANIFEST, python="3.99")
    refused(bundle, capsys, f"{MANIFEST} is damaged or was edited")


def test_a_swapped_key(bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (bundle / SIGNER).write_bytes(public_pem(new_signer().public))
    refused(bundle, capsys, f"{SIGNER} holds key", "was exchanged")


def test_a_swapped_key_in_the_attestation_too(bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = new_signer()
    (bundle / SIGNER).write_bytes(public_pem(other.public))
    value = json.loads((bundle / ATTESTATION).read_bytes())
    value["dsseEnvelope"]["signatures"][0]["keyid"] = other.key_id
    (bundle / ATTESTATION).write_text(json.dumps(value))
    refused(bundle, capsys, "the signature", "was edited")


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"dsseEnvelope": {"signatures": []}}'])
def test_no_attestation(bundle: Path, content: bytes, capsys: pytest.CaptureFixture[str]) -> None:
    (bundle / ATTESTATION).write_bytes(content)
    refused(bundle, capsys, f"{ATTESTATION} cannot be read")


def test_no_key(bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (bundle / SIGNER).write_bytes(b"nothing")
    refused(bundle, capsys, f"{SIGNER} holds no P-256 public key")
    (bundle / SIGNER).unlink()
    refused(bundle, capsys, f"{SIGNER} cannot be read")


def test_an_attestation_of_a_report(
    bundle: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bench.bundle.attest.PREDICATE_TYPE", "https://example.org/report")
    shutil.rmtree(bundle)
    write_bundle(bundle)
    refused(bundle, capsys, "attests something else", "https://example.org/report")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"machine": "sparc"}, (f"is for sparc; this machine is {platform.machine()}", "Install it on a sparc host")),
        (
            {"python": "3.99"},
            ("is for CPython 3.99", "--python /path/to/python3.99", f"just bundle toy --python {PYTHON}"),
        ),
        ({"glibc": "2.999"}, ("GNU C library 2.999 or newer", "newer distribution")),
        ({"host_provides": {"no-such-package": ""}}, ("it lacks no-such-package", "--host-provides host.txt")),
        ({"host_provides": {"pytest": "0.1"}}, ("pytest", "instead of 0.1")),
        ({"target": 7}, (MANIFEST, "no text")),
    ],
)
def test_the_wrong_host(
    tmp_path: Path, changes: dict[str, Any], words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    write_bundle(tmp_path / "bundle", **changes)
    refused(tmp_path / "bundle", capsys, *words)


def test_the_hosts_packages_are_remembered(tmp_path: Path) -> None:
    version = importlib.metadata.version("pytest")
    write_bundle(tmp_path / "bundle", host_provides={"pytest": version, "pluggy": ""})
    assert install(tmp_path / "bundle") == 0
    known = json.loads((tmp_path / "installed" / "bundle.json").read_text())
    assert known["host_packages"] == {"pytest": version, "pluggy": importlib.metadata.version("pluggy")}


def test_a_local_version_is_the_same_version(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.metadata, "version", lambda _name: "2.11.0+cu130")
    write_bundle(tmp_path / "good", host_provides={"torch": "2.11.0"})
    assert install(tmp_path / "good", "--check") == 0
    write_bundle(tmp_path / "bad", host_provides={"torch": "2.11"})
    refused(tmp_path / "bad", capsys, "torch 2.11.0+cu130 instead of 2.11")


def test_no_xz(bundle: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    refused(bundle, capsys, "xz", "xz-utils")


def test_another_c_library(bundle: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(_name: str) -> str:
        raise ValueError

    monkeypatch.setattr(os, "confstr", unknown)
    refused(bundle, capsys, "this host has another C library")


def test_a_folder_that_is_there(bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (bundle.parent / "installed").mkdir()
    refused(bundle, capsys, "is there already", "--to")


def test_a_disk_that_is_too_full_is_seen_before_anything_is_written(
    bundle: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage(bundle)._replace(free=10)
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: usage)
    refused(bundle, capsys, "the disk is too full", "--to")


def test_a_place_that_cannot_be_written(bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = bundle.parent / "file"
    file.write_bytes(b"")
    refused(bundle, capsys, str(file), "--to", arguments=("--to", str(file / "inside")))


# What no honest maker packs, under a valid signature.


def evil(path: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tuple[tarfile.TarInfo, bytes]:
    member, content = file_member(path, b"evil" if kind == tarfile.REGTYPE else b"")
    member.type, member.linkname = kind, link
    return member, content


GOOD = {"client/a": b"evil", "client/b": b"evil", "client/c": b"other"}


@pytest.mark.parametrize(
    ("members", "words"),
    [
        ([evil("../outside")], "'../outside', which is not in its signed list"),
        ([evil("/etc/outside")], "'/etc/outside', which is not in its signed list"),
        ([evil("client/more")], "'client/more', which is not in its signed list"),
        ([evil("client/a"), evil("client/a")], "'client/a' twice"),
        ([evil("client/a", tarfile.SYMTYPE, "/etc/passwd")], "something else than a plain file"),
        ([evil("client/a", tarfile.DIRTYPE)], "something else than a plain file"),
        ([evil("client/a", tarfile.FIFOTYPE)], "something else than a plain file"),
        ([evil("client/a", tarfile.CHRTYPE)], "something else than a plain file"),
        ([evil("client/c")], "client/c in the archive is not the file that was signed"),
        ([evil("client/a", tarfile.LNKTYPE, "/etc/passwd")], "not its signed twin"),
        ([evil("client/a", tarfile.LNKTYPE, "client/b")], "not its signed twin"),
        ([evil("client/a"), evil("client/c", tarfile.LNKTYPE, "client/a")], "not its signed twin"),
        ([evil("client/a"), evil("client/b")], "does not hold client/c, which its list names"),
    ],
)
def test_a_hostile_archive(
    tmp_path: Path,
    members: list[tuple[tarfile.TarInfo, bytes]],
    words: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    write_bundle(tmp_path / "bundle", GOOD, members=members)
    refused(tmp_path / "bundle", capsys, words)


def test_a_list_that_is_not_the_signed_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_bundle(tmp_path / "bundle", GOOD, listed=f"{'a' * 64} - 4 ../outside\n".encode())
    refused(tmp_path / "bundle", capsys, "outside the folder: '../outside'")


@pytest.mark.parametrize("packed", [b"", b"no tar at all" * 100])
def test_no_archive_at_all(tmp_path: Path, packed: bytes, capsys: pytest.CaptureFixture[str]) -> None:
    write_bundle(tmp_path / "bundle", compression="none")
    rewrite_parts(tmp_path / "bundle", lambda _: packed)
    refused(tmp_path / "bundle", capsys, "the archive software cannot be read")


def test_an_archive_that_was_packed_cut_short(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_bundle(tmp_path / "bundle", {**GOOD, "client/long": b"x" * 100_000}, compression="none")
    rewrite_parts(tmp_path / "bundle", lambda packed: packed[:50_000])
    refused(tmp_path / "bundle", capsys, "the archive software cannot be read")


def test_an_archive_without_its_list(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_bundle(tmp_path / "bundle", compression="none")
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        member, content = file_member("client/a", b"a")
        tar.addfile(member, io.BytesIO(content))
    rewrite_parts(tmp_path / "bundle", lambda _: packed.getvalue())
    refused(tmp_path / "bundle", capsys, "does not begin with its list of files")


def test_an_archive_with_another_list(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_bundle(tmp_path / "bundle", GOOD, compression="none")
    rewrite_parts(tmp_path / "bundle", lambda packed: packed.replace(b" - 4 client/a", b" - 4 client/d"))
    refused(tmp_path / "bundle", capsys, "is not the signed one")


def rewrite_parts(bundle: Path, change: Callable[[bytes], bytes]) -> None:
    """Another archive under the same list of files: only a maker with the key can do that, so it is signed again."""
    packed = change((bundle / "toy.tar.001").read_bytes() + (bundle / "toy.tar.002").read_bytes())
    value = json.loads((bundle / MANIFEST).read_bytes())
    files_sha256 = value["archives"][0]["files_sha256"]
    resign(bundle, packed, files_sha256)


def resign(bundle: Path, packed: bytes, files_sha256: str) -> None:
    pieces = {"toy.tar.001": packed[:100], "toy.tar.002": packed[100:]}
    parts = tuple(Part(name, sha256(piece), len(piece)) for name, piece in pieces.items())
    archive = Archive("software", "none", files_sha256, 3, 100, parts)
    write_signed(bundle, manifest_of((archive,)), new_signer(), pieces)


def test_twins_share_a_file_or_are_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {**CLIENT, **GOOD}
    members = [file_member(path, content) for path, content in {**CLIENT, "client/c": b"other"}.items()]
    members += [evil("client/a"), evil("client/b", tarfile.LNKTYPE, "client/a")]
    write_bundle(tmp_path / "one" / "bundle", files, members=members)
    assert install(tmp_path / "one" / "bundle") == 0
    client = tmp_path / "one" / "installed" / "client"
    assert (client / "a").samefile(client / "b")

    def refuse(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "link", refuse)
    write_bundle(tmp_path / "two" / "bundle", files, members=members)
    assert install(tmp_path / "two" / "bundle") == 0
    client = tmp_path / "two" / "installed" / "client"
    assert not (client / "a").samefile(client / "b")
    assert (client / "b").read_bytes() == b"evil"


def test_a_twin_with_other_rights_is_copied(tmp_path: Path) -> None:
    listed = [*listing(CLIENT), *listing({"client/a": b"evil"})]
    runnable = listing({"client/b": b"evil"})[0]
    listed.append(type(runnable)(runnable.path, runnable.sha256, runnable.size, executable=True))
    members = [file_member(path, content) for path, content in CLIENT.items()]
    members += [evil("client/a"), evil("client/b", tarfile.LNKTYPE, "client/a")]
    files = {**CLIENT, "client/a": b"evil", "client/b": b"evil"}
    write_bundle(tmp_path / "bundle", files, members=members, listed=write_file_list(listed))
    assert install(tmp_path / "bundle") == 0
    client = tmp_path / "installed" / "client"
    assert os.access(client / "b", os.X_OK)
    assert (client / "a").stat().st_mode & 0o777 == 0o644


def test_a_part_that_nobody_signed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "bundle").mkdir()
    archive = Archive("software", "none", "a" * 64, 0, 0, (Part("stray.001", "b" * 64, 1),))
    write_signed(tmp_path / "bundle", manifest_of((archive,)), new_signer(), {})
    refused(tmp_path / "bundle", capsys, "stray.001 is not among the signed files")


def test_a_disk_that_loses_bytes(
    bundle: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hashlib, "file_digest", lambda *_: hashlib.sha256(b"something else"))
    refused(bundle, capsys, "does not hold what was written to it", "faulty")


def test_a_client_that_does_not_start(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = {**CLIENT, "client/bench/__main__.py": b"import no_such_module\n"}
    write_bundle(tmp_path / "bundle", files)
    refused(tmp_path / "bundle", capsys, "does not start", "no_such_module", sys.executable)


def test_ctrl_c_leaves_nothing(
    bundle: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(finish, "_try_client", interrupt)
    before = sorted(bundle.parent.iterdir())
    assert install(bundle) == 130
    assert "nothing was installed" in capsys.readouterr().err
    assert sorted(bundle.parent.iterdir()) == before
