"""Evidence in which every name is an attack on whoever shows it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.observe.observations import EngineEvent, Interrupted, StageTime
from tests.report.factories import (
    healthy_observations,
    healthy_records,
    make_claim,
    make_evidence,
    make_recipe,
    make_started,
)

if TYPE_CHECKING:
    from bench.report.evidence import Evidence

HOSTILE = "</title><script>alert(1)</script><img src=x onerror=alert(2)>\"'`&lt;{{7*7}}\x00"


def hostile_evidence() -> Evidence:
    claim = make_claim(id="evil", quote=HOSTILE)
    recipe = make_recipe(
        title=HOSTILE, claims=[claim], sources={"load.turn_gap.mean_s": {"kind": "assumption", "why": HOSTILE}}
    )
    records = healthy_records([0.5] * 100)
    observations = healthy_observations(records)
    stage = StageTime(name=HOSTILE, start_s=0, end_s=1)
    return make_evidence(
        records,
        [
            make_started(model=HOSTILE, version=HOSTILE, argv=(HOSTILE,), stages=(stage,)),
            *observations,
            EngineEvent(t=20.0, run=0, event="error", line=HOSTILE, line_number=1),
            Interrupted(t=30.0, run=0, cause="engine", detail=HOSTILE),
        ],
        recipe=recipe,
        environment={HOSTILE: {HOSTILE: [HOSTILE]}},
    )
