"""What an ablation says of its own limits."""

from __future__ import annotations

import pytest

from bench.explain.ablate.outcome import Ablation, FactorEffect, FigureEffects, Interval, RunPart
from bench.explain.ablate.page import render_markdown, render_page
from bench.explain.ablate.words import headline, remarks


def run(block: int, configuration: str, start: str | None, group: int = 1) -> RunPart:
    return RunPart(
        group=group,
        block=block,
        configuration=configuration,
        start=start,
        report=f"runs/{group}{block}{configuration}",
        attestation_sha256="0" * 64,
    )


def effect(slug: str, ratio: float) -> FactorEffect:
    return FactorEffect(
        factor=slug,
        added_first=None,
        removed_last=Interval(ratio=ratio, low=ratio * 0.95, high=ratio * 1.05),
        interaction=None,
        interacts=None,
        share=None,
        says="what the full recipe loses without it; what it brings by itself was not measured",
    )


def ablation(*runs: RunPart, ratios: tuple[float, float] = (0.7, 1.02)) -> Ablation:
    figure = FigureEffects(
        point="40 streams",
        quantile=0.95,
        seconds={"full": 0.5},
        total=None,
        factors=(effect("mtp", ratios[0]), effect("async", ratios[1])),
        confidence=0.95,
        none="",
    )
    return Ablation(
        target="h200-fp8-fast-dummy",
        base="vanilla",
        title="Shapes",
        not_real=(),
        factors=(("mtp", "speculative decoding", ("engine.flags.speculative_config",)),),
        only="removed",
        adapted=(("without-mtp", ("prefix_match_unit is 131: 60 does not divide its block of 2,096 tokens",)),),
        blocks=2,
        left_out=(),
        complete=True,
        runs=runs,
        figures=(figure,),
    )


SHARED = (run(1, "full", "a"), run(2, "full", "a"), run(1, "without-mtp", "b"), run(2, "without-mtp", "b"))


def test_measurements_that_share_starts_say_what_is_not_in_their_intervals() -> None:
    first, second = remarks(ablation(*SHARED))
    assert first.startswith("4 measurements on 2 engine starts: engines were started together, stayed")
    assert first.endswith("how much starts differ is not in them.")
    assert second == "without-mtp: prefix_match_unit is 131: 60 does not divide its block of 2,096 tokens."


def test_a_start_each_needs_no_remark() -> None:
    own = [run(block, name, None) for block in (1, 2) for name in ("full", "without-mtp")]
    assert len(remarks(ablation(*own))) == 1
    assert ablation(*own).starts == 4


def test_engines_that_were_started_again_are_named() -> None:
    again = (*SHARED, run(3, "full", "c"), run(3, "without-mtp", "b"))
    assert "Started again, as the ablation was interrupted or an engine died: full." in remarks(ablation(*again))


def test_groups_are_told_apart() -> None:
    other = (run(1, "full", "c", 2), run(2, "full", "c", 2))
    told = remarks(ablation(*SHARED, *other))
    assert "2 groups, one after the other; each effect is within its group." in told
    assert not [text for text in told if text.startswith("Started again")]


@pytest.mark.parametrize(
    ("ratios", "words"),
    [
        ((0.7, 1.02), "mtp does most in h200-fp8-fast-dummy, -30.0 % (-33.5 % to -26.5 %)."),
        ((0.99, 1.02), "async does most in h200-fp8-fast-dummy, +2.0 % (-3.1 % to +7.1 %). It could be chance."),
    ],
)
def test_of_one_direction_the_largest_effect_leads(ratios: tuple[float, float], words: str) -> None:
    assert headline(ablation(*SHARED, ratios=ratios)) == f"p95 of E2E at 40 streams: {words}"


@pytest.mark.parametrize("render", [render_page, render_markdown])
def test_the_page_holds_all_of_it(render: object) -> None:
    page = render(ablation(*SHARED))  # type: ignore[operator]
    for words in ("how much starts differ is not in them", "does not divide its block", "mtp does most", "-30.0 %"):
        assert words in page
    assert "all together</th>" not in page
