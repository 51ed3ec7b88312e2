"""Caches on the move: listed, exported, imported, pruned, carried in a bundle."""

from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from bench.bundle.cache_move import Trust, carried_caches, export_caches, import_caches
from bench.bundle.cache_store import newest_caches, remove, stored_caches
from bench.bundle.host.layout import CACHES
from bench.bundle.host.manifest import Archive, Part, write_file_list
from bench.bundle.host.refusal import COPY_AGAIN
from bench.cli import app
from bench.engine.caches import MANIFEST, MadeWith, open_caches, read_manifest
from bench.errors import StreamproofError, UsageError
from bench.report.keys import Signer
from tests.bundle.handmade import file_member, listing, manifest_of, new_signer, sha256, tar_of, write_signed

HERE = MadeWith(
    fingerprint="ab" * 32,
    target="h200-fp8",
    engine="process",
    version="0.26.0",
    devices=("NVIDIA H200",),
    driver="580",
    packages="c" * 64,
    run="h200-fp8/20261130T040000Z-abababababab",
)
NOBODY = Trust(keys=())
ACCEPTED = Trust(keys=(), accepted=True)


def make(root: Path, used: float = 1_000_000.0, **changes: Any) -> Path:
    """Caches with one kernel."""
    folder = open_caches(root, HERE.model_copy(update=changes))
    kernel = folder / "triton" / "ABC" / "kernel.cubin"
    kernel.parent.mkdir(parents=True)
    kernel.write_bytes(b"code")
    os.utime(folder / MANIFEST, (used, used))
    return folder


def bring(source: Path, root: Path, trust: Trust) -> list[MadeWith]:
    return import_caches(source, root, trust, say=lambda _: None)


def test_the_newest_of_a_fingerprint_that_hold_something(tmp_path: Path) -> None:
    older, newer = make(tmp_path, 1.0), make(tmp_path, 2.0, driver="570")
    make(tmp_path, 3.0, fingerprint="cd" * 32)
    open_caches(tmp_path, HERE.model_copy(update={"driver": "590"}))  # cold, and the newest
    found = newest_caches(tmp_path, HERE.fingerprint)
    assert found is not None
    assert (found.folder, found.used) == (newer, 2.0)
    assert found.size == sum(path.stat().st_size for path in newer.rglob("*") if path.is_file())
    remove(found)
    again = newest_caches(tmp_path, HERE.fingerprint)
    assert again is not None
    assert again.folder == older
    assert newest_caches(tmp_path, "ef" * 32) is None
    assert stored_caches(tmp_path / "nowhere") == []


def test_the_last_one_of_a_recipe_takes_the_recipes_folder_with_it(tmp_path: Path) -> None:
    folder = make(tmp_path)
    remove(stored_caches(tmp_path)[0])
    assert not folder.parent.exists()


@pytest.mark.parametrize("name", ["exported", "exported.tar.xz"])
def test_out_and_in_again_keeps_everything_and_says_who_accepted_it(tmp_path: Path, name: str) -> None:
    folder = make(tmp_path / "here")
    out = tmp_path / "carried" / name
    export_caches(folder, out)
    assert out.is_file() == name.endswith(".xz")
    assert [path.name for path in out.parent.iterdir()] == [name], "nothing else is left"
    root = tmp_path / "there"
    assert bring(out, root, ACCEPTED) == [HERE]
    there = root / HERE.place
    assert read_manifest(there) == HERE.model_copy(update={"came_from": "accepted by hand"})
    assert (there / "triton/ABC/kernel.cubin").read_bytes() == b"code"
    assert {path.name for path in there.iterdir()} == {MANIFEST, "triton"}
    assert open_caches(root, HERE) == there, "a start with the same card, driver and packages uses it"
    assert [path.name for path in root.iterdir()] == [HERE.fingerprint[:12]]


