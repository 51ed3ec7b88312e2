"""Signed reports of imaginary engine starts whose latencies are known, and what compares them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from bench.explain.compare.side import Side, read_side
from bench.observe.observations import Finished
from tests.report.factories import (
    POINT_S,
    healthy_observations,
    healthy_records,
    make_failure,
    make_recipe,
    make_started,
)
from tests.report.folders import Signed, signed

if TYPE_CHECKING:
    from pathlib import Path

    from bench.observe.observations import Observation
    from bench.records import RequestRecord
    from recipes.schema import Recipe

MEDIAN_S = 0.4
REQUESTS = 150
"""In the window of each point of each run."""


def report(  # one imaginary measurement
    base: Path,
    *,
    factor: float = 1.0,
    runs: int = 3,
    spread: float = 0.01,
    seed: int = 1,
    recipe: Recipe | None = None,
    failures: int = 0,
    finished: bool = True,
    environment: dict[str, Any] | None = None,
) -> Signed:
    """A report of two points (20 and 40 streams), `factor` times as slow as `MEDIAN_S` and 1.2 times that.

    Args:
        base: folder for report and key.
        factor: on every latency.
        runs: engine starts; they differ by `spread` in the logarithm.
        spread: see there.
        seed: of the latencies.
        recipe: by default that of the factories.
        failures: of every point of every run.
        finished: False leaves a partial report.
        environment: of the machine.
    """
    dice = np.random.default_rng(seed)
    records: list[RequestRecord] = []
    seen: list[Observation] = []
    for run in range(runs):
        seen.append(make_started(run=run))
        of_run = float(np.exp(spread * dice.normal()))
        for point in range(2):
            at = (run * 2 + point) * POINT_S
            took = MEDIAN_S * factor * of_run * (1 + 0.2 * point) * dice.lognormal(0, 0.15, REQUESTS)
            new = healthy_records([float(each) for each in took], run=run, point=point, at=at)
            for index in range(1, failures + 1):
                new[index] = make_failure(
                    new[index].outcome.__class__.CUT,
                    **{
                        name: getattr(new[index], name)
                        for name in ("run", "point", "request", "stream", "conversation", "intended_s", "segments")
                    },
                )
            records += new
            seen += healthy_observations(new, run=run, point=point, at=at)
    if finished:
        seen.append(Finished(t=runs * 2 * POINT_S, run=runs - 1))
    more = {} if environment is None else {"environment": environment}
    return signed(base, records, seen, recipe=recipe or recipe_of(runs=runs), **more)


def recipe_of(*, runs: int = 3, **changes: Any) -> Recipe:
    load = {"runs": runs, **changes.pop("load", {})}
    return make_recipe(load=load, **changes)


def side(report: Signed) -> Side:
    return read_side(report.path, report.trusted)
