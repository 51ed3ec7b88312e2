"""A whole ablation against the reference server, whose latency each factor changes by a known amount."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from bench.errors import Exit, StreamproofError
from bench.explain.ablate import command, folder
from bench.explain.ablate.course import is_done, run_all
from bench.explain.ablate.plan import AblationPlan
from bench.explain.ablate.planning import plan_of
from bench.explain.ablate.summary import reports_of
from bench.report.keys import trusted_keys
from bench.repro import Wishes, reproduce
from recipes.load import load_recipe
from recipes.schema import Recipe
from tests.truth.process import running

FASTER = 0.6
"""What the one factor does to the latency of the server."""
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


class Server:
    """Starts the reference server for one run, slower where the factor is off; can stop like Ctrl-C."""

    def __init__(self, tmp_path: Path) -> None:
        self.tmp_path = tmp_path
        self.started: list[tuple[str, str]] = []
        self.interrupt_at: int | None = None

    def __call__(self, recipe: Recipe, reports: Path, nonce: str) -> int:
        fast = recipe.engine.flags["max_num_seqs"] == 32
        self.started.append((recipe.title.rsplit(" ", 1)[-1], nonce))
        if len(self.started) == self.interrupt_at:
            return Exit.INTERRUPTED
        median = 0.06 * (FASTER if fast else 1.0)
        script = {
            "prefix_caching": True,
            "block_size": 16,
            "law": {"e2e_p50_s": median, "e2e_p95_s": median * 1.2},
            "seed": len(self.started),
        }
        with running(script, folder=self.tmp_path) as server:
            wishes = Wishes(base_url=server.base_url)
            return reproduce(recipe, reports=reports, wishes=wishes, quiet=True, as_json=False, nonce=nonce)


@pytest.fixture
def plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AblationPlan:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    base = tmp_path / "few-seats.toml"
    base.write_text(
        'extends = "cpu"\ntitle = "Fewer seats"\n[engine.flags]\nmax_num_seqs = 8\n'
        '[sources]\n"engine.flags.max_num_seqs" = { kind = "assumption", why = "to see what it does" }\n'
    )
    target = load_recipe("cpu", SETTINGS | {"engine.flags.max_num_seqs": "32"})
    return plan_of(load_recipe(str(base)), target, wanted=[], blocks=2, seed=3)


@pytest.mark.alone
def test_interrupted_resumed_summarized_signed_and_verified(plan: AblationPlan, tmp_path: Path) -> None:
    server = Server(tmp_path)
    server.interrupt_at = 2
    code = command.ablate(plan, tmp_path / "reports", server, as_json=True)
    assert code == Exit.INTERRUPTED
    (made,) = (tmp_path / "reports/ablation").iterdir()
    partly = json.loads((made / folder.SUMMARY).read_bytes())
    assert (partly["blocks"], partly["complete"]) == (0, False)
    assert partly["figures"][0]["none"] == "no complete block"

    server.interrupt_at = None
    kept = len(reports_of(made / plan.order[0].folder(1)))
    # A run that other work on this machine disturbed is invalid and stays missing: the next resume repeats it.
    assert Exit.OK in (command.resume(made, server, as_json=True) for _ in range(6))
    assert len(reports_of(made / plan.order[0].folder(1))) == kept  # what was there is not measured again
    nonces = {nonce.partition(" try")[0] for _, nonce in server.started}
    assert nonces == {"ablation 3 block 1", "ablation 3 block 2"}  # prompts of its own in every block

    trusted = trusted_keys(allow_list=None)
    ablation = folder.check(made, trusted)
    assert (ablation.blocks, ablation.complete, len(ablation.runs)) == (2, True, 4)
    median = ablation.figures[0]
    (factor,) = median.factors
    # The client's own time is in both; it is a millisecond of some forty.
    assert factor.added_first is not None
    assert factor.added_first.ratio == pytest.approx(FASTER, abs=0.06)
    assert factor.added_first.low is not None
    assert factor.added_first.low < FASTER + 0.02
    assert command.check(made, (), as_json=False) == Exit.OK
    for name in (folder.PAGE, folder.MARKDOWN):
        assert "max_num_seqs" in (made / name).read_text() or "batch" in (made / name).read_text()

    for spoil in (_edit_summary, _edit_a_report, _replace_the_plan):
        _refused_after(spoil, made, partial(folder.check, made, trusted))


def _refused_after(spoil: Callable[[Path], Path], made: Path, check: Callable[[], object]) -> None:
    path = spoil(made)
    with pytest.raises(StreamproofError, match="not verified"):
        check()
    path.write_bytes(path.with_suffix(".kept").read_bytes())
    path.with_suffix(".kept").unlink()
    check()


def _edit(path: Path, old: bytes, new: bytes) -> Path:
    raw = path.read_bytes()
    assert old in raw
    path.with_suffix(".kept").write_bytes(raw)
    path.write_bytes(raw.replace(old, new, 1))
    return path


def _edit_summary(made: Path) -> Path:
    return _edit(made / folder.SUMMARY, b'"ratio": 0.', b'"ratio": 0.1')


def _edit_a_report(made: Path) -> Path:
    report = next(made.glob("runs/*/*/*/report.md"))
    return _edit(report, b"streams", b"callers")


def _replace_the_plan(made: Path) -> Path:
    return _edit(made / folder.PLAN, b'"seed": 3', b'"seed": 4')


def test_an_invalid_run_is_repeated_once_and_then_left(plan: AblationPlan, tmp_path: Path) -> None:
    tried: list[str] = []
    said: list[str] = []

    def start(_recipe: Recipe, _reports: Path, nonce: str) -> int:
        tried.append(nonce)
        return Exit.INVALID

    folder.begin(tmp_path / "a", plan)
    run_all(tmp_path / "a", plan, start, said.append)
    assert len(tried) == 2 * len(plan.order)
    assert "and stays so" in "".join(said)
    assert not is_done(tmp_path / "a" / plan.order[0].folder(1))
    ablation = folder.finish(tmp_path / "a", trusted_keys(allow_list=None))
    assert not ablation.complete
    assert {figure.none for figure in ablation.figures} == {"no complete block"}
    assert len(ablation.left_out) == 2


def test_an_engine_that_cannot_start_says_how_to_go_on(
    plan: AblationPlan, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def start(_recipe: Recipe, _reports: Path, _nonce: str) -> int:
        raise StreamproofError("the engine died")

    with pytest.raises(StreamproofError, match="the engine died"):
        command.ablate(plan, tmp_path / "reports", start, as_json=False)
    said = capsys.readouterr().err
    assert "--resume" in said
    assert "--factors" in said


def test_a_dry_run_shows_factors_order_and_time(plan: AblationPlan, capsys: pytest.CaptureFixture[str]) -> None:
    assert command.dry_run(plan, as_json=False) == Exit.OK
    shown = capsys.readouterr().out
    for words in ("batch", "engine.flags.max_num_seqs", "block 2:", "4 engine starts", "of measuring"):
        assert words in shown
    assert command.dry_run(plan, as_json=True) == Exit.OK
    assert AblationPlan.model_validate_json(capsys.readouterr().out) == plan


def test_a_folder_that_is_none_is_said(tmp_path: Path) -> None:
    for act in (partial(folder.read_plan, tmp_path), partial(folder.check, tmp_path, {})):
        with pytest.raises(StreamproofError, match="holds no plan"):
            act()
    (tmp_path / folder.PLAN).write_text("{}")
    with pytest.raises(StreamproofError, match="no plan of this version"):
        folder.read_plan(tmp_path)
