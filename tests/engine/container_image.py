"""A cheap image of ours: Debian's Python with the stand-in server and the reference server instead of an engine.

What it does is decided by its environment, see `container_entry.py`. It is made in a second, without BuildKit and
without network.
"""

from __future__ import annotations

import io
import sys
import sysconfig
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import docker
import pytest

from bench.images.base import Base
from bench.images.labels import DEFINITION, STAGE, TARGET
from bench.images.layout import CACHES, HOME, USER_ID

ROOT = Path(__file__).parents[2]
APP = "opt/app"
SOURCES = (
    *("bench/__init__.py", "bench/load/__init__.py", "bench/load/alarm.py", "bench/load/wire.py", "bench/seeds.py"),
    *("tests/__init__.py", "tests/engine/standin_server.py", "tests/engine/container_entry.py", "tests/engine/data"),
    *(f"tests/truth/{name}.py" for name in ("__init__", "__main__", "connection", "ledger", "prompt", "replies")),
    *("tests/truth/answers.py", "tests/truth/script.py", "tests/truth/server.py"),
)
PACKAGES = ("annotated_types", "httptools", "orjson", "pydantic", "pydantic_core", "typing_inspection")
MODULES = ("typing_extensions.py",)
NAME = ("streamproof/stand-in", "test")
LABELS = {DEFINITION: "0" * 64, STAGE: "serve-cpu", TARGET: "stand-in"}


@pytest.fixture(scope="session")
def standin_image(docker_client: docker.DockerClient, debian_base: Base) -> Iterator[str]:
    """Id of the image."""
    here = f"{sys.version_info.major}.{sys.version_info.minor}"
    if debian_base.python != here:
        pytest.skip(f"the compiled packages of Python {here} cannot be loaded by the base's {debian_base.python}")
    with made(docker_client, debian_base.reference) as image:
        yield image


@contextmanager
def made(client: docker.DockerClient, base: str) -> Iterator[str]:
    """Makes the image; yields its id and removes it afterwards.

    Args:
        client: of the Docker Engine.
        base: image with Python of this version.
    """
    container = client.containers.create(base, ["true"])
    try:
        container.put_archive("/", _archive())
        image = container.commit(
            *NAME,
            conf={
                "User": f"{USER_ID}:{USER_ID}",
                "Entrypoint": ["python3", "-u", f"/{APP}/tests/engine/container_entry.py"],
                "Env": [f"PYTHONPATH=/{APP}:/{APP}/packages", f"HOME={HOME}"],
                "Labels": LABELS,
                "WorkingDir": f"/{APP}",
            },
        )
    finally:
        container.remove(force=True)
    try:
        yield str(image.id)
    finally:
        client.images.remove(str(image.id), force=True)


def _archive() -> bytes:
    packages = Path(sysconfig.get_path("purelib"))
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode="w") as tar:
        for folder in (HOME, CACHES):
            entry = tarfile.TarInfo(folder.lstrip("/"))
            entry.type, entry.mode, entry.uid, entry.gid = tarfile.DIRTYPE, 0o700, USER_ID, USER_ID
            tar.addfile(entry)
        for name in SOURCES:
            tar.add(ROOT / name, f"{APP}/{name}", filter=_readable)
        for name in (*PACKAGES, *MODULES):
            tar.add(packages / name, f"{APP}/packages/{name}", filter=_readable)
    return held.getvalue()


def _readable(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    if entry.name.endswith((".pyc", "__pycache__")):
        return None
    entry.uid = entry.gid = 0
    entry.mode = 0o755 if entry.isdir() else 0o644
    return entry
