"""`just preflight`: what scripts and people get, and measured starts beside it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from bench.cli import app
from bench.errors import StreamproofError, UsageError
from bench.explain.preflight import past
from bench.explain.preflight.past import past_of
from bench.explain.preflight.start_log import StartFacts, start_facts
from recipes.load import load_recipe
from tests.explain.preflight.planned import LOGS, REPOSITORY

EVIDENCE = REPOSITORY / "evidence" / "h200" / "h200-fp8-dummy-20261130"


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["preflight", *arguments])
    if isinstance(result.exception, StreamproofError):
        return result.exception.exit_code, str(result.exception)
    return result.exit_code, result.output


def as_json(*arguments: str) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(run(*arguments, "--json")[1])
    return data


def test_people_see_value_formula_source_and_verdict() -> None:
    code, shown = run("h200-fp8-dummy")
    assert code == 0
    for words in ("attention block", "2,160", "exact", "_align_hybrid_block_size", "The plan: tight"):
        assert words in shown


def test_scripts_get_every_line_with_its_unit() -> None:
    data = as_json("h200-fp8-dummy")
    assert data["schema"] == "streamproof.preflight/1"
    assert (data["target"], data["gpu"], data["verdict"]) == ("h200-fp8-dummy", "H200", "tight")
    assert all(line["formula"] and line["source"] and line["unit"] for line in data["lines"])
    keys = [line["key"] for line in data["lines"]]
    assert len(keys) == len(set(keys))
    floors = [line for line in data["lines"] if line["key"].startswith("floor.")]
    assert floors
    assert all("no prediction" in line["source"] for line in floors)


def test_the_report_of_the_same_engine_stands_beside() -> None:
    data = as_json("h200-fp8-dummy")
    assert data["against"] == "evidence/h200/h200-fp8-dummy-20261130"
    lines = {line["key"]: line for line in data["lines"]}
    assert lines["prefix.rate"]["measured"] == pytest.approx(0.644, abs=0.001)
    assert abs(lines["kv.tokens"]["error"]) < 0.01
    assert lines["floor.e2e.0"]["measured"] == pytest.approx(1.04, abs=0.01)
    assert lines["floor.e2e.0"]["error"] is None  # a floor has none
    other = as_json("h200-fp8-dummy", "--set", "engine.flags.max_num_seqs=32")
    assert other["against"] is None
    assert as_json("h200-fp8-dummy", "--gpu", "B200")["against"] is None


def test_other_blocks_are_shown_where_they_are_asked_for() -> None:
    code, shown = run("cpu", "--blocks")
    assert code == 0
    for words in (
        "prefill steps of a prompt",
        "26 pairs tried: blocks of 256 to 512",
        "this recipe",
        "sequences    hits  lasting",
    ):
        assert words in shown
    assert "this recipe: beaten" not in shown
    assert "Cache blocks" not in run("cpu")[1]


def test_a_recipe_that_is_beaten_is_said_to_be() -> None:
    code, shown = run("cpu", "--blocks", "--set", "engine.flags.prefix_match_unit=32")
    assert code == 0
    assert "this recipe: beaten" in shown


def test_scripts_get_the_blocks_too() -> None:
    assert as_json("cpu")["blocks"] is None
    blocks = as_json("cpu", "--blocks")["blocks"]
    assert (blocks["tried"], blocks["sizes"]) == (26, [256, 384, 512])
    (own,) = [choice for choice in blocks["choices"] if choice["current"]]
    lines = {line["key"]: line for line in as_json("cpu")["lines"]}
    assert own["steps"] == lines["prefix.steps"]["value"]
    assert lines["prefix.steps"]["unit"] == "steps"
    assert own["beaten"] is False
    assert own["computed_tokens"] / 2000 == pytest.approx(1 - lines["prefix.rate"]["value"])
    assert own["hits"] == pytest.approx(lines["prefix.rate"]["value"])
    assert own["lasting_hits"] == lines["prefix.lasting"]["value"]


def test_blocks_that_cannot_be_tried_are_said_in_words() -> None:
    code, shown = run("cpu", "--blocks", "--set", "engine.flags.max_num_batched_tokens=200")
    assert code == 1
    assert "No block can be tried: the smallest, 256 tokens" in shown
    assert "lasting" not in shown


def test_hits_inside_blocks_come_with_what_drafts_make_of_them() -> None:
    """Rule 9 of bench.workload.prefix_cache_rules."""
    sizes = ("--set", "engine.flags.block_size=2480", "--set", "engine.flags.prefix_match_unit=62")
    code, shown = run("h200-fp8-fast-dummy", "--offline", *sizes)
    words = " ".join(shown.split())
    assert code == 0
    assert "tight recurrent states 15% of the prompts leave one" in words
    assert "change: no prefix_match_unit" in words
    assert "recurrent states" not in run("h200-fp8-fast-dummy", "--offline")[1]
    assert as_json("cpu", "--blocks")["blocks"]["left_out"] == 0


def test_the_exit_code_says_whether_it_can_start() -> None:
    assert run("cpu")[0] == 0
    code, shown = run("h200-fp8", "--offline", "--set", "engine.version=0.25.1")
    assert code == 1
    assert "scratch KV of graph profiling" in shown
    assert run("h200-fp8", "--offline", "--gpu", "B200")[0] == 0


@pytest.mark.parametrize(
    "arguments",
    [
        ("nowhere",),
        ("cpu", "--gpu", "H200"),
        ("cpu-mtp", "--blocks"),
        ("cpu", "--blocks=256"),
        ("vanilla", "--gpu", "V100", "--offline"),
        ("vanilla", "--offline", "--set", "engine.flags.no_such_flag=1"),
        ("vanilla", "--config", "/nowhere/config.json"),
    ],
)
def test_wrong_usage_is_code_2(arguments: tuple[str, ...]) -> None:
    assert run(*arguments)[0] == 2


def test_a_log_by_itself_can_be_set_beside() -> None:
    data = as_json("vanilla", "--offline", "--against", str(LOGS / "h200-vanilla.log"))
    assert {line["key"]: line["measured"] for line in data["lines"]}["kv.block_size"] == 1056


def test_a_log_is_read_line_by_line() -> None:
    assert start_facts(LOGS / "h200-vanilla.log") == StartFacts(
        weights=33.41,
        block_size=1056,
        piecewise=51,
        full=51,
        largest=512,
        largest_full=512,
        pool_estimated=0.74,
        pool_actual=1.21,
        capture_s=150.0,
        available=87.41,
        kv_tokens=3_231_371,
        sequences=197.23,
        total=139.8,
        non_torch=0.25,
        peak=4.01,
    )
    assert start_facts(LOGS / "cpu-toy.log").available == 2.0


def test_a_log_of_something_else_says_nothing(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"\x1f\x8b\x00" + bytes(range(256)) * 10)
    assert start_facts(path) == StartFacts()
    with pytest.raises(StreamproofError, match="No such file"):
        start_facts(tmp_path / "nowhere")


def test_a_named_report_that_was_edited_is_refused_and_a_found_one_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "reports" / "x" / EVIDENCE.name
    shutil.copytree(EVIDENCE, folder)
    (folder / "report.json").write_bytes(b"{}")
    recipe = load_recipe("h200-fp8-dummy")
    with pytest.raises(StreamproofError, match="changed after it was signed"):
        past_of(recipe, folder)
    monkeypatch.setattr(past, "_FOLDERS", (tmp_path / "reports",))
    assert past_of(recipe) is None


def test_a_named_folder_without_a_report_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"holds no report\.json"):
        past_of(load_recipe("cpu"), tmp_path)