def test_several_recipes_come_at_once(tmp_path: Path) -> None:
    make(tmp_path / "here")
    make(tmp_path / "here", fingerprint="cd" * 32)
    assert len(bring(tmp_path / "here", tmp_path / "there", ACCEPTED)) == 2


def test_an_exported_folder_is_one_that_a_bundle_takes(tmp_path: Path) -> None:
    export_caches(make(tmp_path / "here"), tmp_path / "out")
    place = f"{CACHES}/{HERE.place}"
    assert {entry.path for entry in carried_caches(tmp_path / "out")} == {
        f"{place}/{MANIFEST}",
        f"{place}/triton/ABC/kernel.cubin",
    }


def test_code_that_nobody_vouches_for_is_not_taken(tmp_path: Path) -> None:
    folder = make(tmp_path / "here")
    with pytest.raises(UsageError, match="not signed, and what is in it would be executed") as caught:
        bring(folder, tmp_path / "there", NOBODY)
    assert "--accept-code" in caught.value.remedy
    assert list((tmp_path / "there").iterdir()) == []


def test_what_is_there_already_stays(tmp_path: Path) -> None:
    folder = make(tmp_path / "here")
    make(tmp_path / "there")
    with pytest.raises(StreamproofError, match="are here already") as caught:
        bring(folder, tmp_path / "there", ACCEPTED)
    assert "just caches prune --only abababababab" in caught.value.remedy
    with pytest.raises(UsageError, match="is there already"):
        export_caches(folder, tmp_path / "there")


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StreamproofError, match="file cannot be written"):
        export_caches(make(tmp_path / "here"), tmp_path / "file" / "out")


def tar_with(path: Path, *members: tuple[tarfile.TarInfo, bytes]) -> None:
    with tarfile.open(path, "w:xz") as tar:
        for member, content in members:
            tar.addfile(member, io.BytesIO(content))


def test_sources_that_are_none(tmp_path: Path) -> None:
    root = tmp_path / "there"
    (tmp_path / "text").write_text("nothing")
    with pytest.raises(StreamproofError, match="no caches can be read from"):
        bring(tmp_path / "text", root, ACCEPTED)
    (tmp_path / "empty").mkdir()
    with pytest.raises(StreamproofError, match="there are no caches in"):
        bring(tmp_path / "empty", root, ACCEPTED)
    tar_with(tmp_path / "unnamed", file_member("a/b/kernel", b"code"))
    with pytest.raises(StreamproofError, match="nobody says what a/b was made with"):
        bring(tmp_path / "unnamed", root, ACCEPTED)
    manifest = HERE.model_dump_json().encode()
    tar_with(tmp_path / "moved", file_member(f"{'0' * 12}/{'1' * 12}/{MANIFEST}", manifest))
    with pytest.raises(StreamproofError, match="nobody says what"):
        bring(tmp_path / "moved", root, ACCEPTED)
    tar_with(tmp_path / "outside", file_member("../../outside", b"code"))
    with pytest.raises(StreamproofError, match="outside the destination"):
        bring(tmp_path / "outside", root, ACCEPTED)
    assert list(root.iterdir()) == []


def write_bundle_with_caches(folder: Path, signer: Signer, *, name: str = "caches") -> None:
    """A bundle whose first archive holds caches."""
    place = f"{CACHES}/{HERE.place.as_posix()}"
    files = {f"{place}/{MANIFEST}": HERE.model_dump_json().encode(), f"{place}/triton/kernel": b"code"}
    listed = write_file_list(listing(files))
    packed = tar_of(listed, [file_member(path, content) for path, content in sorted(files.items())])
    part = Part("toy.caches.tar.001", sha256(packed), len(packed))
    archive = Archive(name, "none", sha256(listed), len(files), sum(map(len, files.values())), (part,))
    folder.mkdir()
    write_signed(folder, manifest_of((archive,)), signer, {part.name: packed})


