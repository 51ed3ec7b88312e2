"""The pinned engine from a bundle: packed, carried to a host without network, installed, and it answers."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from bench.bundle import wheels
from bench.bundle.make import Options, make_bundle
from bench.bundle.requirements import blocks, without
from bench.bundle.wheels import Host
from bench.engine.environment import ensure_environment
from bench.engine.pins import REPOSITORY
from bench.observe.packages import installed_packages
from recipes.load import load_recipe
from tests.bundle.handmade import PYTHON, new_signer
from tests.bundle.workshop import HEAVY, OUR_RULES, BareHost, commit_all, copy_repository

pytestmark = [pytest.mark.engine, pytest.mark.thorough]

CARRIED = {"fastapi", "pydantic", "pydantic-core", "starlette", "uvicorn"}
"""Of the engine's packages: what its server answers with. The host has torch, vLLM and all others."""

SERVE = """\
import json, time, urllib.request
from pathlib import Path
import psutil
from bench.bundle.installed import engine_environment, installed_bundle
from bench.engine.caches import cache_environment
from bench.engine.own import HOST
from bench.engine.pins import REPOSITORY
from bench.engine.process import Launch, ProcessEngine
from recipes.command import engine_arguments
from recipes.load import load_recipe

recipe = load_recipe("cpu")
environment = engine_environment(recipe.engine.lock)
launch = Launch(
    environment=environment,
    arguments=lambda port: engine_arguments(
        recipe, model=str(REPOSITORY / recipe.checkpoint.name), host=HOST, port=port
    ),
    model=recipe.target,
    env={**recipe.engine.env, **cache_environment(installed_bundle().caches)},
    log=Path("engine.log"),
    ready_timeout_s=recipe.engine.ready_timeout_s,
)
with ProcessEngine(launch, run=0, clock=time.monotonic) as running:
    body = {"model": running.model, "prompt": [5, 6, 7], "max_tokens": 4, "ignore_eos": True}
    request = urllib.request.Request(
        f"{running.base_url}/v1/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request) as answer:
        usage = json.load(answer)["usage"]
    family = psutil.Process(running.body.process._guard.pid).children(recursive=True)
    loaded = {file.path for process in family for file in process.memory_maps()}
    site = str(REPOSITORY.parent / "engine")
    ours = any(path.startswith(site) for path in loaded)
    print(json.dumps([usage["completion_tokens"], running.started.version, ours]))
"""


def test_it_serves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = load_recipe("cpu")
    engine = ensure_environment(recipe.engine.lock, say=print)  # stands for the host's Python
    repository = tmp_path / "repository"
    copy_repository(repository)
    commit_all(repository)
    closure = wheels.client_requirements(REPOSITORY)
    monkeypatch.setattr(wheels, "client_requirements", lambda _repository: without(closure, HEAVY))
    monkeypatch.setattr("bench.bundle.archive._XZ", ("xz", "--compress", "--stdout", "-0"))
    locked = blocks((repository / "docker/locks/engine-cpu.txt").read_text())
    here = installed_packages(next(engine.python.parents[1].glob("lib/python*/site-packages")))
    host_packages = {name: here[name] for name in locked if name in here and name not in CARRIED}
    signer = new_signer()
    made = make_bundle(
        recipe,
        Options(
            out=tmp_path / "bundle",
            part_size=10**7,
            host=Host(python=PYTHON),
            host_packages=host_packages,
            keep=OUR_RULES,
        ),
        say=print,
        signer=signer,
        repository=repository,
    )
    host = BareHost(tmp_path / "host", engine.python)
    shutil.move(made.folder, host.folder / "carried")
    answer = host.run(["/bin/sh", "carried/install.sh", "--signer", signer.key_id, "--no-compile"])
    assert answer.returncode == 0, answer.stderr
    served = host.run(
        ["streamproof-cpu/client-env/bin/python", "-I", "-c", SERVE], loopback=True, env={"PATH": os.environ["PATH"]}
    )
    assert served.returncode == 0, served.stderr
    assert json.loads(served.stdout.splitlines()[-1]) == [4, recipe.engine.version, True]
