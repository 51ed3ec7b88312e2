"""`docs/how-numbers-are-defined.md` has every field, rule and limit that the code has, and no other."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from typing import Any

import pytest

from bench.explain.search import find
from bench.observe.compiled import FILES_LISTED
from bench.observe.wall_clock import TICK_S
from bench.report import rules_barge_in, rules_client, rules_probe, rules_window, validity
from bench.report.disclosure import DEFINITIONS
from bench.report.prefix import MOST_PREDICTED
from bench.report.schema import PUBLISHED
from bench.stats import moved, steady
from bench.stats.certificate import CERTIFICATE_CONFIDENCE, allowed_over, smallest_certifiable
from bench.stats.quantiles import CONFIDENCE, smallest_n
from bench.stats.ties import TIE, TOP_K
from bench.workload import prefix_cache_rules

DOCUMENT = Path(__file__).parents[2] / "docs" / "how-numbers-are-defined.md"
TEXT = DOCUMENT.read_text(encoding="utf-8")
FLAT = " ".join(TEXT.split())
SCHEMA: dict[str, Any] = json.loads(PUBLISHED.read_bytes())
OF_THE_RECIPE = {"BargeIn", "Claim", "Limit", "Point", "Question", "Slo", "TurnGap"}
"""What a report repeats of the recipe or the question: `recipes/schema.py` defines it."""


def rows(heading: str) -> list[list[str]]:
    """Cells of the first table under a heading, without its head."""
    section = re.split(r"^#{2,3} ", TEXT.split(f"{heading}\n", 1)[1], flags=re.MULTILINE)[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def parts_of_a_report() -> dict[str, dict[str, Any]]:
    return {"Report": SCHEMA} | {name: part for name, part in SCHEMA["$defs"].items() if name not in OF_THE_RECIPE}


def test_every_part_of_a_report_has_its_section() -> None:
    sections = re.findall(r"^### (\w+)$", TEXT, flags=re.MULTILINE)
    assert sorted(sections) == sorted(parts_of_a_report())


@pytest.mark.parametrize("name", sorted(parts_of_a_report()))
def test_every_field_is_defined_and_none_is_made_up(name: str) -> None:
    fields = parts_of_a_report()[name]["properties"]
    table = {row[0].strip("`"): row for row in rows(f"### {name}")}
    assert sorted(table) == sorted(fields)
    for field, kind in fields.items():
        assert table[field][1]
        nullable = any(option.get("type") == "null" for option in kind.get("anyOf", ()))
        assert (table[field][3] != "-") == nullable, field


def test_the_terms_of_a_report_are_listed() -> None:
    listed = FLAT.split("(`bench/report/disclosure.py`): ", 1)[1].split(".", 1)[0]
    assert listed.split(", ") == list(DEFINITIONS)


def named_rules() -> set[str]:
    """The rules that the modules name: by their calls, or in a constant."""
    found = {find.RULE, *rules_probe.RULES}
    for path in Path(validity.__file__).parent.glob("rules_*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            match node:
                case ast.Call(func=ast.Name(id="per_point" | "together"), args=[ast.Constant(value=str(rule)), *_]):
                    found.add(rule)
                case ast.Assign(targets=[ast.Name(id="rule")], value=ast.Constant(value=str(rule))):
                    found.add(rule)
    return found


def applied_rules() -> set[str]:
    """The functions that `bench.report.validity.checks` calls."""
    calls = ast.walk(ast.parse(Path(validity.__file__).read_text(encoding="utf-8")))
    return {
        f"{node.func.value.id}.{node.func.attr}"
        for node in calls
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id.startswith("rules_")
    }


def test_every_rule_is_in_the_table_and_none_is_made_up() -> None:
    table = rows("## Rules")
    assert {row[0] for row in table} == named_rules()
    assert {row[1].strip("`") for row in table} == applied_rules() | {"bench/explain/search/find.py"}
    assert all(all(row) for row in table)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (prefix_cache_rules.HIT_TOLERANCE * 100, "the predicted ones, within {:g} %"),
        (rules_client.DELAY_S * 1000, "p99 at most {:g} ms"),
        (rules_client.DELAY_SHARE * 100, "p99 at most 5 ms or {:g} % of the median latency"),
        (rules_client.STANDSTILL_S * 1000, "longest at most {:g} ms"),
        (rules_client.STANDSTILL_SHARE * 100, "longest at most 50 ms or {:g} % of it"),
        (rules_client.BUSY_SHARE * 100, "at most {:g} % of a core"),
        (rules_window.IN_FLIGHT_SHARE * 100, "the number asked for, within {:g} %"),
        (rules_window.ARRIVALS_DEVIATIONS, "within {:g} standard deviations"),
        (rules_barge_in.NOTICED_S * 1000, "until {:g} ms after each interruption"),
        (TIE, "a tie ({:g} nats)"),
        (moved.NEAR * 100, "A moved by {:g} % of the distance to B at most"),
        (moved.NEAR * 100, "A moved to within {:g} % of that from B's row"),
        (1 / moved.NEAR, "its distance is not {:g} times what two repeats differ by"),
        (moved.FLOAT_STEPS, "within {:g} steps of float32"),
        (TOP_K, "the {:g} most likely ones"),
        (MOST_PREDICTED, "up to {:,} requests"),
        (FILES_LISTED, "of at most {:,} when each was written"),
        (TICK_S * 1000, "with the wall clock, up to {:g} ms too early"),
        (smallest_n(0.95), "p95 needs {} requests"),
        (smallest_n(0.99), "p99 needs {} for an interval"),
        (CONFIDENCE * 100, "the true percentile with at least {:g} %"),
        (smallest_certifiable(0.95), "fewer than {} requests certify nothing"),
        (round(100 * (1 - CERTIFICATE_CONFIDENCE)), "<= {} %"),
        (steady.CONFIDENCE * 100, "within the {:g} % intervals"),
        (steady.BATCH * steady.FEWEST_BATCHES, "fewer than {} complete replies"),
    ],
)
def test_every_limit_is_the_codes(value: float, words: str) -> None:
    assert words.format(value) in FLAT


def test_the_counts_that_certify_are_the_codes() -> None:
    pairs = [(130, 1), (300, 6), (600, 17), (1000, 34)]
    assert [(n, allowed_over(n, 0.95)) for n, _ in pairs] == pairs
    assert "1 of 130, 6 of 300, 17 of 600, 34 of 1,000 may be over" in FLAT
