"""The Slurm script: what it says to Slurm, and what bash does with it."""

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.deploy import slurm
from bench.deploy.asked import Asked
from bench.deploy.times import job_s, slurm_time
from bench.errors import UsageError
from recipes.load import load_recipe
from tests.deploy.hostile import asked, bash_words, texts

STUB = """#!/bin/bash
printf '%s\\0' "$PWD" "$@" > "$SEEN"
{then}
"""


@pytest.fixture
def submitted(tmp_path: Path) -> Path:
    folder = tmp_path / "where it was submitted"
    folder.mkdir()
    return folder


def environment(tmp_path: Path, submitted: Path, then: str) -> dict[str, str]:
    stub = tmp_path / "bin" / "streamproof"
    stub.parent.mkdir()
    stub.write_text(STUB.format(then=then))
    stub.chmod(0o755)
    return {
        "PATH": f"{stub.parent}{os.pathsep}{os.environ['PATH']}",
        "SLURM_SUBMIT_DIR": str(submitted),
        "SEEN": str(tmp_path / "seen"),
    }


def seen(tmp_path: Path) -> list[str]:
    return (tmp_path / "seen").read_text().split("\0")[:-1]


def written(tmp_path: Path, script: str) -> str:
    path = tmp_path / "job.sbatch"
    path.write_text(script)
    return str(path)


def directives(script: str) -> dict[str, str]:
    found = re.findall(r"^#SBATCH --([a-z-]+)(?:=(.*))?$", script, flags=re.MULTILINE)
    assert len(found) == len(dict(found))
    return dict(found)


def test_what_it_says_to_slurm() -> None:
    one = asked()
    said = directives(slurm.script(one))
    assert said["gres"] == f"gpu:{one.recipe.hardware.count}"
    assert said["exclusive"] == ""
    assert said["signal"] == "B:TERM@120"
    assert said["job-name"] == "streamproof-h200-fp8-dummy"
    # Ten minutes once and three to end; three starts of 30 minutes and one, with four points of 20 + 120 + 60 s.
    assert said["time"] == slurm_time(600 + 180 + 3 * (1800 + 60 + 4 * 200)) == "0-02:26:00"


def test_two_cards_are_two() -> None:
    one = asked()
    hardware = one.recipe.hardware.model_copy(update={"count": 2})
    two = type(one)(recipe=one.recipe.model_copy(update={"hardware": hardware}), target=one.target)
    assert directives(slurm.script(two))["gres"] == "gpu:2"


def test_the_time_of_slurm() -> None:
    assert [slurm_time(s) for s in (1, 60, 61, 3600, 86_400, 93_784)] == [
        "0-00:01:00",
        "0-00:01:00",
        "0-00:02:00",
        "0-01:00:00",
        "1-00:00:00",
        "1-02:04:00",
    ]


def test_a_run_that_no_scheduler_allows_is_refused() -> None:
    one = asked()
    load = one.recipe.load.model_copy(update={"steady_s": 1e300})
    forever = type(one)(recipe=one.recipe.model_copy(update={"load": load}), target=one.target)
    with pytest.raises(UsageError, match="more than any scheduler allows"):
        slurm.script(forever)


def test_shellcheck_finds_nothing(tmp_path: Path) -> None:
    program = shutil.which("shellcheck", path=str(Path(sys.executable).parent)) or "shellcheck"
    for script in (slurm.script(asked()), slurm.script(asked(overrides={"title": "a 'b\n$(id)"}))):
        checked = subprocess.run(
            [program, "--severity=style", written(tmp_path, script)],
            capture_output=True,
            text=True,
            check=False,
        )
        assert (checked.returncode, checked.stdout) == (0, "")