def test_from_a_bundle_of_somebody_whom_we_know(tmp_path: Path) -> None:
    signer = new_signer()
    write_bundle_with_caches(tmp_path / "bundle", signer)
    for number, trust in enumerate((Trust(keys={signer.key_id}), Trust(keys=(), signer=signer.key_id), ACCEPTED)):
        root = tmp_path / f"there{number}"
        assert bring(tmp_path / "bundle", root, trust) == [HERE]
        found = read_manifest(root / HERE.place)
        assert found is not None
        assert found.came_from == f"signed by {signer.key_id}"
        assert (root / HERE.place / "triton/kernel").read_bytes() == b"code"


def test_a_bundle_of_somebody_else_or_a_damaged_one(tmp_path: Path) -> None:
    signer, root = new_signer(), tmp_path / "there"
    bundle = tmp_path / "bundle"
    write_bundle_with_caches(bundle, signer)
    with pytest.raises(UsageError, match=f"signed by {signer.key_id}, whom nobody here knows"):
        bring(bundle, root, NOBODY)
    with pytest.raises(StreamproofError, match=r"not by f{64}"):
        bring(bundle, root, Trust(keys=(), signer="f" * 64))
    part = bundle / "toy.caches.tar.001"
    part.write_bytes(part.read_bytes()[:-1] + b"x")
    with pytest.raises(StreamproofError, match="damaged or was edited") as caught:
        bring(bundle, root, ACCEPTED)
    assert caught.value.remedy == COPY_AGAIN
    part.unlink()
    with pytest.raises(StreamproofError, match=r"toy\.caches\.tar\.001 is missing"):
        bring(bundle, root, ACCEPTED)
    assert list(root.iterdir()) == []


def test_a_bundle_without_caches(tmp_path: Path) -> None:
    signer = new_signer()
    write_bundle_with_caches(tmp_path / "bundle", signer, name="software")
    with pytest.raises(StreamproofError, match="there are no caches in") as caught:
        bring(tmp_path / "bundle", tmp_path / "there", Trust(keys={signer.key_id}))
    assert "--with-caches" in caught.value.remedy


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nobody.sock")
    monkeypatch.setenv("COLUMNS", "200")
    return tmp_path / "cache" / "streamproof" / "compiled"


def run(*arguments: str) -> str:
    outcome = CliRunner().invoke(app, ["caches", *arguments], catch_exceptions=False)
    assert outcome.exit_code == 0, outcome.output
    return outcome.output


def test_the_commands(home: Path, tmp_path: Path) -> None:
    assert "no caches yet" in run()
    make(home)
    listed = run()
    for words in (
        "h200-fp8",
        "NVIDIA H200, driver 580",
        "vLLM 0.26.0",
        "days ago",
        "20261130T040000Z",
        str(HERE.place),
    ):
        assert words in listed
    out = tmp_path / "out.tar.xz"
    for name in ("h200-fp8", HERE.fingerprint[:10]):
        assert str(out) in run("export", name, "--out", str(out))
        out.unlink(missing_ok=name != "h200-fp8")
    run("export", "h200-fp8", "--out", str(out))
    assert "would remove" in run("prune", "--dry-run")
    assert "removed" in run("prune")
    assert stored_caches(home) == []
    with pytest.raises(UsageError, match="there are no caches of h200-fp8 here"):
        run("export", "h200-fp8", "--out", str(tmp_path / "again"))
    with pytest.raises(UsageError, match=r"not signed"):
        run("import", str(out))
    assert "accepted by hand" in run("import", str(out), "--accept-code")
    assert "accepted by hand" in run()
    run("prune", "--older-than", "1000000")
    assert len(stored_caches(home)) == 1
    run("prune", "--only", "h200-fp8")
    assert stored_caches(home) == []


def test_what_nobody_describes_is_pruned(home: Path) -> None:
    (home / "abcdefabcdef" / "triton" / "x").mkdir(parents=True)
    assert "1 folders, 0.0 MB, of which nobody says what they were made with" in run()
    run("prune")
    assert list(home.iterdir()) == []
