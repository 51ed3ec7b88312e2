"""A bundle with a container image, on a real Docker Engine: made, moved to a host without network, loaded there."""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import docker
import pytest
from docker.errors import ImageNotFound

from bench.bundle.host.manifest import Image, write_file_list
from bench.bundle.image import ImageSource, SavedImage, save_image
from bench.bundle.make import Made, _Maker
from bench.errors import StreamproofError
from recipes.load import load_recipe
from tests.bundle.handmade import CLIENT, file_member, listing, sha256, write_bundle
from tests.bundle.made_up_engine import SIGNER, Workshop
from tests.bundle.workshop import BareHost

NAME = "streamproof/toy"


def layer_of(name: str, content: bytes) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        member, body = file_member(name, content)
        tar.addfile(member, io.BytesIO(body))
    return packed.getvalue()


def docker_archive(reference: str, layers: list[bytes], **config: Any) -> dict[str, bytes]:
    """The files of a small image as `docker load` takes them."""
    described = {
        "os": "linux",
        "architecture": "amd64",
        "created": "2026-11-30T00:00:00Z",
        "config": {"Entrypoint": ["/serve"], "User": "10001:10001", **config},
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{sha256(layer)}" for layer in layers]},
        "history": [{"created": "2026-11-30T00:00:00Z"} for _ in layers],
    }
    raw = json.dumps(described).encode()
    names = [f"layers/{number}.tar" for number in range(len(layers))]
    listed = [{"Config": "config.json", "RepoTags": [reference], "Layers": names}]
    return {"manifest.json": json.dumps(listed).encode(), "config.json": raw, **dict(zip(names, layers, strict=True))}


