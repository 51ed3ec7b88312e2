"""`just steps` on a real run of our client against the reference server, whose every gap is scripted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pytest

from bench.explain.steps.analysis import analyse
from bench.load.plan import Closed
from bench.observe.observations import Finished, PhaseStarted
from tests.explain.steps.schedules import gaps_of
from tests.load.one_point import fresh, plan_of, run, tag_of
from tests.report.factories import make_recipe, make_started
from tests.report.folders import signed
from tests.truth.process import running

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from bench.observe.observations import Observation
    from tests.truth.process import TruthServer

pytestmark = pytest.mark.alone

SHORT_S: Final = 0.004
LONG_S: Final = 0.040
SCRIPT: Final = ([SHORT_S] * 5 + [LONG_S]) * 4
"""Gaps of every reply: twenty steps that decode, four with a prompt."""


@pytest.fixture(scope="module")
def truth() -> Iterator[TruthServer]:
    with running() as server:
        yield server


def test_scripted_steps_are_found(truth: TruthServer, tmp_path: Path) -> None:
    """Held against the server's own record of what it wrote when, so that a machine that stumbles fails no test."""
    chunks = len(SCRIPT) + 1
    source = fresh(output_tokens=chunks, behaviour={"ttft_s": 0.03, "gap_s": SCRIPT})
    seen = run(truth.base_url, plan_of(Closed(count=6), point=0, run=0, steady_s=1.0), source)
    phases: list[Observation] = [
        PhaseStarted.model_validate({"t": at, "run": 0, "point": 0, "phase": phase})
        for phase, at in seen.phases.items()
    ]
    made = signed(
        tmp_path,
        seen.records,
        [make_started(), *phases, Finished(t=seen.phases["done"] + 1, run=0)],
        recipe=make_recipe(load={"ladder": [{"concurrent": 6}]}),
    )

    point = analyse(made.path).points[0]
    assert point.replies == len(seen.window) > 12
    assert point.kinds is not None
    assert point.kinds.cut_s is not None, point.kinds
    assert SHORT_S < point.kinds.cut_s < LONG_S
    written = {entry["tag"]: entry["chunk_s"] for entry in truth.truth()}
    gaps = np.concatenate([np.diff(written[tag_of(source, record)]) for record in seen.window])
    parts = {part.name: part for part in point.parts}
    counted = sum((parts[name].count or 0) * point.replies for name in ("long", "rare") if name in parts)
    assert counted == pytest.approx((gaps > point.kinds.cut_s).sum(), rel=0.02)
    assert parts["long"].p50_s == pytest.approx(np.median(gaps[gaps > point.kinds.cut_s]), rel=0.05)
    assert parts["short"].p50_s == pytest.approx(np.median(gaps[gaps <= point.kinds.cut_s]), rel=0.1)
    assert len(gaps_of(seen.window)[0]) == len(SCRIPT) * point.replies
    assert sum(part.mean_s for part in point.parts) == pytest.approx(point.e2e_s, abs=1e-9)
