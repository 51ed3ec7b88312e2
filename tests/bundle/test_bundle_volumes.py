"""Caches in the volumes of a real Docker Engine: out to a folder, and in from one."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import docker
import pytest
from docker.errors import NotFound
from typer.testing import CliRunner

from bench.bundle.cache_volumes import copy_volume, prepare_volume, volumes
from bench.cli import app
from bench.engine.caches import MANIFEST, MadeWith, open_caches, read_manifest, volume_labels, volume_name
from bench.engine.docker_caches import is_cold
from bench.errors import StreamproofError, UsageError
from bench.images.layout import CACHES, USER_ID
from tests.bundle.test_bundle_image import docker_archive, layer_of, tar_of

IMAGE = "streamproof/toy:volumes"
HERE = MadeWith(
    fingerprint="0123456789ab" + "cd" * 26,
    target="h200-fp8",
    engine="docker",
    version="0.26.0",
    devices=("NVIDIA H200",),
    driver="580",
    packages="c" * 64,
)
OTHER = HERE.model_copy(update={"devices": ("NVIDIA B200",)})
KERNEL = "triton/ABC/kernel.cubin"


@pytest.fixture
def client(docker_client: docker.DockerClient) -> Iterator[docker.DockerClient]:
    """With an image to look through; no volume of ours is left."""
    docker_client.images.load(tar_of(docker_archive(IMAGE, [layer_of("serve", b"#!/bin/sh\n")])))
    yield docker_client
    assert not [c for c in docker_client.containers.list(all=True) if c.image and IMAGE in c.image.tags]
    for made_with in (HERE, OTHER):
        with suppress(NotFound):
            docker_client.volumes.get(volume_name(made_with)).remove()
    docker_client.images.remove(IMAGE, force=True)


def compiled(root: Path, made_with: MadeWith) -> Path:
    folder = open_caches(root, made_with)
    (folder / KERNEL).parent.mkdir(parents=True)
    (folder / KERNEL).write_bytes(b"code")
    return folder


def owners_in(client: docker.DockerClient, volume: str, image: str = IMAGE) -> tuple[dict[str, int], bool]:
    """Path to owner of everything in a volume, and whether an engine would call it cold."""
    container = client.containers.create(image, volumes={volume: {"bind": CACHES, "mode": "rw"}})
    try:
        pieces, _ = container.get_archive(CACHES)
        with tarfile.open(fileobj=io.BytesIO(b"".join(pieces))) as tar:
            return {member.name.partition("/")[2]: member.uid for member in tar}, is_cold(container)
    finally:
        container.remove()


def test_what_came_in_a_folder_is_in_the_volume_and_warm(client: docker.DockerClient, tmp_path: Path) -> None:
    compiled(tmp_path, HERE)
    said: list[str] = []
    name = prepare_volume(client, HERE, image=IMAGE, say=said.append, root=tmp_path)
    assert name == volume_name(HERE)
    assert [name in line for line in said] == [True]
    owners, cold = owners_in(client, name)
    assert not cold
    assert owners.keys() >= {MANIFEST, "triton/ABC", KERNEL}
    assert set(owners.values()) == {USER_ID}, "the engine can write beside them"
    assert volumes(client)[name] == HERE
    said.clear()
    assert prepare_volume(client, HERE, image=IMAGE, say=said.append, root=tmp_path) == name
    assert said == [], "what is in a volume already is not put there again"


def test_code_for_another_card_is_named_and_not_put_there(client: docker.DockerClient, tmp_path: Path) -> None:
    compiled(tmp_path, OTHER)
    client.volumes.create(volume_name(OTHER), labels=volume_labels(OTHER))
    said: list[str] = []
    name = prepare_volume(client, HERE, image=IMAGE, say=said.append, root=tmp_path)
    assert owners_in(client, name)[1], "it starts cold"
    assert len(said) == 2
    assert all("card NVIDIA B200 instead of NVIDIA H200" in line for line in said)


@pytest.mark.parametrize(
    ("description", "words"),
    [
        (HERE.model_copy(update={"packages": "d" * 64}).model_dump_json(), None),
        (OTHER.model_dump_json(), "made with card NVIDIA B200 instead of NVIDIA H200"),
        ("", "nobody says what it was made with"),
    ],
)
def test_code_that_is_baked_into_the_image_is_used_where_it_fits(
    client: docker.DockerClient, tmp_path: Path, description: str, words: str | None
) -> None:
    files = {f"{CACHES[1:]}/{KERNEL}": b"code", f"{CACHES[1:]}/{MANIFEST}": description.encode()}
    baked = "streamproof/toy:baked"
    client.images.load(tar_of(docker_archive(baked, [tar_of(files)])))
    said: list[str] = []
    try:
        name = prepare_volume(client, HERE, image=baked, say=said.append, root=tmp_path)
        owners, cold = owners_in(client, name, baked)
        assert cold == (words is not None)
        assert (KERNEL in owners) == (words is None)
        assert [words in line for line in said] == ([True] if words else [])  # type: ignore[operator]
        if words:
            assert owners[""] == USER_ID
    finally:
        client.volumes.get(volume_name(HERE)).remove()
        client.images.remove(baked, force=True)


def test_out_of_a_volume_and_into_a_folder(client: docker.DockerClient, tmp_path: Path) -> None:
    compiled(tmp_path / "here", HERE)
    prepare_volume(client, HERE, root=tmp_path / "here", image=IMAGE, say=print)
    (tmp_path / "there").mkdir()
    folder = copy_volume(client, HERE, tmp_path / "there")
    assert folder == tmp_path / "there" / HERE.place
    assert read_manifest(folder) == HERE
    assert (folder / KERNEL).read_bytes() == b"code"
    with pytest.raises(StreamproofError, match="is there already"):
        copy_volume(client, HERE, tmp_path / "there")


def test_a_volume_that_is_not_there(client: docker.DockerClient, tmp_path: Path) -> None:
    with pytest.raises(StreamproofError, match=f"Docker has no volume {volume_name(HERE)}"):
        copy_volume(client, HERE, tmp_path)
    assert volume_name(HERE) not in volumes(client)


def test_a_volume_that_cannot_be_filled_is_not_left(client: docker.DockerClient, tmp_path: Path) -> None:
    compiled(tmp_path, HERE)
    with pytest.raises(StreamproofError, match=f"prepare the volume {volume_name(HERE)}"):
        prepare_volume(client, HERE, root=tmp_path, image="streamproof/toy:none", say=print)
    assert volume_name(HERE) not in volumes(client)


def test_volumes_are_listed_and_exported_by_the_command(
    client: docker.DockerClient, docker_host: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert docker_host
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("COLUMNS", "200")
    compiled(tmp_path, HERE)
    prepare_volume(client, HERE, root=tmp_path, image=IMAGE, say=print)
    assert volume_name(HERE) in CliRunner().invoke(app, ["caches"], catch_exceptions=False).output
    out = tmp_path / "out.tar.xz"
    export = ["caches", "export", HERE.fingerprint[:10], "--docker", "--out", str(out)]
    outcome = CliRunner().invoke(app, export, catch_exceptions=False)
    assert outcome.exit_code == 0, outcome.output
    with tarfile.open(out) as tar:
        assert KERNEL in tar.getnames()
    with pytest.raises(UsageError, match="Docker has 0 volumes with caches of ffffffff"):
        CliRunner().invoke(app, ["caches", "export", "ffffffff", "--docker", "--out", "x"], catch_exceptions=False)
