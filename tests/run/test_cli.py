import json
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from typer.testing import CliRunner

from bench.cli import app, parse_overrides
from bench.errors import Exit, UsageError
from recipes.load import targets

ROOT = Path(__file__).parents[2]
runner = CliRunner()


def test_recipes_lists_every_target() -> None:
    listed = json.loads(runner.invoke(app, ["recipes", "--json"]).output)
    assert [entry["target"] for entry in listed] == targets()
    shown = runner.invoke(app, ["recipes"]).output
    assert all(target in shown for target in targets())


def test_it_says_its_version() -> None:
    said = runner.invoke(app, ["--version"])
    assert (said.exit_code, said.output) == (Exit.OK, f"streamproof {version('streamproof')}\n")


def test_show_prints_recipe_fingerprint_and_command_line() -> None:
    shown = runner.invoke(app, ["show", "b200-nvfp4", "--set", "load.turn_gap.mean_s=8"]).output
    assert 'kind = "article"' in shown
    assert "mean_s = 8" in shown
    assert "set on the command line" in shown
    assert "fingerprint" in shown
    assert "without the checkpoint's hash" in shown
    command = runner.invoke(app, ["show", "b200-nvfp4", "--command"]).output
    assert command.startswith("vllm serve checkpoints/Qwen3.5-35B-A3B-NVFP4 ")
    assert "--quantization modelopt_fp4" in command


def test_the_fingerprint_of_a_bundled_checkpoint_is_whole() -> None:
    shown = runner.invoke(app, ["show", "cpu"]).output
    assert "without" not in shown.split("fingerprint", 1)[1]


def test_workload_prints_a_call_that_people_can_read() -> None:
    shown = runner.invoke(app, ["workload", "cpu", "--stream", "1"]).output
    assert "stream 1" in shown
    assert "caller" in shown
    assert "tokens" in shown


def test_overrides_are_key_value_pairs() -> None:
    assert parse_overrides(["a.b = 3", "c=x=y"]) == {"a.b": "3", "c": "x=y"}
    assert parse_overrides(None) == {}
    for wrong in ("a.b", "=3", " =3"):
        with pytest.raises(UsageError, match="no KEY=VALUE"):
            parse_overrides([wrong])


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["show", "b200-nvfp5"], Exit.USAGE, "Did you mean b200-nvfp4?"),
        (["show", "cpu", "--set", "load.ramp=3"], Exit.USAGE, "Did you mean load.ramp_s?"),
        (["repro", "cpu", "--nonsense"], Exit.USAGE, "No such option"),
        (["repro", "b200-nvfp4"], Exit.FAILURE, "needs 1 B200 GPU"),
    ],
)
def test_wrong_input_is_one_message_with_a_remedy_and_an_exit_code(arguments: list[str], code: Exit, says: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "bench", *arguments], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == code
    assert says in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize("command", [[], ["repro"], ["verify"], ["show"], ["workload"], ["recipes"], ["finish"]])
def test_help_teaches(command: list[str]) -> None:
    shown = runner.invoke(app, [*command, "--help"])
    assert shown.exit_code == 0
    assert len(shown.output.splitlines()) > 8
