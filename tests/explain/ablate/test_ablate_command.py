"""`just ablate` on the command line: what is missing or wrong is said before anything is started."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from bench.cli import app
from bench.errors import StreamproofError, UsageError
from bench.explain.ablate import folder
from bench.explain.ablate.planning import plan_of
from bench.explain.ablate.summary import summarize
from bench.report.keys import TrustedKey
from tests.explain.compare.sides import recipe_of, report


def invoke(*arguments: str | Path) -> Any:
    return CliRunner().invoke(app, ["ablate", *map(str, arguments)], env={"COLUMNS": "120"})


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "TARGET is missing"),
        (("cpu",), "--from is missing"),
        (("cpu", "--from", "nothing"), "no recipe nothing"),
        (("cpu", "--from", "cpu"), "serve alike"),
        (("h200-fp8", "--from", "vanilla", "--factors", "mpt"), "no factor mpt"),
        (("b200-nvfp4", "--from", "vanilla"), "different hardware"),
        (("cpu-mtp", "--from", "cpu", "--engine", "rocket"), "no such engine"),
        (("cpu-mtp", "--from", "cpu", "--only", "backwards"), "no such direction"),
        (("cpu-mtp", "--from", "cpu", "--kv-gib", "6"), "between engines that stay"),
        (("cpu-mtp", "--from", "cpu", "--only", "removed", "--resident", "--memory-share", "0.3"), "runs on the CPU"),
        (("h200-fp8", "--from", "vanilla", "--resident"), "12 configurations have to run beside each other"),
        (("--resume", "nowhere"), "holds no plan.json"),
        (("--check", "nowhere"), "holds no plan.json"),
    ],
)
def test_what_is_wrong_is_said(arguments: tuple[str, ...], words: str) -> None:
    refused = invoke(*arguments)
    assert isinstance(refused.exception, UsageError)
    assert words in refused.exception.message
    assert refused.exception.remedy


def test_the_articles_ablation_is_planned_without_a_gpu() -> None:
    shown = invoke("h200-fp8", "--from", "vanilla", "--dry-run")
    assert shown.exit_code == 0, shown.output
    for words in ("graphs", "mtp", "kv-cache", "36 engine starts", "engine.flags.kv_cache_dtype"):
        assert words in shown.output
    assert "raise --blocks" not in shown.output
    assert "raise --blocks" in invoke("cpu-mtp", "--from", "cpu", "--factors", "mtp", "--dry-run").output
    plan = json.loads(
        invoke(
            "h200-fp8", "--from", "vanilla", "--factors", "mtp,graphs", "--blocks", "2", "--dry-run", "--json"
        ).output
    )
    assert [factor["slug"] for factor in plan["factors"]] == ["graphs", "mtp"]
    assert len(plan["order"]) == 2 * 4


def test_a_resident_ablation_of_a_card_is_planned_in_groups() -> None:
    """What is asked of an H200: each setting taken away from a recipe, or replaced by another."""
    options = (
        *("h200-fp8-dummy", "--set", "engine.flags.prefix_match_unit=60", "--from", "vanilla"),
        *("--from-set", "engine.flags.linear_backend=deep_gemm"),
        *("--factors", "mtp,kv-cache,deep-gemm", "--only", "removed", "--resident", "--dry-run"),
    )
    shown = " ".join(invoke(*options).output.split())
    for words in (
        "6 engine starts; all of a group start together and stay. Then 18 measurements",
        "group 2: full, without-kv-cache",
        "gpu_memory_utilization is 0.49: one of 2 engines that stay on the card together",
        "without-mtp: prefix_match_unit is 131: 60 does not divide its block of 2,096 tokens.",
        "As the target has it throughout: graphs, gdn-prefill,",
        "preflight of full, without-deep-gemm: sequences:",
        "3 such starts together",
    ):
        assert words in shown, words
    plan = json.loads(invoke(*options, "--json", "--at-once", "4", "--kv-gib", "2").output)
    assert (plan["resident"], plan["only"], {each["group"] for each in plan["order"]}) == (True, "removed", {1})


def test_one_recipe_against_another_needs_two_engines_whatever_differs() -> None:
    shown = " ".join(
        invoke(
            "h200-fp8-fast-dummy", "--from", "h200-fp8-no-mtp-dummy", "--as-one", "--resident", "--dry-run"
        ).output.split()
    )
    assert "2 engine starts; all of a group start together and stay. Then 6 measurements" in shown
    assert "(graphs, mtp, batch, prefix)" in shown


def test_replicas_do_not_stay_and_are_a_factor_beside_data_parallel() -> None:
    refused = invoke("h200-fp8-x2-dummy", "--from", "h200-fp8-dp2-dummy", "--resident", "--dry-run")
    assert isinstance(refused.exception, UsageError)
    assert "engine.replicas asks for several" in refused.exception.message
    assert "Leave --resident out" in refused.exception.remedy
    plan = json.loads(invoke("h200-fp8-x2-dummy", "--from", "h200-fp8-dp2-dummy", "--dry-run", "--json").output)
    assert [factor["slug"] for factor in plan["factors"]] == ["replicas"]


def test_runs_of_one_configuration_are_repeats_or_nothing(tmp_path: Path) -> None:
    plan = plan_of(recipe_of(), recipe_of(engine={"flags": {"max_num_seqs": 8}}), wanted=[], blocks=2, seed=1)
    folder.begin(tmp_path / "a", plan)
    trusted: dict[str, TrustedKey] = {}
    for position, planned in enumerate(plan.order, start=1):
        changed = {"max_num_seqs": 8 if planned.configuration == "full" else planned.block}
        made = report(
            tmp_path / str(position), runs=1, seed=position, recipe=recipe_of(runs=1, engine={"flags": changed})
        )
        trusted |= made.trusted
        made.copy(tmp_path / "a" / planned.folder(position) / "test-h200" / made.path.name)
    with pytest.raises(StreamproofError, match="different fingerprints"):
        summarize(tmp_path / "a", plan, trusted)
