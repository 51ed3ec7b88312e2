"""Plans of the recipes that were measured, for the tests."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from bench.explain.preflight.command import plan, sections_of
from bench.explain.preflight.past import Past
from bench.explain.preflight.plan import Basis, Line
from bench.explain.preflight.shapes import ModelShapes, read_config, shapes_of
from bench.explain.preflight.start_log import start_facts
from recipes.load import load_recipe

LOGS = Path(__file__).with_name("logs")
REPOSITORY = Path(__file__).parents[3]
FULL_SIZE = REPOSITORY / "quantize" / "shapes" / "qwen3.5-35b-a3b-fp8" / "config.json"
UNIT = ("engine.flags.prefix_match_unit", "60")
"""What h200-fp8-fast-dummy had, until it was seen that hits of such a unit do not last."""
TOY = REPOSITORY / "quantize" / "toy" / "checkpoint" / "config.json"


@cache
def basis(target: str, *overrides: tuple[str, str], gpu: str | None = None, config: Path | None = None) -> Basis:
    """The plan of a target, without asking any hub."""
    return plan(load_recipe(target, dict(overrides)), gpu=gpu, config=config, offline=True)


def lines(of: Basis, log: Path | None = None) -> dict[str, Line]:
    """Its lines by key, with the measured values of a log."""
    past = Past(where="a log", facts=start_facts(log)) if log else None
    return {line.key: line for section in sections_of(of, past) for line in section.lines}


@cache
def full_size() -> ModelShapes:
    """The shapes of the 35B-A3B."""
    return shapes_of(read_config(FULL_SIZE), "config.json")


@cache
def toy() -> ModelShapes:
    """The shapes of the bundled toy."""
    return shapes_of(read_config(TOY), "config.json")
