"""`just steps` on committed reports of H200s, beside what was found in them by hand.

By hand, a gap of more than 30 ms was long (`evidence/h200/attribution-20261130/README.md`). Here the valley is found:
some gaps near it fall to the other side, and figures agree as far as two digits say.
"""

from __future__ import annotations

import tarfile
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from bench.explain.steps.analysis import PointSteps, analyse
from bench.explain.steps.parts import Name, Part
from quantize.checkpoint import REPOSITORY

if TYPE_CHECKING:
    from pathlib import Path

EVIDENCE = REPOSITORY / "evidence" / "h200" / "attribution-20261130"


def unpacked(archive: str, report: str, to: Path) -> Path:
    """The folder of a report out of an archive of several."""
    with tarfile.open(EVIDENCE / archive) as packed:
        members = [member for member in packed if f"/{report}" in member.name and member.isfile()]
        packed.extractall(to, members=members, filter="data")
    (found,) = to.glob("**/report.json")
    return found.parent


@dataclass(frozen=True)
class ByHand:
    archive: str
    report: str
    short_ms: float
    long_ms: float
    long_gaps: float
    card_ms: float
    """The floor of a whole prompt."""


def part(point: PointSteps, name: Name) -> Part:
    (found,) = (each for each in point.parts if each.name == name)
    return found


@pytest.mark.parametrize(
    "hand",
    [
        ByHand("ablation-async-moe.tar.xz", "runs/001-block1-full/", 8.4, 81.7, 9.9, 7.2),
        ByHand("ablation-async-moe.tar.xz", "runs/002-block1-without-async/", 12.5, 74.3, 12.9, 7.2),
        ByHand("graph-metrics.tar.xz", "h200-fp8-fast-dummy/", 13.8, 73.3, 4.1, 7.2),
    ],
    ids=lambda hand: hand.report.strip("/"),
)
def test_figures_are_those_that_were_found_by_hand(hand: ByHand, tmp_path: Path) -> None:
    point = analyse(unpacked(hand.archive, hand.report, tmp_path)).points[0]
    long, short = part(point, "long"), part(point, "short")
    assert short.p50_s * 1000 == pytest.approx(hand.short_ms, abs=0.05)
    assert long.p50_s * 1000 == pytest.approx(hand.long_ms, abs=0.05)
    assert long.count == pytest.approx(hand.long_gaps, abs=0.15)
    assert sum(each.mean_s for each in point.parts) == pytest.approx(point.e2e_s, abs=1e-9)
    assert point.known.floors is not None
    assert point.known.floors.prefill_s * 1000 == pytest.approx(hand.card_ms, rel=0.1)


@pytest.mark.parametrize(
    ("report", "seconds"),
    [
        ("runs/004-block2-without-batch/h200-fp8-no-mtp-dummy/20261130T132031Z-480896d44e44/", 9.2),
        ("runs/009-block3-without-batch/", 7.1),
    ],
)
def test_a_compilation_in_the_window_is_a_standstill_and_no_kind(report: str, seconds: float, tmp_path: Path) -> None:
    point = analyse(unpacked("ablation-batch.tar.xz", report, tmp_path)).points[0]
    assert point.stood is not None
    assert point.stood.standstill.seconds == pytest.approx(seconds, abs=0.05)
    assert point.stood.standstill.in_flight == 16
    assert part(point, "rare").p50_s == pytest.approx(point.stood.standstill.seconds, rel=0.01)
    assert part(point, "long").p50_s * 1000 == pytest.approx(87, abs=1)
    assert part(point, "short").p50_s * 1000 == pytest.approx(8.4, abs=0.05)


def test_one_request_at_a_time_waits_for_nobodys_prompt() -> None:
    analysis = analyse(REPOSITORY / "evidence" / "h200" / "h200-fp8-no-mtp-dummy-20261130")
    alone, *loaded = analysis.points
    assert alone.label == "1 concurrent requests"
    assert alone.kinds is not None
    assert (alone.kinds.cut_s, alone.kinds.one) == (None, "no valley")
    assert all(point.kinds is not None and point.kinds.one is None for point in loaded)
