"""`just graphs REPORT`: reads, chooses, shows."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

from rich.console import Console

from bench.errors import Exit
from bench.explain.graphs.analysis import MISS_TOKENS, analyse
from bench.explain.graphs.show import as_data, shown

if TYPE_CHECKING:
    from pathlib import Path


def graphs(folder: Path, *, count: int | None = None, miss_tokens: float = MISS_TOKENS, as_json: bool = False) -> Exit:
    """Prints which graphs a report's run used, and a better list.

    Args:
        folder: of the report.
        count: sizes of the list to suggest; None for the shortest that is nearly as good as the best.
        miss_tokens: a step without a graph is as bad as so many padded tokens.
        as_json: for scripts.

    Returns:
        0.

    Raises:
        StreamproofError: no report, one that was changed, or one without such metrics.
    """
    analysis = analyse(folder, graphs=count, miss_tokens=miss_tokens)
    if as_json:
        sys.stdout.write(json.dumps(as_data(analysis), indent=2, allow_nan=False) + "\n")
    else:
        Console().print(shown(analysis))
    return Exit.OK
