"""What a run says of its plan before it starts."""

from __future__ import annotations

from bench.explain.preflight.note import plan_notes
from recipes.load import load_recipe
from tests.explain.preflight.planned import UNIT


def test_a_plan_that_fits_is_one_line() -> None:
    assert list(plan_notes(load_recipe("cpu"))) == ["preflight: fits (just preflight cpu says why)"]


def test_what_cannot_be_is_said_with_the_flag() -> None:
    notes = list(plan_notes(load_recipe("h200-fp8", {"engine.version": "0.25.1"})))
    assert notes[0].startswith("preflight: cannot")
    assert any("scratch KV of graph profiling" in note and "kv_cache_memory_bytes" in note for note in notes)


def test_hits_that_do_not_last_are_said_though_they_stop_nothing() -> None:
    first, lasting = plan_notes(load_recipe("h200-fp8-fast-dummy", dict([UNIT])))
    assert first.startswith("preflight: tight")
    assert lasting.startswith("  lasting hits: 88.9 % of the prompts' tokens come from the cache at first, and 74.7 %")


def test_a_recipe_without_a_plan_stops_nothing() -> None:
    recipe = load_recipe("h200-fp8", {"engine.flags.pipeline_parallel_size": "2", "hardware.count": "2"})
    (note,) = plan_notes(recipe)
    assert "no plan can be made" in note
