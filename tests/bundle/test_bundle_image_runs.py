"""The whole way of an image: bundle, host without network, installation, and the installed client runs it in Docker.

The stand-in's image takes the place of an engine's; client, packages, caches and Docker are real.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import docker
import pytest
from docker.errors import NotFound

from bench.bundle.image import ImageSource
from bench.bundle.make import Options, make_bundle
from bench.bundle.wheels import Host
from bench.engine.caches import MadeWith, made_with, open_caches, volume_name
from bench.engine.pins import REPOSITORY
from bench.errors import Exit
from bench.observe.environment import describe_environment
from bench.plan import plan_run
from bench.report import folder_files as files
from recipes.load import load_recipe
from tests.bundle.handmade import PYTHON, new_signer
from tests.bundle.workshop import BareHost, commit_all, copy_repository
from tests.run.test_repro_docker import SETTINGS

pytestmark = pytest.mark.thorough

RECIPE = load_recipe("cpu", SETTINGS)


@pytest.fixture
def here(standin_image: str, docker_client: docker.DockerClient) -> Iterator[MadeWith]:
    """What an engine's caches are made with that runs in the stand-in's image here; no volume of it is left."""
    described = made_with(
        RECIPE,
        fingerprint=plan_run(RECIPE, image_digest=standin_image).engine_fingerprint,
        engine="docker",
        machine=describe_environment(REPOSITORY),
        gpus=(),
        packages=standin_image,
    )
    yield described
    with suppress(NotFound):
        docker_client.volumes.get(volume_name(described)).remove()


def test_it_runs_warm_on_a_host_that_was_never_online(  # noqa: PLR0917  fixtures
    here: MadeWith,
    standin_image: str,
    docker_client: docker.DockerClient,
    docker_host: str,
    host_python: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    repository = tmp_path / "repository"
    copy_repository(repository)
    commit_all(repository)
    caches = open_caches(tmp_path / "compiled", here)
    (caches / "triton" / "ABC").mkdir(parents=True)
    (caches / "triton" / "ABC" / "kernel.cubin").write_bytes(b"code")
    monkeypatch.setattr("bench.bundle.archive._XZ", ("xz", "--compress", "--stdout", "-0"))
    signer = new_signer()
    made = make_bundle(
        RECIPE,
        Options(
            out=tmp_path / "bundle",
            part_size=10**8,
            host=Host(python=PYTHON),
            host_packages={},
            caches=caches,
            overrides=SETTINGS,
            image=ImageSource(docker_client, "streamproof/stand-in:test", digest=standin_image, own=False),
        ),
        say=print,
        signer=signer,
        repository=repository,
    )
    assert [archive.name for archive in made.manifest.archives] == ["caches", "software", "image"]

    host = BareHost(tmp_path / "host", host_python)
    (host.folder / "bin" / "docker").symlink_to(str(shutil.which("docker")))
    shutil.move(made.folder, host.folder / "carried")
    script = ["/bin/sh", "carried/install.sh", "--signer", signer.key_id, "--no-compile"]
    installed = host.run(script, env={"DOCKER_HOST": docker_host})
    assert installed.returncode == 0, installed.stderr

    # A port that Docker publishes is on the host's own loopback: this last step runs outside of the namespace.
    root = host.folder / "streamproof-cpu"
    reports = tmp_path / "reports"
    environment = {"PATH": os.environ["PATH"], "HOME": str(host.folder / "home"), "DOCKER_HOST": docker_host}
    ran = subprocess.run(
        [str(root / "streamproof"), *made.manifest.next_arguments, "--reports", str(reports), "--json"],
        check=False,
        capture_output=True,
        text=True,
        env=environment,
        cwd=host.folder,
    )
    # A machine that is busy with other tests may spoil the measurement: that it is whole is what is shown here.
    assert ran.returncode in (Exit.OK, Exit.CLAIM_FAILED, Exit.INVALID), ran.stderr
    (report,) = (reports / "cpu").iterdir()
    assert report.name.endswith(plan_run(RECIPE, image_digest=standin_image).fingerprint[:12])
    assert json.loads((report / files.REPORT).read_bytes())["partial"] is False
    seen = [json.loads(line) for line in (report / files.OBSERVATIONS).read_text().splitlines()]
    (started,) = [line for line in seen if line["kind"] == "engine_started"]
    assert started["kind_of_engine"] == "docker"
    assert started["container"]["image_id"] == made.manifest.image.id if made.manifest.image else None
    assert started["cold"] is False
    assert volume_name(here) in ran.stdout + ran.stderr, "it says what it does with the caches"
