"""`just steps REPORT`: reads, takes apart, shows."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from bench.errors import Exit
from bench.explain.steps.analysis import analyse
from bench.explain.steps.as_json import as_data
from bench.explain.steps.show import shown
from bench.report.verify_text import printable

if TYPE_CHECKING:
    from pathlib import Path


def steps(folder: Path, *, as_json: bool = False) -> Exit:
    """Prints where the time of a report's replies went.

    Args:
        folder: of the report; anybody may have made it.
        as_json: for scripts.

    Returns:
        0.

    Raises:
        StreamproofError: no report, one that was changed, or one that no measurement could have left.
    """
    # On a terminal only: a large report takes a while, and a script wants none of it.
    with Console(stderr=True).status("") as status:
        analysis = analyse(folder, progress=lambda text: status.update(Text(printable(text, 120))))
    if as_json:
        sys.stdout.write(json.dumps(as_data(analysis), indent=2, allow_nan=False) + "\n")
    else:
        Console(highlight=False).print(shown(analysis))
    return Exit.OK
