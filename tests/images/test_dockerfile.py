"""The Dockerfile: its rules, and that it says the same as the modules and the pins."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from bench.engine.caches import cache_environment
from bench.engine.pins import REPOSITORY, load_pins
from bench.images import layout
from bench.images.inside import health
from tests.images.dockerfile_rules import parse, wrong

TEXT = (REPOSITORY / "Dockerfile").read_text()
STAGES = {stage.name: stage for stage in parse(TEXT)}
SERVES = ["serve-cuda", "serve-cpu"]


def hadolint(path: Path) -> subprocess.CompletedProcess[str]:
    program = shutil.which("hadolint", path=str(Path(sys.executable).parent)) or "hadolint"
    command = [program, "--config", str(REPOSITORY / ".hadolint.yaml"), str(path)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_hadolint_finds_nothing() -> None:
    checked = hadolint(REPOSITORY / "Dockerfile")
    assert (checked.returncode, checked.stdout) == (0, "")


def test_hadolint_is_asked_in_earnest(tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text(TEXT + "\nRUN cd /tmp && sudo true\n")
    checked = hadolint(tmp_path / "Dockerfile")
    assert checked.returncode == 1
    assert "DL3004" in checked.stdout


def test_no_rule_is_broken() -> None:
    assert wrong(TEXT) == []


@pytest.mark.parametrize(
    ("instead_of", "there_is", "rule"),
    [
        ("FROM ${BASE} AS bench", "FROM python:3.12 AS bench", "not given by digest: python:3.12"),
        ("FROM ${BASE} AS bench", "FROM python:latest AS bench", "not given by digest: python:latest"),
        ("USER 10001:10001", "USER root", "runs as root"),
        ("USER 10001:10001", "USER streamproof", "runs as streamproof"),
        ("USER 10001:10001\n", "", "runs as root"),
        ("CMD []", "ENV HF_TOKEN=hf_0123456789", "a secret"),
        ("CMD []", "RUN apt-get install -y g++", "fetched"),
        ("CMD []", "COPY --from=busybox:latest /bin/sh /bin/sh", "latest"),
        ("CMD []", "ADD https://example.org/x /x", "fetched"),
        ("# Images of", "# syntax=docker/dockerfile:1\n# Images of", "frontend"),
    ],
)
def test_each_rule_is_noticed_when_it_is_broken(instead_of: str, there_is: str, rule: str) -> None:
    assert instead_of in TEXT
    assert any(rule in line for line in wrong(TEXT.replace(instead_of, there_is)))


def test_every_target_has_a_stage_and_every_stage_a_target() -> None:
    assert {pin.stage for pin in load_pins().targets.values()} == set(STAGES)


@pytest.mark.parametrize("name", STAGES)
def test_a_stage_is_one_layer_and_says_what_it_is_given(name: str) -> None:
    stage = STAGES[name]
    assert [word for word, _ in stage.instructions if word in {"RUN", "COPY", "WORKDIR"}] == ["RUN"]
    arguments = {rest for word, rest in stage.instructions if word == "ARG"}
    assert arguments == {"BASE", "CARRIES", "SOURCE_DATE_EPOCH"} | ({"PYTHON"} if name != "serve-cuda" else set())
    assert stage.env()["HOME"] == layout.HOME
    assert stage.last("HEALTHCHECK")


@pytest.mark.parametrize("name", SERVES)
def test_an_image_that_serves_keeps_its_caches_in_one_folder(name: str) -> None:
    caches = {key: value for key, value in STAGES[name].env().items() if value.startswith(layout.CACHES)}
    everywhere = cache_environment(Path(layout.CACHES))
    assert caches.items() <= everywhere.items()
    if name == "serve-cuda":
        assert caches == everywhere
    assert {"VLLM_CACHE_ROOT", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR"} <= caches.keys()


@pytest.mark.parametrize("name", SERVES)
def test_an_image_that_serves_is_asked_where_it_listens(name: str) -> None:
    assert STAGES[name].last("EXPOSE") == str(layout.PORT)
    assert health.PORT == layout.PORT
    assert f'"{layout.ROOT}/health.py"' in str(STAGES[name].last("HEALTHCHECK"))


def test_an_image_that_serves_starts_the_module_of_the_pins_and_adds_nothing() -> None:
    pins = load_pins()
    for pin in pins.targets.values():
        if pin.engine is not None:
            stage = STAGES[pin.stage]
            assert str(stage.last("ENTRYPOINT")).endswith(f'"-m", "{pins.engine(pin.engine).module}"]')
            assert stage.last("CMD") == "[]"
