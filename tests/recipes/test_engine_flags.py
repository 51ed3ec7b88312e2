"""No recipe has a flag that the pinned engine does not know: its own parser says so."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from bench.engine.environment import EngineEnvironment, ensure_environment
from recipes.command import engine_arguments
from recipes.load import load_recipe, targets

pytestmark = pytest.mark.engine
PARSE = Path(__file__).with_name("parse_flags.py")


@pytest.fixture(scope="module")
def environment() -> EngineEnvironment:
    return ensure_environment("engine-cpu", say=print)


def parse(environment: EngineEnvironment, lines: list[list[str]]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [environment.python, PARSE],
        input=json.dumps(lines),
        env={**os.environ, **environment.env},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def test_every_recipe_parses(environment: EngineEnvironment) -> None:
    lines = [engine_arguments(load_recipe(t), model="model", host="127.0.0.1", port=8000) for t in targets()]
    done = parse(environment, lines)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == {"parsed": True}


def test_a_flag_that_the_engine_does_not_know_is_caught(environment: EngineEnvironment) -> None:
    recipe = load_recipe("cpu", {"engine.flags.max_num_sequences": "8"})
    done = parse(environment, [engine_arguments(recipe, model="model", host="127.0.0.1", port=8000)])
    assert done.returncode == 2
    assert "max-num-sequences" in done.stderr
