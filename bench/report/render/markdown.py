"""`report.md`: the report in short, for release notes.

Whatever comes from outside is escaped so that it stays text: no heading, link, image, table cell or HTML can come from
a name or a quote.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bench.explain.search.show import cliff_line, interval_of, measure_of, proof_line
from bench.observe.observations import EngineStarted
from bench.report.render import words
from bench.report.render.environments import markdown_environment
from bench.report.render.same_answers import same_answers
from bench.report.render.verdict import headline

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bench.observe.observations import Observation
    from bench.report.model import Report

_ENVIRONMENT: Final = markdown_environment(
    "bench.report.render",
    words=words,
    proof_line=proof_line,
    cliff_line=cliff_line,
    measure_of=measure_of,
    interval_of=interval_of,
    same_answers=same_answers,
)


def render_markdown(report: Report, observations: Iterable[Observation] = ()) -> str:
    """Writes it: the same report and observations always give the same bytes.

    Args:
        report: what is told.
        observations: of its evidence; an engine that ran in a container is told with its image, and how many replicas
            it had.
    """
    starts = [seen for seen in observations if isinstance(seen, EngineStarted)]
    containers = [start.container for start in starts]
    # Several starts of one image differ in nothing that is told.
    images = list({container.image_id: container for container in containers if container is not None}.values())
    return _ENVIRONMENT.get_template("report.md.j2").render(
        report=report,
        headline=headline(report),
        images=images,
        replicas=max((len(start.replicas) for start in starts), default=0),
    )
