"""The server's own pages, in the form of the reports. They run no script and ask nothing of anybody."""

from __future__ import annotations

import base64
import hashlib
from importlib.resources import files
from typing import TYPE_CHECKING, Final

from markupsafe import Markup

from bench.report.render import words
from bench.report.render.environments import html_environment
from bench.report.render.html import STYLE, policy
from bench.report.render.tables import cell
from bench.report.verify_words import MEANS, MEANS_NOT
from bench.serve.beside import p95_table
from bench.serve.entry import KINDS, VALIDITIES, VERDICTS
from bench.serve.filters import WITHOUT_RUNS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.report.render.tables import Table
    from bench.serve.entry import Entry
    from bench.serve.filters import Filters
    from bench.serve.status import Status

_STYLE: Final = STYLE + files("bench.serve").joinpath("templates/serve.css").read_text(encoding="utf-8")

POLICY: Final = (
    "default-src 'none'; style-src 'sha256-"
    + base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
    + "'; img-src data:; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
"""What a page of this server may do: apply its one style sheet, and send its forms to this server."""

PAGE_POLICY: Final = (
    "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
"""What a page that came with a report may do, whatever it says of itself: be looked at."""

COMPARISON_POLICY: Final = f"{policy(STYLE)}; frame-ancestors 'none'"
"""What a comparison may do: apply the reports' style sheet."""

_ENVIRONMENT: Final = html_environment(
    "bench.serve",
    words=words,
    as_cell=cell,
    style=Markup(_STYLE),  # noqa: S704  two files of this project
    means=MEANS,
    means_not=MEANS_NOT,
)


def list_page(
    folder: str,
    shown: Sequence[tuple[Entry, Status]],
    every: Sequence[Entry],
    filters: Filters,
    *,
    left_out: int,
) -> str:
    """All reports of the folder.

    Args:
        folder: as it was named.
        shown: entries that fit, with what this server knows of them.
        every: all of them, for the choices of the form.
        filters: what was asked for.
        left_out: entries that fit and are not shown, as they are too many.
    """
    choices = {
        "kind": [WITHOUT_RUNS, *KINDS],
        "target": sorted({entry.target for entry in every}),
        "hardware": sorted({entry.hardware for entry in every}),
        "validity": VALIDITIES,
        "verdict": VERDICTS,
    }
    return _ENVIRONMENT.get_template("list.html.j2").render(
        folder=folder,
        shown=shown,
        total=len(every),
        filters=filters,
        choices=choices,
        unread=sum(entry.validity == "not read yet" for entry, _ in shown),
        waiting=sum(status.state == "waiting" and entry.validity != "not read yet" for entry, status in shown),
        left_out=left_out,
    )


def entry_page(entry: Entry, status: Status) -> str:
    """One report: what this server found, what the report says, and the way to its own page."""
    table = p95_table({"p95": entry.p95}) if entry.p95 else None
    return _ENVIRONMENT.get_template("entry.html.j2").render(entry=entry, status=status, table=table)


def beside_page(
    entries: Sequence[tuple[Entry, Status]], table: Table, why: str, remedy: str, *, anyway: str = ""
) -> str:
    """Reports side by side where they cannot be compared.

    Args:
        entries: with what this server knows of them.
        table: their figures.
        why: why there is no comparison.
        remedy: what to do about it.
        anyway: address of the comparison that waives what can be waived; empty where there is none.
    """
    return _ENVIRONMENT.get_template("beside.html.j2").render(
        entries=entries, table=table, why=why, remedy=remedy, anyway=anyway
    )


def problem_page(title: str, text: str) -> str:
    """That something is not there or not possible, and what to do."""
    return _ENVIRONMENT.get_template("problem.html.j2").render(title=title, text=text)