def tar_of(files: dict[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for name, content in files.items():
            member, body = file_member(name, content)
            tar.addfile(member, io.BytesIO(body))
    return packed.getvalue()


LAYERS = [layer_of("serve", b"#!/bin/sh\n" + os.urandom(50_000)), layer_of("weights", os.urandom(300_000))]


@pytest.fixture
def toy(docker_client: docker.DockerClient) -> Iterator[str]:
    """An image of three layers, of which the first and the last are the same."""
    reference = f"{NAME}:three"
    docker_client.images.load(tar_of(docker_archive(reference, [*LAYERS, LAYERS[0]])))
    yield reference
    remove(docker_client, reference)


def remove(client: docker.DockerClient, reference: str) -> None:
    with contextlib.suppress(ImageNotFound):
        client.images.remove(reference, force=True)


def save(client: docker.DockerClient, reference: str, folder: Path) -> SavedImage:
    return save_image(ImageSource(client, reference, digest="d", own=False), folder)


def contents(saved: SavedImage) -> dict[str, str]:
    return {entry.path: entry.sha256() for entry in saved.entries}


def test_an_image_is_its_configuration_and_each_layer_once(
    docker_client: docker.DockerClient, toy: str, tmp_path: Path
) -> None:
    saved = save(docker_client, toy, tmp_path / "one")
    image = docker_client.images.get(toy)
    assert saved.image == Image(toy, str(image.id), tuple(image.attrs["RootFS"]["Layers"]))
    config = saved.image.id.partition(":")[2]
    digests = [sha256(layer) for layer in LAYERS]
    blobs = {f"image/blobs/sha256/{digest}" for digest in (config, *digests)}
    assert set(contents(saved)) == {"image/manifest.json", *blobs}
    assert contents(save(docker_client, toy, tmp_path / "two")) == contents(saved), "the same bytes every time"


def test_an_image_that_docker_does_not_have(docker_client: docker.DockerClient, tmp_path: Path) -> None:
    with pytest.raises(StreamproofError, match="could not export the image streamproof/toy:none"):
        save(docker_client, f"{NAME}:none", tmp_path / "image")


class Exporting:
    """Stands for a Docker Engine that exports this."""

    def __init__(self, raw: bytes) -> None:
        self.api = self
        self._raw = raw

    def get_image(self, _reference: str) -> Iterator[bytes]:
        return iter([self._raw[:700], b"", self._raw[700:]])


def exported(raw: bytes, folder: Path) -> SavedImage:
    return save_image(ImageSource(Exporting(raw), "a:b", digest="d", own=False), folder)  # type: ignore[arg-type]  # the part that is used


def test_other_forms_of_export(tmp_path: Path) -> None:
    """Docker before 25 links layers that are there twice; one with containerd exports compressed ones by digest."""
    plain = docker_archive("a:b", LAYERS)
    wanted = contents(exported(tar_of(plain), tmp_path / "plain"))
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for name, content in plain.items():
            if name == "layers/1.tar":
                link = tarfile.TarInfo("elsewhere/layer.tar")
                link.type, link.linkname = tarfile.SYMTYPE, "../layers/1.tar"
                tar.addfile(link)
            content_ = content.replace(b"layers/1.tar", b"elsewhere/layer.tar") if name == "manifest.json" else content
            member, body = file_member(name, content_)
            tar.addfile(member, io.BytesIO(body))
    assert contents(exported(packed.getvalue(), tmp_path / "linked")) == wanted
    compressed = b"\x1f\x8b" + LAYERS[1]
    name = f"blobs/sha256/{sha256(compressed)}"
    files = {**plain, name: compressed}
    files["manifest.json"] = files["manifest.json"].replace(b"layers/1.tar", name.encode())
    assert f"image/{name}" in contents(exported(tar_of(files), tmp_path / "compressed"))


@pytest.mark.parametrize(
    "damage",
    [
        {"layers/1.tar": LAYERS[1][:-1]},
        {"config.json": b"{}"},
        {"config.json": b"not json"},
        {"manifest.json": b'[{"Config": "config.json", "Layers": ["layers/0.tar"]}]'},
        {"manifest.json": b'[{"Config": "config.json", "Layers": ["layers/9.tar", "layers/1.tar"]}]'},
    ],
)
def test_an_export_that_is_damaged(damage: dict[str, bytes], tmp_path: Path) -> None:
    with pytest.raises(StreamproofError, match="not what its digests say"):
        exported(tar_of({**docker_archive("a:b", LAYERS), **damage}), tmp_path / "image")


def test_an_export_that_is_cut_off(tmp_path: Path) -> None:
    with pytest.raises(StreamproofError, match="could not export"):
        exported(tar_of(docker_archive("a:b", LAYERS))[:100_000], tmp_path / "image")


@pytest.fixture
def host(tmp_path: Path, host_python: Path, docker_address: str) -> Iterator[BareHost]:
    """A host with Docker and without network."""
    made = BareHost(tmp_path / "bare", host_python)
    (made.folder / "bin" / "docker").symlink_to(str(shutil.which("docker")))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DOCKER_HOST", docker_address)
        yield made


def install(host: BareHost, bundle: Path, *more: str, **env: str) -> Any:
    docker_host = {"DOCKER_HOST": os.environ["DOCKER_HOST"], **env}
    return host.run(["/bin/sh", f"{bundle}/install.sh", "--no-compile", "--to", "there", *more], env=docker_host)


@pytest.fixture
def bundle(workshop: Workshop, docker_client: docker.DockerClient, toy: str, tmp_path: Path) -> Made:
    made = workshop.make(tmp_path / "bundle", image=ImageSource(docker_client, toy, digest="d", own=False))
    remove(docker_client, toy)
    return made


def test_made_moved_installed_and_loaded_without_network(
    bundle: Made, host: BareHost, docker_client: docker.DockerClient, toy: str
) -> None:
    software, image = bundle.manifest.archives
    assert (software.name, image.name) == ("software", "image")
    assert sum(part.size for part in image.parts) < sum(map(len, LAYERS)) + 20_000, "a layer that is twice travels once"
    assert bundle.manifest.host_provides == {}, "the engine is in the image"
    shutil.move(bundle.folder, host.folder / "carried")

    answer = install(host, host.folder / "carried", "--signer", SIGNER.key_id)

    assert answer.returncode == 0, answer.stderr
    assert f"loading {toy} into Docker" in answer.stdout
    there = host.folder / "there"
    assert answer.stdout.splitlines()[-1] == f"next: {there}/streamproof repro cpu --engine docker --image {toy}"
    assert bundle.manifest.image is not None
    assert docker_client.images.get(toy).id == bundle.manifest.image.id
    assert not (there / "image").exists(), "Docker has it now"
    assert not (there / "engine").exists()
    assert json.loads((there / "bundle.json").read_text())["image"] == toy
    ask = "from bench.bundle.installed import engine_environment; engine_environment('engine-cpu')"
    asked = host.run([f"{there}/client-env/bin/python", "-I", "-c", ask])
    assert f"carries the engine as the image {toy}" in asked.stderr


def test_the_targets_own_image_is_found_by_its_definition(workshop: Workshop, tmp_path: Path) -> None:
    source = ImageSource(Exporting(b""), "streamproof/cpu:0123456789ab", digest="d", own=True)  # type: ignore[arg-type]
    options = workshop.options(tmp_path, image=source, overrides={"load.runs": "2"})
    maker = _Maker(load_recipe("cpu"), options, print, workshop.repository, tmp_path)
    assert maker._next_arguments() == ("repro", "cpu", "--engine", "docker", "--set", "load.runs=2")


def with_image(files: dict[str, bytes], client: dict[str, bytes] = CLIENT) -> dict[str, bytes]:
    """The files of a bundle."""
    return {**client, **{f"image/{name}": content for name, content in files.items()}}


def image_of(reference: str, layers: list[bytes]) -> tuple[Image, dict[str, bytes]]:
    files = docker_archive(reference, layers)
    digests = tuple(f"sha256:{sha256(layer)}" for layer in layers)
    return Image(reference, f"sha256:{sha256(files['config.json'])}", digests), files


def test_an_image_that_is_there_already_is_not_loaded_and_never_taken_away(
    host: BareHost, docker_client: docker.DockerClient, toy: str, tmp_path: Path
) -> None:
    image, files = image_of(toy, [*LAYERS, LAYERS[0]])
    assert docker_client.images.get(toy).id == image.id
    broken = {**CLIENT, "client/bench/__main__.py": b"raise SystemExit('broken')\n"}
    folder = tmp_path / "bundle"
    write_bundle(folder, with_image(files, broken), image=image)
    answer = install(host, folder)
    assert answer.returncode == 1
    assert "the installed client does not start: broken" in answer.stderr
    assert docker_client.images.get(toy).id == image.id


@pytest.mark.parametrize("what", ["another image", "a broken client", "no image"])
def test_nothing_is_left_in_docker_when_the_installation_fails(
    host: BareHost, docker_client: docker.DockerClient, tmp_path: Path, what: str
) -> None:
    reference = f"{NAME}:refused"
    image, files = image_of(reference, LAYERS)
    client, words = dict(CLIENT), "is not the image that was signed"
    if what == "another image":
        _, files = image_of(reference, LAYERS[:1])
    elif what == "a broken client":
        client["client/bench/__main__.py"], words = b"raise SystemExit('broken')\n", "does not start: broken"
    else:
        files, words = {"nothing": b""}, "Docker could not load the image"
    folder = tmp_path / "bundle"
    write_bundle(folder, with_image(files, client), image=image)
    answer = install(host, folder)
    assert answer.returncode == 1
    assert words in answer.stderr
    assert {path.name for path in host.folder.iterdir()} == {"bin", "home"}
    with pytest.raises(ImageNotFound):
        docker_client.images.get(reference)


def test_a_host_without_docker_or_where_it_does_not_answer(host: BareHost, tmp_path: Path) -> None:
    image, files = image_of(f"{NAME}:x", LAYERS)
    write_bundle(tmp_path / "bundle", with_image(files), image=image)
    answer = install(host, tmp_path / "bundle", DOCKER_HOST=f"unix://{tmp_path}/nobody.sock")
    assert answer.returncode == 1
    assert "Docker does not answer" in answer.stderr
    assert "unpacking" not in answer.stdout, "before minutes are spent"
    (host.folder / "bin" / "docker").unlink()
    answer = install(host, tmp_path / "bundle", "--check")
    assert answer.returncode == 1
    assert "there is no docker here" in answer.stderr


def test_a_damaged_layer_is_refused_before_docker_sees_it(
    host: BareHost, docker_client: docker.DockerClient, tmp_path: Path
) -> None:
    reference = f"{NAME}:damaged"
    image, files = image_of(reference, LAYERS)
    packed = with_image(files)
    listed = write_file_list(listing(packed))
    members = [file_member(path, content) for path, content in sorted(packed.items())]
    members = [(m, c[:-1] + b"x" if m.name.endswith("1.tar") else c) for m, c in members]
    write_bundle(tmp_path / "bundle", packed, image=image, listed=listed, members=members)
    answer = install(host, tmp_path / "bundle")
    assert answer.returncode == 1
    assert "image/layers/1.tar in the archive is not the file that was signed" in answer.stderr
    with pytest.raises(ImageNotFound):
        docker_client.images.get(reference)
