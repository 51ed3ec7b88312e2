"""An ablation as one HTML file and as Markdown, in the form of the reports (`bench.report.render`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from bench.explain.ablate import words as says
from bench.explain.ablate.figure import effects_figure
from bench.report.render import words
from bench.report.render.html import STYLE, policy
from bench.report.render.markdown import plain

if TYPE_CHECKING:
    from bench.explain.ablate.outcome import Ablation

_HTML: Final = Environment(
    loader=PackageLoader("bench.explain.ablate"),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_MARKDOWN: Final = Environment(
    loader=PackageLoader("bench.explain.ablate"),
    autoescape=False,  # noqa: S701  it would escape for HTML; `finalize` escapes every value for Markdown instead
    finalize=plain,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
)
for environment in (_HTML, _MARKDOWN):
    environment.globals |= {"words": words, "says": says}


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
