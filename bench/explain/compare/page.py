"""A comparison as one HTML file and as Markdown, in the form of the reports (`bench.report.render`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from markupsafe import Markup

from bench.explain.compare import words as says
from bench.explain.compare.figure import change_figure
from bench.report.render import words
from bench.report.render.environments import html_environment, markdown_environment
from bench.report.render.html import STYLE, policy

if TYPE_CHECKING:
    from bench.explain.compare.outcome import Comparison, Pair

_HTML: Final = html_environment("bench.explain.compare", words=words, says=says)
_MARKDOWN: Final = markdown_environment("bench.explain.compare", words=words, says=says)


@dataclass(frozen=True, slots=True)
class Drawn:
    """A pair and its chart; None where nothing can be drawn."""

    pair: Pair
    figure: Markup | None


def render_page(comparison: Comparison) -> str:
    """The page: it asks nothing of any network and runs no script."""
    drawn = [Drawn(pair, change_figure(pair.points, _limits(pair))) for pair in comparison.pairs]
    tone, text = says.headline(comparison)
    return _HTML.get_template("comparison.html.j2").render(
        comparison=comparison,
        drawn=drawn,
        tone=tone,
        headline=text,
        style=Markup(STYLE),  # noqa: S704  a file of this project
        policy=policy(STYLE),
    )


def render_markdown(comparison: Comparison) -> str:
    """The comparison in short, for release notes."""
    return _MARKDOWN.get_template("comparison.md.j2").render(
        comparison=comparison, headline=says.headline(comparison)[1]
    )


def _limits(pair: Pair) -> list[tuple[str, float]]:
    return list(dict.fromkeys((gated.gate, gated.limit) for gated in pair.gates if gated.gate.startswith("e2e")))
