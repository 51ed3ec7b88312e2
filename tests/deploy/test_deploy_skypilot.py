"""The SkyPilot task: its fields, and what bash does with its commands."""

import subprocess
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.deploy import skypilot
from bench.deploy.asked import Asked
from bench.engine.pins import REPOSITORY, load_pins
from bench.errors import UsageError
from recipes.load import load_recipe
from tests.deploy.hostile import asked, bash_words, texts
from tests.deploy.skypilot_schema import TASK

VLLM = load_pins().image("vllm-openai")


def task(one: Asked, image: str | None = None) -> dict[str, Any]:
    read: dict[str, Any] = yaml.safe_load(skypilot.task(one, image))
    jsonschema.validate(read, TASK)
    return read


@pytest.mark.parametrize(
    "target", ["vanilla", "h200-fp8", "h200-fp8-dp2-dummy", "h200-fp8-x2-dummy", "b200-fp8", "b200-nvfp4"]
)
def test_a_task_asks_for_the_recipes_cards_and_the_pinned_image(target: str) -> None:
    read = task(asked(target))
    hardware = load_recipe(target).hardware
    assert read["resources"]["accelerators"] == f"{hardware.gpu}:{hardware.count}"
    assert read["resources"]["image_id"] == f"docker:{VLLM.reference}@{VLLM.linux_amd64}"
    assert read["name"] == f"streamproof-{target}"
    assert read["envs"] == {"REPORTS": None}
    assert read["file_mounts"]["/reports"] == {"source": "${REPORTS}", "mode": "MOUNT"}


def test_the_schema_is_strict() -> None:
    read = yaml.safe_load(skypilot.task(asked(), None))
    for wrong in (
        {**read, "acclerators": "H200:1"},
        {**read, "setup": None},
        {**read, "file_mounts": {"reports": "x"}},
    ):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(wrong, TASK)


def test_a_checkpoint_that_git_ignores_is_brought_along() -> None:
    mounts = task(asked("b200-nvfp4"))["file_mounts"]
    assert mounts["~/sky_workdir/checkpoints/Qwen3.5-35B-A3B-NVFP4"] == "./checkpoints/Qwen3.5-35B-A3B-NVFP4"
    assert list(task(asked("h200-fp8"))["file_mounts"]) == ["/reports"]


def test_an_image_of_ones_own() -> None:
    own = "registry.example/h200@sha256:" + "b" * 64
    assert task(asked(), own)["resources"]["image_id"] == f"docker:{own}"
    with pytest.raises(UsageError, match="does not say which image"):
        task(asked(), "registry.example/h200:latest")


def test_a_recipe_of_ones_own_must_lie_in_the_checkout(tmp_path: Path) -> None:
    mine = tmp_path / "mine.toml"
    mine.write_text('extends = "h200-fp8-dummy"\n')
    with pytest.raises(UsageError, match="outside the checkout"):
        skypilot.task(Asked(recipe=load_recipe(str(mine)), target=str(mine)), None)
    ours = REPOSITORY / "recipes" / "h200-fp8-dummy.toml"
    read = task(Asked(recipe=load_recipe(str(ours)), target=str(ours)))
    assert "recipes/h200-fp8-dummy.toml" in read["run"].split()


def test_a_checkpoint_outside_the_checkout_is_refused() -> None:
    overrides = {"checkpoint.kind": "bundled", "checkpoint.name": "/elsewhere/model"}
    recipe = load_recipe("b200-nvfp4", overrides)
    with pytest.raises(UsageError, match="cannot be carried to another machine"):
        skypilot.task(Asked(recipe=recipe, target="b200-nvfp4", overrides=overrides), None)


def test_a_card_that_skypilot_cannot_name_is_refused() -> None:
    overrides = {"hardware.gpu": "H200:8, B200"}
    recipe = load_recipe("h200-fp8", overrides)
    with pytest.raises(UsageError, match="knows no card called"):
        skypilot.task(Asked(recipe=recipe, target="h200-fp8", overrides=overrides), None)


def run(read: dict[str, Any], tmp_path: Path, just: str) -> subprocess.CompletedProcess[str]:
    """Its `run`, in a checkout with a `just` of ours; the bucket is a folder."""
    (tmp_path / ".tools" / "bin").mkdir(parents=True)
    (tmp_path / ".tools" / "bin" / "just").write_text(f"#!/bin/bash\n{just}\n")
    (tmp_path / ".tools" / "bin" / "just").chmod(0o755)
    (tmp_path / "bucket").mkdir()
    script = read["run"].replace(" /reports/", f" {tmp_path}/bucket/")
    assert script != read["run"]
    return subprocess.run(["bash", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False)


def test_reports_reach_the_bucket_and_the_exit_code_is_kept(tmp_path: Path) -> None:
    just = 'mkdir -p reports/h200/x; printf "%s " "$@" > reports/h200/x/report.json; exit 3'
    done = run(task(asked()), tmp_path, just)
    assert (done.returncode, done.stderr) == (3, "")
    assert done.stdout == "streamproof repro ended with 3\n"
    kept = tmp_path / "bucket" / "h200" / "x" / "report.json"
    assert kept.read_text() == "repro h200-fp8-dummy --engine process "


def test_a_run_that_left_no_report_keeps_its_exit_code_too(tmp_path: Path) -> None:
    assert run(task(asked()), tmp_path, "exit 2").returncode == 2


def test_setup_is_sound_bash() -> None:
    subprocess.run(["bash", "-n", "-c", task(asked())["setup"]], check=True)


@settings(max_examples=30)
@given(texts, st.dictionaries(texts, texts, max_size=2))
def test_a_hostile_recipe_changes_no_more_than_its_own_words(title: str, overrides: dict[str, str]) -> None:
    written = skypilot.task(asked(title=title, overrides=overrides), None)
    assert written.isascii()
    read, plain = yaml.safe_load(written), task(asked())
    assert {**read, "run": ""} == {**plain, "run": ""}
    script = read["run"]
    array = script[script.index("words=(") : script.index("\n)\n") + 3]
    sets = [word for key, value in overrides.items() for word in ("--set", f"{key}={value}")]
    assert bash_words(array) == ["repro", "h200-fp8-dummy", *sets, "--engine", "process"]
