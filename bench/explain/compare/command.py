"""`just compare A B [C...]`: verifies, compares, shows."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from rich.console import Console

from bench.errors import Exit, UsageError
from bench.explain.compare.comparison import compare, exit_code
from bench.explain.compare.gate import parse_gate
from bench.explain.compare.page import render_markdown, render_page
from bench.explain.compare.show import shown
from bench.explain.compare.side import read_side
from bench.report.folder_files import canonical_json, write_whole
from bench.report.keys import trusted_keys
from bench.report.verify_show import ALLOW_LIST

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


def compare_and_show(  # noqa: PLR0913  the options of a command
    folders: Sequence[Path],
    *,
    gates: Sequence[str] = (),
    keys: Sequence[Path] = (),
    unverified: bool = False,
    anyway: bool = False,
    html: Path | None = None,
    markdown: bool = False,
    as_json: bool = False,
) -> Exit:
    """Compares reports and prints what came of it.

    Args:
        folders: of the reports, the base first.
        gates: as written.
        keys: files with public keys that the user trusts.
        unverified: take reports that cannot be verified.
        anyway: compare reports that answer different questions.
        html: write the page there.
        markdown: print Markdown instead of tables.
        as_json: print JSON instead.

    Returns:
        See `bench.explain.compare.comparison.exit_code`.

    Raises:
        UsageError: fewer than two reports, one of them twice, a folder that is none, a gate that is none.
        StreamproofError: a report is not verified.
        NotComparableError: they cannot be compared.
    """
    if len(folders) < 2:
        raise UsageError("A comparison needs two reports or more.", remedy="just compare BASE OTHER [MORE ...]")
    parsed = [parse_gate(text) for text in gates]
    trusted = trusted_keys(allow_list=ALLOW_LIST, extra=keys)
    sides = [read_side(folder, trusted, unverified=unverified) for folder in folders]
    comparison = compare(sides, parsed, anyway=anyway)
    if html is not None:
        write_whole(html, render_page(comparison).encode())
    if as_json:
        sys.stdout.write(canonical_json(comparison.model_dump(mode="json")).decode())
    elif markdown:
        sys.stdout.write(render_markdown(comparison))
    else:
        console = Console(highlight=False)
        console.print(shown(comparison))
        if html is not None:
            console.print(f"\n[dim]page[/] {html}")
    return exit_code(comparison)
