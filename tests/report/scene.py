"""A whole imaginary run, as lively as a real one: for looking at the page, and for everything that signs and verifies.

The engine is a line of arithmetic: a reply takes longer the more requests are open. Nothing here is measured.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bench.observe.observations import (
    EngineEvent,
    Finished,
    Gauges,
    GpuSample,
    HostSample,
    StageTime,
)
from bench.records import Outcome, RequestRecord
from bench.seeds import generator
from tests.report.factories import (
    DONE,
    DRAIN,
    OUTPUT,
    PROMPT,
    SHARED,
    healthy_observations,
    make_claim,
    make_failure,
    make_recipe,
    make_record,
    make_started,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench.observe.observations import Observation
    from recipes.schema import Recipe

RUN_S = 1000.0


def scene_recipe(**changes: Any) -> Recipe:
    """20, 40 and 60 streams and 16 concurrent requests; claims that hold, that do not, and that cannot be compared."""
    return make_recipe(
        **{
            "title": "Qwen3.5-35B-A3B in FP8 on one H200",
            "load": {
                "ladder": [{"streams": 20}, {"streams": 40}, {"streams": 60}, {"concurrent": 16}],
                "turn_gap": {"distribution": "exponential", "mean_s": 4.0},
                "runs": 1,
            },
            "claims": [
                make_claim(id="twenty-streams"),
                make_claim(
                    id="sixty-streams",
                    quote="At the maximum tested load of 60 streams, p95 was around 800 ms, still within the budget.",
                    point={"streams": 60},
                    value_s=0.8,
                ),
                make_claim(id="other-card", quote="On one B200 it was faster.", hardware="B200", value_s=0.5),
            ],
        }
        | changes
    )


def scene_records(*, run: int = 0) -> list[RequestRecord]:
    """The requests of one run of `scene_recipe`, a few of those at 60 streams failures."""
    return [record for point, seats in enumerate((20, 40, 60, 16)) for record in _point_records(run, point, seats)]


def _point_records(run: int, point: int, seats: int) -> Iterator[RequestRecord]:
    dice = generator("scene", run, point)
    at = (run * 4 + point) * RUN_S
    seat = (run * 10 + point) * 1_000_000
    common: dict[str, Any] = {"run": run, "point": point}
    yield make_record(
        **common, primed=True, intended_s=at + 0.1, segments=((seat, SHARED), (seat + 1, PROMPT - SHARED))
    )
    number = 1
    for stream in range(seats):
        start = at + 1 + 9 * stream / seats
        while start < at + DRAIN:
            took = 0.22 + 0.0085 * seats + dice.expovariate(1 / (0.03 + 0.0022 * seats))
            values = common | {
                "request": number,
                "stream": stream,
                "conversation": number,
                "intended_s": start,
                "took_s": took,
                "segments": ((seat, SHARED), (seat + 1 + number, PROMPT - SHARED)),
            }
            cut = point == 2 and dice.random() < 0.004
            yield make_failure(Outcome.CUT, **values) if cut else make_record(**values)
            start += took + (0.0 if point == 3 else dice.expovariate(1 / 4.0))
            number += 1


def scene_observations(records: list[RequestRecord], *, run: int = 0) -> list[Observation]:
    """What was seen of that run: stages, counters that agree, gauges, a GPU at work, two events outside the windows."""
    dice = generator("observations", run)
    start = 4 * run * RUN_S
    stages = [("imports", 0, 14.2), ("weights", 14.2, 39.5), ("compile", 39.5, 88.1), ("graphs", 88.1, 131.0)]
    seen: list[Observation] = [
        make_started(
            t=start,
            run=run,
            ready_s=134.4,
            model="Qwen/Qwen3.5-35B-A3B",
            argv=("python", "-m", "vllm.entrypoints.openai.api_server", "--max-num-seqs", "64"),
            stages=tuple(StageTime(name=name, start_s=begin, end_s=end) for name, begin, end in stages),
        )
    ]
    for point in range(4):
        at = start + point * RUN_S
        mine = [record for record in records if record.point == point]
        fine = [record for record in mine if record.outcome is Outcome.OK]
        drafts = float(len(fine) * OUTPUT // 3)
        seen += healthy_observations(
            mine,
            run=run,
            point=point,
            at=at,
            spec_drafts=drafts,
            spec_draft_tokens=4 * drafts,
            spec_accepted_tokens=2.0 * drafts,
            spec_accepted_per_position=(0.8 * drafts, 0.6 * drafts, 0.4 * drafts, 0.2 * drafts),
        )
        for second in range(int(DONE)):
            t = at + second
            running = sum(record.intended_s <= t < record.done_s for record in mine)
            seen += [
                Gauges(t=t, run=run, running=running, waiting=max(0, running - 30), kv_usage=running / 64),
                GpuSample(
                    t=t,
                    run=run,
                    index=0,
                    uuid="GPU-0",
                    power_w=180 + 6 * running + dice.random() * 20,
                    sm_clock_mhz=1980 - dice.randrange(4) * 15,
                    memory_used_bytes=130 << 30,
                    utilization=min(1.0, running / 12),
                    temperature_c=48 + running / 4,
                    throttle_reasons=(),
                ),
                HostSample(t=t, run=run, cpu_cores_used=2 + dice.random(), memory_used_bytes=30 << 30),
            ]
        seen.append(
            EngineEvent(
                t=at + 5, run=run, event="jit", line="Compiling kernel fused_moe <ramp>", line_number=812 + point
            )
        )
    return seen


def scene(*, runs: int = 1, **changes: Any) -> tuple[Recipe, list[RequestRecord], list[Observation]]:
    """Recipe, records and observations of a finished run."""
    recipe = scene_recipe(**changes)
    records: list[RequestRecord] = []
    observations: list[Observation] = []
    for run in range(runs):
        new = scene_records(run=run)
        records += new
        observations += scene_observations(new, run=run)
    observations.append(Finished(t=runs * 4 * RUN_S, run=runs - 1))
    return recipe, records, observations


ENVIRONMENT: dict[str, Any] = {
    "host": {"cpu": "2 x Example 9654", "cores": 192, "kernel": "Linux 6.8.0", "governor": "performance"},
    "gpus": [
        {"index": 0, "name": "NVIDIA H200", "uuid": "GPU-0", "driver": "580.159", "power_limit_w": 700, "ecc": True}
    ],
    "packages_sha256": "9f" * 32,
}
