"""`docs/your-own-recipe.md`: its files and its commands, taken out of the page and run again.

What needs no engine runs always, with a checkpoint that has everything but weights; the whole of it, on the real
engine, is a thorough test.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bench.engine.environment import ensure_environment
from bench.errors import UsageError
from bench.report import folder_files as files
from quantize.checkpoint import TOY
from recipes.load import load_recipe

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "your-own-recipe.md").read_text(encoding="utf-8")
HASH = re.compile(r"\b[0-9a-f]{12,64}\b")
LIGHT = ("show", "workload", "preflight")
"""Commands that start no engine."""


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", TEXT, flags=re.MULTILINE | re.DOTALL)


def commands() -> list[tuple[str, list[str]]]:
    """Each command that the page shows, with the lines that it shows of what was printed."""
    found: list[tuple[str, list[str]]] = []
    for line in "".join(blocks("console")).splitlines():
        if line.startswith("$ "):
            found.append((line.removeprefix("$ "), []))
        else:
            found[-1][1].append(line)
    return found


def flat(text: str) -> str:
    """Without line breaks, which depend on the terminal, and without what hashes say."""
    return " ".join(HASH.sub("#", text).split())


def write_recipes(folder: Path) -> None:
    cpu, h200 = blocks("toml")
    (folder / "garage.toml").write_text(cpu, encoding="utf-8")
    (folder / "garage-h200.toml").write_text(h200, encoding="utf-8")


@pytest.fixture(scope="module")
def garage(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page's folder after its second step, without weights."""
    folder = tmp_path_factory.mktemp("garage")
    write_recipes(folder)
    (folder / "checkpoint").mkdir()
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        shutil.copy(TOY / name, folder / "checkpoint")
    (folder / "checkpoint" / "config.json").write_text(json.dumps({"architectures": ["LlamaForCausalLM"]}))
    return folder


def run(command: str, folder: Path, *more: str) -> subprocess.CompletedProcess[str]:
    """A `just` command of the page, as the justfile would start it."""
    words = shlex.split(command.replace("~/garage", str(folder)))
    assert words[0] == "just"
    return subprocess.run(
        [sys.executable, "-m", "bench", *words[1:], *more],
        cwd=ROOT,
        env={**os.environ, "COLUMNS": "400", "XDG_CONFIG_HOME": str(folder / "config")},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_page_shows_the_commands_that_this_file_knows() -> None:
    shown = [shlex.split(command)[1] for command, _ in commands()]
    assert shown == ["show", "workload", "preflight", "repro", "verify", "show", "repro"]


@pytest.mark.parametrize(
    ("command", "shown"),
    [pytest.param(*each, id=each[0]) for each in commands() if shlex.split(each[0])[1] in LIGHT],
)
def test_a_command_prints_what_the_page_shows(command: str, shown: list[str], garage: Path) -> None:
    ended = run(command, garage)
    printed = flat((ended.stdout + ended.stderr).replace(str(garage), "~/garage"))
    place = 0
    for part in re.split(r"^\.\.\.$", "\n".join(shown), flags=re.MULTILINE):
        assert flat(part) in printed[place:], part
        place = printed.index(flat(part), place) + len(flat(part))
    assert (ended.returncode != 0) == shown[0].startswith("error: ")


def test_the_recipe_is_what_the_page_says_of_it(garage: Path) -> None:
    recipe = load_recipe(str(garage / "garage.toml"))
    assert (recipe.checkpoint.kind, recipe.checkpoint.name) == ("folder", str(garage / "checkpoint"))
    (promise,) = (claim for claim in recipe.claims if claim.by == "project" and recipe.target in claim.targets)
    assert (promise.point.streams, promise.value_s) == (4, 1.0)
    assert load_recipe(str(garage / "garage-h200.toml")).hardware.gpu == "H200"


@pytest.mark.parametrize(
    ("overrides", "removed"),
    [
        ({}, '"load.ramp_s"'),
        ({"workload.promt_tokens": "3"}, None),
    ],
)
def test_mistakes_are_told_as_the_page_says(
    overrides: dict[str, str], removed: str | None, garage: Path, tmp_path: Path
) -> None:
    lines = (garage / "garage.toml").read_text(encoding="utf-8").splitlines()
    broken = tmp_path / "garage.toml"
    broken.write_text("\n".join(line for line in lines if not (removed and line.startswith(removed))))
    with pytest.raises(UsageError) as caught:
        load_recipe(str(broken), overrides)
    told = f"{caught.value.message} ... {caught.value.remedy}"
    quoted = re.findall(r"^\| `([^`]+)`", TEXT, flags=re.MULTILINE)
    assert any(all(part in told for part in row.split(" ... ")) for row in quoted)


@pytest.mark.parametrize(
    "override", ['workload.agents=["reception"]', "checkpoint.name=nowhere"], ids=["agent", "folder"]
)
def test_mistakes_of_the_workload_too(override: str, garage: Path) -> None:
    ended = run("just workload ~/garage/garage.toml", garage, "--set", override)
    quoted = re.findall(r"^\| `([^`]+)`", TEXT, flags=re.MULTILINE)
    assert any(row in flat(ended.stderr) for row in quoted), ended.stderr


@pytest.mark.alone
@pytest.mark.engine
@pytest.mark.thorough
def test_the_page_can_be_followed_to_a_report(tmp_path: Path) -> None:
    """A shorter window than the page's; whether the client was undisturbed is this machine's business."""
    write_recipes(tmp_path)
    (make,) = blocks("python")
    (tmp_path / "make_checkpoint.py").write_text(make, encoding="utf-8")
    environment = ensure_environment(load_recipe("cpu").engine.lock, say=print)
    subprocess.run([environment.python, tmp_path / "make_checkpoint.py"], cwd=ROOT, check=True)
    short = ("--set", "load.ramp_s=3", "--set", "load.steady_s=12", "--reports", str(tmp_path / "reports"))
    ended = run("just repro ~/garage/garage.toml", tmp_path, *short)
    (folder,) = (tmp_path / "reports" / "garage").iterdir()
    report: dict[str, Any] = json.loads((folder / files.REPORT).read_bytes())
    told = {(check["rule"], check["point"]): check for check in report["checks"]}
    for point in report["points"]:
        assert point["complete"], ended.stderr
        assert point["failures"] == {}
        hits = point["prefix_cache"]
        assert hits["measured_hit_tokens"] == hits["predicted_hit_tokens"] > 0
        for rule in ("client totals equal the engine's", "prefix hits are as predicted"):
            assert told[rule, point["index"]]["verdict"] == "kept"
    assert told["the same request gets the same answer after others", None]["verdict"] == "kept"
    assert run("just verify", tmp_path, str(folder)).returncode == 0
