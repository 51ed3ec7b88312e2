"""p95 against the load as lines of letters, for where no picture is shown: GitHub's pages, mails, terminals.

GitHub shows no SVG that is an asset of a release: it serves every asset as `application/octet-stream`, and a browser
takes that for a bitmap, but never for an SVG (https://github.com/github/markup/issues/1582). A bitmap would be shown;
to draw one we would need a rasterizer, which nothing among our dependencies is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.release.series import Row

WIDTH: Final = 48
"""Letters of the longest bar."""
BAR: Final = "\N{FULL BLOCK}"
LINE: Final = "\N{BOX DRAWINGS LIGHT VERTICAL}"


def bars(rows: Sequence[Row], limit_s: float, limit: str) -> str:
    """Draws a line per row, marked at the limit.

    Args:
        rows: any number.
        limit_s: seconds, above 0.
        limit: its name, e.g. "1 s".

    Returns:
        Lines without an end; empty where no row has a figure.
    """
    known = [row.value_s for row in rows if row.value_s is not None]
    if not known:
        return ""
    letter_s = max([*known, limit_s]) / WIDTH
    labels = [" ".join(row.label.split()) for row in rows]  # a trace's name may hold anything, but begins no line
    margin = max(map(len, labels))
    mark = min(round(limit_s / letter_s), WIDTH - 1 if max(known) > limit_s else WIDTH)
    lines = [f"{'':<{margin}}  p95 of E2E"]
    for row, label in zip(rows, labels, strict=True):
        length = 0 if row.value_s is None else max(1, round(row.value_s / letter_s))
        # Which side of the limit a bar ends on is what it is looked at for: rounding must not change it.
        length = max(length, mark + 1) if (row.value_s or 0) > limit_s else min(length, mark)
        bar = f"{BAR * min(length, mark):<{mark}}{LINE}{BAR * (length - mark):<{WIDTH - mark}}"
        lines.append(f"{label:<{margin}}  {bar} {row.text}")
    return "\n".join([*lines, f"{'':<{margin}}  {'':<{mark}}{limit}"])
