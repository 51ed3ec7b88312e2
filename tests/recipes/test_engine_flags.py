"""No recipe has a flag that the pinned engine does not know: its own parser says so."""

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from bench.engine.environment import ensure_environment
from recipes.command import engine_arguments
from recipes.load import load_recipe, targets
from recipes.schema import Recipe

pytestmark = pytest.mark.engine
PARSE = Path(__file__).with_name("parse_flags.py")


@dataclass(frozen=True)
class Parsed:
    """What the parser made of a command line: the status that it would have ended with, None where it took it."""

    status: int | None
    said: str


def arguments(recipe: Recipe) -> list[str]:
    return engine_arguments(recipe, model="model", host="127.0.0.1", port=8000)


@pytest.fixture(scope="module")
def parsed() -> dict[str, Parsed]:
    """Of every target, and of "wrong"; by one process: vLLM takes seconds to be imported."""
    environment = ensure_environment("engine-cpu", say=print)
    lines = {target: arguments(load_recipe(target)) for target in targets()}
    lines["wrong"] = arguments(load_recipe("cpu", {"engine.flags.max_num_sequences": "8"}))
    done = subprocess.run(
        [environment.python, PARSE],
        input=json.dumps(list(lines.values())),
        env={**os.environ, **environment.env},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    answers = json.loads(done.stdout.splitlines()[-1])
    return {name: Parsed(*answer) for name, answer in zip(lines, answers, strict=True)}


def test_every_recipe_parses(parsed: dict[str, Parsed]) -> None:
    refused = {name: answer.said for name, answer in parsed.items() if answer.status is not None and name != "wrong"}
    assert refused == {}


def test_a_flag_that_the_engine_does_not_know_is_caught(parsed: dict[str, Parsed]) -> None:
    assert parsed["wrong"].status == 2
    assert "max-num-sequences" in parsed["wrong"].said
