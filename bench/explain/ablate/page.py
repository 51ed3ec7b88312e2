"""An ablation as one HTML file and as Markdown, in the form of the reports (`bench.report.render`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from markupsafe import Markup

from bench.explain.ablate import words as says
from bench.explain.ablate.figure import effects_figure
from bench.report.render import words
from bench.report.render.environments import html_environment, markdown_environment
from bench.report.render.html import STYLE, policy

if TYPE_CHECKING:
    from bench.explain.ablate.outcome import Ablation

_HTML: Final = html_environment("bench.explain.ablate", words=words, says=says)
_MARKDOWN: Final = markdown_environment("bench.explain.ablate", words=words, says=says)


def render_page(ablation: Ablation) -> str:
    """The page: it asks nothing of any network and runs no script."""
    return _HTML.get_template("ablation.html.j2").render(
        ablation=ablation,
        drawn=[(figure, effects_figure(figure)) for figure in ablation.figures],
        style=Markup(STYLE),  # noqa: S704  a file of this project
        policy=policy(STYLE),
    )


def render_markdown(ablation: Ablation) -> str:
    """The ablation in short."""
    return _MARKDOWN.get_template("ablation.md.j2").render(ablation=ablation)
