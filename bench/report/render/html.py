"""`report.html`: one file with everything in it. It asks nothing of any network and runs no script.

Everything that comes from outside (names, quotes, log lines) is escaped by the template engine, and the page's own
content security policy allows its one style sheet, by its hash, and nothing else.
"""

from __future__ import annotations

import base64
import hashlib
from importlib.resources import files
from typing import TYPE_CHECKING, Final

from markupsafe import Markup

from bench.report import verify_words
from bench.report.folder_evidence import recipe_toml
from bench.report.render import words
from bench.report.render.drawings import BUDGET_S
from bench.report.render.environments import html_environment
from bench.report.render.same_answers import same_answers
from bench.report.render.tables import cell
from bench.report.render.verdict import CHECK_TONES, CLAIM_TONES, within_budget
from bench.report.render.view import view_of

if TYPE_CHECKING:
    from bench.report.evidence import Evidence
    from bench.report.model import Report

STYLE: Final = files("bench.report.render").joinpath("templates/style.css").read_text(encoding="utf-8")

_ENVIRONMENT: Final = html_environment(
    "bench.report.render",
    words=words,
    claim_tones=CLAIM_TONES,
    check_tones=CHECK_TONES,
    verified=verify_words,
    as_cell=cell,
    budget_s=BUDGET_S,
    within_budget=within_budget,
    same_answers=same_answers,
)


def policy(style: str) -> str:
    """The page's content security policy: nothing is fetched, nothing runs, one style sheet applies."""
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    return f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; base-uri 'none'; form-action 'none'"


def render_page(report: Report, evidence: Evidence) -> str:
    """Draws the page: the same report and evidence always give the same bytes."""
    return _ENVIRONMENT.get_template("page.html.j2").render(
        view=view_of(report, evidence),
        report=report,
        recipe_toml=recipe_toml(evidence.recipe),
        style=Markup(STYLE),  # noqa: S704  a file of this package
        policy=policy(STYLE),
    )
