"""A report says what was not real, what was assumed, and what its words mean."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from bench.observe.lasting import Lasting, LastingHits
from bench.observe.observations import ResidentFacts
from bench.report.build import build_report
from bench.report.disclosure import DEFINITIONS, assumptions, holds_for, not_real, title
from recipes.load import load_recipe, targets
from recipes.schema import Point
from tests.report.factories import healthy, make_recipe

BUNDLED = {"kind": "bundled", "name": "toy", "real": False}
DUMMY = {"kind": "dummy", "name": "shapes", "real": False}
SCALED = {"workload.prompt_tokens": {"kind": "scaled", "why": "smaller"}}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, ()),
        ({"checkpoint": BUNDLED}, ("toy weights",)),
        ({"checkpoint": DUMMY}, ("dummy weights",)),
        ({"engine": {"flags": {"load_format": "dummy"}}}, ("dummy weights",)),
        ({"hardware": {"kind": "cpu", "gpu": None}}, ("CPU",)),
        ({"sources": SCALED}, ("scaled prompts",)),
        ({"sources": {"load.steady_s": {"kind": "scaled", "why": "shorter"}}}, ()),
        (
            {"engine": {"flags": {"speculative_config": {"rejection_sample_method": "synthetic"}}}},
            ("synthetic acceptance",),
        ),
        (
            {"engine": {"flags": {"speculative_config": '{"rejection_sample_method": "synthetic"}'}}},
            ("synthetic acceptance",),
        ),
        ({"engine": {"flags": {"speculative_config": {"method": "mtp"}}}}, ()),
        ({"engine": {"flags": {"speculative_config": "not JSON"}}}, ()),
        ({"engine": {"flags": {"speculative_config": "[1]"}}}, ()),
    ],
)
def test_what_was_not_real(changes: dict[str, Any], words: tuple[str, ...]) -> None:
    recipe = make_recipe(**changes)
    assert not_real(recipe, external=False, partial=False) == words
    assert not_real(recipe, external=True, partial=True) == (*words, "external engine", "partial")


def test_the_title_names_it() -> None:
    recipe = make_recipe(title="A recipe")
    assert title(recipe, ()) == "A recipe"
    assert title(recipe, ("toy weights", "CPU")) == "A recipe (toy weights, CPU)"


@pytest.mark.parametrize("target", targets())
def test_every_recipe_of_the_repository_says_what_it_is(target: str) -> None:
    recipe = load_recipe(target)
    words = not_real(recipe, external=False, partial=False)
    assert ("CPU" in words) == ("scaled prompts" in words) == ("toy weights" in words) == target.startswith("cpu")
    assert ("dummy weights" in words) == target.endswith("dummy")
    assert ("synthetic acceptance" in words) == (target.endswith("dummy") and "no-mtp" not in target)
    told = {assumption.key for assumption in assumptions(recipe)}
    assert "load.turn_gap.mean_s" in told
    assert not [assumption for assumption in assumptions(recipe) if assumption.value == "not set"]


def test_assumptions_carry_the_value_that_was_used() -> None:
    recipe = make_recipe(
        workload={"agents": ["router", "closing"]},
        sources={
            "workload.prompt_tokens": {"kind": "scaled", "why": "smaller"},
            "workload.agents": {"kind": "assumption", "why": "it names none"},
            "load.turn_gap": {"kind": "assumption", "why": "it does not say"},
            "engine.flags.max_num_seqs": {"kind": "assumption", "why": "nobody set it"},
            "checkpoint.name": {"kind": "assumption", "why": "its maker's"},
            "workload.output_tokens": {"kind": "article", "quote": "about 100 tokens"},
            "engine.lock": {"kind": "engine", "why": "needed"},
            "engine.image": {"kind": "measured", "why": "seen"},
        },
    )
    assert [(each.key, each.value, each.kind, each.why) for each in assumptions(recipe)] == [
        ("checkpoint.name", "a/b", "assumption", "its maker's"),
        ("engine.flags.max_num_seqs", "not set", "assumption", "nobody set it"),
        (
            "load.turn_gap",
            '{"distribution": "exponential", "mean_s": 4.0}',
            "assumption",
            "it does not say",
        ),
        ("load.turn_gap.mean_s", "4.0", "assumption", "the source does not say"),
        ("workload.agents", '["router", "closing"]', "assumption", "it names none"),
        ("workload.prompt_tokens", "100", "scaled", "smaller"),
    ]


@pytest.mark.parametrize(
    ("point", "words"),
    [
        ({"streams": 20}, "a mean turn gap of 2.5 s (fixed)"),
        ({"concurrent": 16}, "requests back to back, without turn gaps"),
        ({"rate": 12, "arrivals": "poisson"}, "12 requests/s, Poisson, whatever the engine does"),
        ({"trace": "recorded/calls.jsonl"}, "the arrivals of the trace calls.jsonl"),
        (
            {"streams": 20, "barge_in": {"share": 0.2, "after_s": [0.3, 0.8]}},
            "a mean turn gap of 2.5 s (fixed), 20 % of the replies interrupted",
        ),
    ],
)
def test_what_a_figure_holds_for(point: dict[str, Any], words: str) -> None:
    recipe = make_recipe(load={"turn_gap": {"distribution": "fixed", "mean_s": 2.5}})
    assert holds_for(recipe, Point.model_validate(point)) == words


def test_every_definition_is_one_sentence() -> None:
    for term, words in DEFINITIONS.items():
        assert words.endswith("."), term
        assert words.count(". ") == 0, term


def test_an_engine_that_was_there_before_is_an_assumption() -> None:
    facts = ResidentFacts(start="ab" * 8, age_s=71.6, measurement=3, beside=2)
    (told,) = (each for each in assumptions(make_recipe(), residents=(facts,)) if each.key == "engine start")
    assert told.value == "measurement 3 on start abababab, ready for 72 s"
    assert "beside 2 other engines" in told.why
    alone = assumptions(make_recipe(), residents=(facts.model_copy(update={"beside": 0}),))
    assert "beside" not in next(each.why for each in alone if each.key == "engine start")
    assert "engine start" not in {each.key for each in assumptions(make_recipe())}


LOST = Lasting(at_once=60, blocks=4135, requests=1800, first=0.889, rate=0.747, lost_after=793, full=True)
"""What h200-fp8-fast-dummy had (evidence/h200/host-floor-20261130)."""


def test_hits_that_will_not_last_are_an_assumption() -> None:
    (told,) = (each for each in assumptions(make_recipe(), lasting=LOST) if each.key == "prefix hits")
    assert told.value == "88.9 % of the prompts' tokens, as at a server's beginning"
    assert told.why == (
        "planned: once some 793 requests, 60 at once, have been through 4,135 blocks, 74.7 % are left (just preflight)"
    )
    kept = LOST.model_copy(update={"rate": 0.98 * LOST.first})
    assert kept.lasts
    assert "prefix hits" not in {each.key for each in assumptions(make_recipe(), lasting=kept)}
    assert not kept.model_copy(update={"rate": 0.979 * LOST.first}).lasts


def test_the_report_has_what_was_planned_of_its_hits() -> None:
    evidence = healthy([0.1] * 80)
    plain = build_report(evidence)
    planned = LastingHits(t=0.0, run=0, hits=LOST)
    told = build_report(replace(evidence, observations=(planned, *evidence.observations)))
    assert [each for each in told.assumptions if each not in plain.assumptions] == [
        each for each in assumptions(evidence.recipe, lasting=LOST) if each.key == "prefix hits"
    ]
    assert told.checks == plain.checks
