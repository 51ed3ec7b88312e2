"""The evidence of a whole search, its latencies drawn from a law: a report without a server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from bench.explain.search.begin import searching
from bench.explain.search.boundary import Told
from bench.explain.search.course import searched
from bench.explain.search.replay import replay
from bench.observe.observations import Finished, Observation, SearchAsked
from bench.stats.clustered import Counts
from tests.report.factories import (
    POINT_S,
    healthy_observations,
    healthy_records,
    make_evidence,
    make_recipe,
    make_started,
)

if TYPE_CHECKING:
    from bench.explain.search.question import Question
    from bench.explain.search.replay import Step
    from bench.records import RequestRecord
    from bench.report.evidence import Evidence
    from tests.explain.search.laws import Share

LIMIT_S = 1.0
GOOD_S, LATE_S = 0.4, 1.6


def searched_evidence(
    questions: tuple[Question, ...],
    share: Share,
    *,
    seed: int = 0,
    requests: int = 300,
    end: bool = True,
    bend: dict[int, dict[str, Any]] | None = None,
    recipe: dict[str, Any] | None = None,
) -> Evidence:
    """A search from its first point to its last.

    Args:
        questions: what is asked.
        share: true share of requests over one second, by the value of a setting.
        seed: of what is drawn.
        requests: of each window.
        end: whether the run came to its end.
        bend: by index of a point: what its counters say afterwards.
        recipe: changes.
    """
    rng = np.random.default_rng(seed)
    base = searching(make_recipe(**(recipe or {})), questions)
    records: list[RequestRecord] = []
    observations: list[Observation] = [SearchAsked(t=0.0, run=0, questions=questions), make_started()]
    steps: list[Step] = []
    told: list[Told] = []
    while True:
        step = replay(questions, len(told), lambda index, _: told[index]).following
        if step is None:
            break
        late = rng.random(requests) < share(questions[step.question].values[step.index])
        # A little apart, so that no two latencies are the same.
        latencies = np.where(late, LATE_S, GOOD_S) + rng.random(requests) * 0.05
        at = len(told) * POINT_S
        new = healthy_records(latencies.tolist(), point=len(told), at=at)
        records += new
        changes = (bend or {}).get(len(told), {})
        observations += healthy_observations(new, point=len(told), at=at, **changes)
        steps.append(step)
        told.append(Told(Counts.of(late)))
    if end:
        observations.append(Finished(t=len(told) * POINT_S, run=0))
    return make_evidence(records, observations, recipe=searched(base, steps))
