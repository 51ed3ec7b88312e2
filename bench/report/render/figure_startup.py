"""How an engine spent its start, stage by stage."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bench.report.render import words
from bench.report.render.charts import Axis, Plot, seconds_axis
from bench.report.render.tables import Table

if TYPE_CHECKING:
    from markupsafe import Markup

    from bench.observe.observations import EngineStarted, ReplicaStarted

ROW_PX: Final = 34


def startup_figure(start: EngineStarted | ReplicaStarted) -> Markup:
    """One row a stage, from the process's start to ready. `start.stages` must not be empty."""
    end = max([stage.end_s for stage in start.stages] + [start.ready_s or 0.0])
    rows = len(start.stages)
    plot = Plot(seconds_axis(end, pieces=4), Axis(0, rows), height=rows * ROW_PX)
    plot.grid(x_title="since the process was started")
    for row, stage in enumerate(start.stages):
        y = rows - row - 0.72
        took = words.seconds(max(0.0, stage.end_s - stage.start_s))
        plot.strokes([[(stage.start_s, y), (stage.end_s, y)]], "stage", title=f"{stage.name}: {took}")
        plot.note(0, rows - row - 0.38, f"{stage.name}, {took}", "row-name")
    return plot.svg("Stages of the engine's start", says=f"Ready after {words.seconds(start.ready_s)}.", kind="rows")


def startup_table(start: EngineStarted | ReplicaStarted, name: str) -> Table:
    """The same stages as figures.

    Args:
        start: of an engine or a replica.
        name: of it: "run 1", "run 1, replica 0".
    """
    return Table(
        summary=f"Start of {name} as a table",
        caption="Stages of the start, since the process was started.",
        heads=("stage", "began", "took"),
        rows=tuple(
            (stage.name, words.seconds(stage.start_s), words.seconds(max(0.0, stage.end_s - stage.start_s)))
            for stage in start.stages
        ),
    )
