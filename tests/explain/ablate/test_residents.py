"""Whole ablations on engines that stay: reference servers whose latency each factor changes by a known amount."""

from __future__ import annotations

import json
import signal
import threading
from functools import partial
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from bench.errors import Exit, StreamproofError
from bench.explain.ablate import command, folder, residents
from bench.explain.ablate.planning import Residency, plan_of
from bench.report import folder_files as files
from bench.report.folder_evidence import parse_observations
from bench.report.keys import trusted_keys
from recipes.load import load_recipe
from tests.explain.ablate.resident_truth import TruthRun, engines

if TYPE_CHECKING:
    from pathlib import Path

    from bench.explain.ablate.plan import AblationPlan
    from bench.observe.observations import EngineStarted
    from recipes.schema import Recipe

pytestmark = pytest.mark.alone

FASTER = 0.6
SETTINGS = {
    "workload.api": "token_ids",
    "workload.prompt_tokens": "900",
    "workload.shared_prefix_tokens": "500",
    "workload.output_tokens": "8",
    "load.ladder": "[{streams = 8}]",
    "load.turn_gap": '{distribution = "fixed", mean_s = 0.05}',
    "load.ramp_s": "0.2",
    "load.steady_s": "1.3",
}


def planned(base: dict[str, str], target: dict[str, str], *, blocks: int, at_once: int = 3) -> AblationPlan:
    """A plan whose factors are environment variables."""

    def recipe(env: dict[str, str]) -> Recipe:
        return load_recipe("cpu", SETTINGS | {f"engine.env.TRUTH_{key}": f'"{value}"' for key, value in env.items()})

    residency = Residency(at_once=at_once)
    return plan_of(recipe(base), recipe(target), wanted=[], blocks=blocks, seed=3, only="removed", residency=residency)


@pytest.fixture(autouse=True)
def servers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setattr(residents, "ProcessRun", TruthRun)
    monkeypatch.setattr(residents, "check_hardware", lambda *_, **__: ())


def started(report: Path) -> EngineStarted:
    seen = parse_observations((report / files.OBSERVATIONS).read_bytes())
    return next(each for each in seen if each.kind == "engine_started")


def test_engines_are_started_once_measured_in_turns_and_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = planned({"FACTOR_A": "1"}, {"FACTOR_A": str(FASTER)}, blocks=2)
    alive: list[int] = []
    measure = residents.Residents.measure

    def interrupted(self: residents.Residents, *arguments: Any) -> int:
        alive.append(len(engines(tmp_path)))
        return Exit.INTERRUPTED if len(alive) == 2 else measure(self, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(residents.Residents, "measure", interrupted)
        assert command.ablate(plan, tmp_path / "reports", as_json=True) == Exit.INTERRUPTED
    assert alive == [2, 2]
    assert engines(tmp_path) == {}
    (made,) = (tmp_path / "reports/ablation").iterdir()
    # A run that other work on this machine disturbed is invalid and stays missing: the next resume repeats it.
    assert Exit.OK in (command.resume(made, as_json=True) for _ in range(6))
    assert engines(tmp_path) == {}

    ablation = folder.check(made, trusted_keys(allow_list=None))
    assert (ablation.blocks, ablation.complete, len(ablation.runs)) == (2, True, 4)
    first = ablation.figures[0].factors[0]
    assert first.removed_last is not None
    assert first.removed_last.ratio == pytest.approx(FASTER, abs=0.08)
    assert (first.added_first, first.share, ablation.figures[0].total) == (None, None, None)

    by_start: dict[str, list[int]] = {}
    for run in ablation.runs:
        seen = started(made / run.report)
        assert seen.resident is not None
        assert seen.resident.start == run.start
        assert seen.ready_s is not None
        assert seen.resident.age_s > 0
        by_start.setdefault(seen.resident.start, []).append(seen.resident.measurement)
        log = (made / run.report / files.engine_log(0)).read_text()
        assert log.startswith("listening on ")
        page = (made / run.report / files.PAGE).read_text()
        assert "measurement" in page
        assert "started before this run" in page
        told = json.loads((made / run.report / files.REPORT).read_bytes())["assumptions"]
        assert "engine start" in {each["key"] for each in told}
    assert all(len(set(numbers)) == len(numbers) for numbers in by_start.values())
    assert ablation.starts == len(by_start)
    capsys.readouterr()
    assert command.check(made, (), as_json=False) == Exit.OK
    assert "does most in cpu" in capsys.readouterr().out


def test_an_engine_that_dies_or_does_not_start_ends_its_own_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    base = {"FACTOR_A": "1", "FACTOR_B": "1", "BROKEN": "1"}
    plan = planned(base, {"FACTOR_A": str(FASTER), "FACTOR_B": "0.9"}, blocks=1, at_once=4)
    measured: list[str] = []
    measure = residents.Residents.measure

    def deadly(self: residents.Residents, name: str, *arguments: Any) -> int:
        measured.append(name)
        if measured.count("without-env-truth-factor-b") == 1 and name == "without-env-truth-factor-b":
            victim = engines(tmp_path)[name]
            victim.kill()
            psutil.wait_procs([victim], timeout=60)
        return measure(self, name, *arguments)

    monkeypatch.setattr(residents.Residents, "measure", deadly)
    assert command.ablate(plan, tmp_path / "reports", as_json=False) == Exit.INVALID
    assert engines(tmp_path) == {}
    said = " ".join(capsys.readouterr().err.split())
    assert "without-env-truth-broken did not start: the engine died while" in said
    assert "unrecognized arguments: --nonsense" in said
    assert "without-env-truth-factor-b ends here, the others go on" in said
    assert measured.count("without-env-truth-factor-b") == 1
    assert "without-env-truth-broken" not in measured

    (made,) = (tmp_path / "reports/ablation").iterdir()
    ablation = folder.check(made, trusted_keys(allow_list=None))
    left_out = " ".join(ablation.left_out)
    assert "without-env-truth-broken: in block 1 it is not run yet" in left_out
    assert "without-env-truth-factor-b: in block 1 it is" in left_out
    assert not ablation.complete


@pytest.mark.parametrize(("base", "target"), [({"BROKEN": "1"}, {}), ({}, {"BROKEN": "1"})])
def test_with_one_engine_there_is_nothing_to_compare(
    tmp_path: Path, base: dict[str, str], target: dict[str, str]
) -> None:
    with pytest.raises(StreamproofError, match="did not start: the engine died while"):
        command.ablate(planned(base, target, blocks=1), tmp_path / "reports", as_json=True)
    assert engines(tmp_path) == {}


def test_ctrl_c_while_engines_start_leaves_none(tmp_path: Path) -> None:
    plan = planned({"FACTOR_A": "1", "HANGS": "1"}, {"FACTOR_A": "0.5", "HANGS": "1"}, blocks=1)
    waiting: list[str] = []

    def say(line: str) -> None:
        if "importing the engine" in line:
            waiting.append(line)
            if len(waiting) == 2:
                signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    recipes = {each.name: plan.recipe(each.name) for each in plan.configurations}
    begin = partial(residents.residents, recipes, tmp_path / "engines", engine=None, quiet=True, say=say)
    with pytest.raises(KeyboardInterrupt), begin():
        raise AssertionError("no engine ever answers")
    assert len(waiting) == 2
    assert engines(tmp_path) == {}