def test_it_runs_the_recipe_where_it_was_submitted_and_keeps_the_exit_code(tmp_path: Path, submitted: Path) -> None:
    script = slurm.script(asked(overrides={"title": "it's $HOME\nand more"}))
    done = subprocess.run(
        ["bash", written(tmp_path, script)],
        env=environment(tmp_path, submitted, "exit 3"),
        cwd=tmp_path,
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (3, b"")
    assert seen(tmp_path) == [
        str(submitted),
        *("repro", "h200-fp8-dummy", "--set", "title=it's $HOME\nand more", "--engine", "process"),
        *("--reports", f"{submitted}/reports"),
    ]


def test_slurms_signal_reaches_the_client_itself(tmp_path: Path, submitted: Path) -> None:
    client = """import signal, sys
signal.signal(signal.SIGTERM, lambda *_: sys.exit("partial report"))
print("ready", flush=True)
signal.pause()
"""
    then = f"exec {sys.executable} -c '{client}'"
    with subprocess.Popen(
        ["bash", written(tmp_path, slurm.script(asked()))],
        env=environment(tmp_path, submitted, then),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as job:
        assert job.stdout is not None
        assert job.stdout.readline() == "ready\n"
        job.send_signal(signal.SIGTERM)  # to the batch shell alone, as --signal=B: does
        assert job.communicate(timeout=60) == ("", "partial report\n")
        assert job.returncode == 1


@pytest.mark.parametrize("missing", ["SLURM_SUBMIT_DIR", "streamproof"])
def test_what_is_missing_is_told_with_a_remedy(tmp_path: Path, submitted: Path, missing: str) -> None:
    given = environment(tmp_path, submitted, "exit 0")
    if missing == "streamproof":
        given["STREAMPROOF"] = "/nowhere/streamproof"
    else:
        del given[missing]
    done = subprocess.run(
        ["bash", written(tmp_path, slurm.script(asked()))], env=given, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stderr.startswith("error: ")
    assert "\n  do: " in done.stderr
    assert not (tmp_path / "seen").exists()


def test_another_streamproof_can_be_named(tmp_path: Path, submitted: Path) -> None:
    given = environment(tmp_path, submitted, "exit 0")
    bundle = tmp_path / "a bundle"
    (tmp_path / "bin").rename(bundle)
    given["STREAMPROOF"] = str(bundle / "streamproof")
    subprocess.run(["bash", written(tmp_path, slurm.script(asked()))], env=given, check=True)
    assert seen(tmp_path)[1] == "repro"


@settings(max_examples=30)
@given(texts, st.dictionaries(texts, texts, max_size=2))
def test_a_hostile_recipe_changes_no_more_than_its_own_words(title: str, overrides: dict[str, str]) -> None:
    script = slurm.script(asked(title=title, overrides=overrides))
    assert script.isascii()
    assert directives(script) == directives(slurm.script(asked()))
    array = script[script.index("words=(") : script.index("\n)\n") + 3]
    sets = [word for key, value in overrides.items() for word in ("--set", f"{key}={value}")]
    expected = ["repro", "h200-fp8-dummy", *sets, "--engine", "process", "--reports", "/job/reports"]
    assert bash_words(array, environment={"SLURM_SUBMIT_DIR": "/job"}) == expected


def test_a_recipe_of_ones_own_keeps_its_path_and_the_script_says_what_that_means(tmp_path: Path) -> None:
    mine = tmp_path / "mine.toml"
    mine.write_text('extends = "h200-fp8-dummy"\n')
    script = slurm.script(Asked(recipe=load_recipe(str(mine)), target=str(mine)))
    assert f"\n    {mine}\n" in script
    assert "The recipe's file must be there" in script
    assert "The recipe's file must be there" not in slurm.script(asked())


def test_replicas_have_time_for_the_first_to_compile_and_the_others_to_follow() -> None:
    one = load_recipe("h200-fp8-fast-dummy")
    two = load_recipe("h200-fp8-x2-dummy")
    assert job_s(two) - job_s(one) == one.load.runs * one.engine.ready_timeout_s
    assert directives(slurm.script(asked(two.target)))["gres"] == "gpu:2"
