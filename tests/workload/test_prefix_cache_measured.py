"""The engine's own hits, request by request, without the engine: what it reported is in prefix_cache_measured.json."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from bench.workload.prefix_cache_bounds import HitPrediction, ServedPrompt, predict_served
from bench.workload.prefix_cache_rules import CacheRules
from bench.workload.turn import Segment


@dataclass(frozen=True)
class Measured:
    """One engine start: what was sent, and the hits it reported."""

    name: str
    rules: CacheRules
    requests: list[ServedPrompt]
    hits: list[int]

    def overlaps(self) -> list[bool]:
        """Per request: whether another one was open at the same time."""
        return [
            any(a.start_s < b.end_s and b.start_s < a.end_s for j, b in enumerate(self.requests) if j != i)
            for i, a in enumerate(self.requests)
        ]


def read(run: dict[str, Any]) -> Measured:
    requests = [
        ServedPrompt(
            segments=tuple(Segment(key=key, tokens=tokens) for key, tokens in zip(flat[::2], flat[1::2], strict=True)),
            output_tokens=output,
            start_s=start,
            end_s=end,
        )
        for flat, output, start, end, _ in run["requests"]
    ]
    return Measured(run["name"], CacheRules(**run["rules"]), requests, [row[-1] for row in run["requests"]])


RUNS = [
    read(run) for run in json.loads(Path(__file__).with_name("prefix_cache_measured.json").read_text("utf-8"))["runs"]
]


@pytest.fixture(params=RUNS, ids=lambda run: run.name)
def run(request: pytest.FixtureRequest) -> Measured:
    measured: Measured = request.param
    return measured


@pytest.fixture
def predictions(run: Measured) -> list[HitPrediction]:
    return predict_served(run.requests, run.rules)


def test_requests_one_after_another_are_exact(run: Measured, predictions: list[HitPrediction]) -> None:
    alone = [
        (hit, predicted.expected)
        for hit, predicted, overlaps in zip(run.hits, predictions, run.overlaps(), strict=True)
        if not overlaps
    ]
    wrong = [number for number, (hit, predicted) in enumerate(alone) if hit != predicted]
    # With drafts and a pool that evicts, when a reply takes its blocks depends on which drafts were accepted.
    assert wrong == ([104] if run.name == "MTP, hybrid, chunked prefill, evictions" else [])


def test_requests_side_by_side_are_within_two_percent(run: Measured, predictions: list[HitPrediction]) -> None:
    overlaps = run.overlaps()
    measured = sum(hit for hit, overlap in zip(run.hits, overlaps, strict=True) if overlap)
    expected = sum(each.expected for each, overlap in zip(predictions, overlaps, strict=True) if overlap)
    assert abs(expected - measured) <= 0.02 * measured


def test_every_request_lies_within_its_bounds(run: Measured, predictions: list[HitPrediction]) -> None:
    assert all(each.least <= hit <= each.most for hit, each in zip(run.hits, predictions, strict=True))
    assert all(each.least <= each.expected <= each.most for each in predictions)


@pytest.mark.parametrize("name", ["hybrid, long blocks", "hybrid, voice conversations"])
def test_primed_conversations_leave_no_doubt(name: str) -> None:
    (conversations,) = (run for run in RUNS if run.name == name)
    predictions = predict_served(conversations.requests, conversations.rules)
    side_by_side = [
        (each.least, each.most, hit)
        for each, hit, overlap in zip(predictions, conversations.hits, conversations.overlaps(), strict=True)
        if overlap
    ]
    assert len(side_by_side) > 30
    assert all(least == hit == most for least, most, hit in side_by_side)


def test_the_data_can_tell_a_wrong_rule() -> None:
    """Each fact matters to the measurements: with another value the predictions are wrong."""
    wrong: dict[str, dict[str, Any]] = {
        "hybrid, chunked prefill, evictions": {"num_gpu_blocks": None},
        "full attention, evictions": {"num_gpu_blocks": None},
        "hybrid, long blocks": {"hybrid": False},
        "hybrid, CPU without --block-size": {"split_tokens": None},
        "MTP, hybrid": {"draft_tokens": 0},
        "MTP, full attention": {"draft_tokens": 0},
    }
    for run in RUNS:
        if run.name in wrong:
            facts = {name: getattr(run.rules, name) for name in run.rules.__slots__} | wrong.pop(run.name)
            predictions = predict_served(run.requests, CacheRules(**facts))
            assert [each.expected for each in predictions] != run.hits, run.name
    assert not wrong
