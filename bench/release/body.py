"""Our section in a release's body, which is somebody else's text: found by its marks, and nothing else is touched."""

from __future__ import annotations

from typing import Final

from bench.errors import StreamproofError

BEGIN: Final = "<!-- streamproof:begin -->"
END: Final = "<!-- streamproof:end -->"
BODY_LIMIT: Final = 125_000
"""Letters: as long as GitHub lets the body of a release be."""


def with_section(body: str, section: str) -> str:
    """The body with our section in it: in the place of the one that is there, or at the end.

    A section that differs from the one that is there by its ends of lines only (GitHub's editor makes them CR LF) is
    the same, and the body stays as it is.

    Args:
        body: as it is.
        section: begins with `BEGIN` and ends with `END`; a newline may follow.

    Raises:
        StreamproofError: the marks in the body are not one pair, or the body would be too long.
    """
    section = section.strip("\n")
    before, mark, rest = body.partition(BEGIN)
    inside, end, after = rest.partition(END)
    if not mark and END not in body:
        new = f"{body.rstrip()}\n\n{section}\n" if body.strip() else f"{section}\n"
    elif not end or BEGIN in inside + after or END in before + after:
        raise StreamproofError(
            f"the body of the release has not one {BEGIN} with one {END} behind it",
            remedy="Somebody edited the marks. Remove them, and the old section, from the body; then attach again.",
        )
    elif f"{BEGIN}{inside}{END}".replace("\r\n", "\n") == section:
        return body
    else:
        new = f"{before}{section}{after}"
    if len(new) > BODY_LIMIT:
        raise StreamproofError(
            f"the body of the release would have {len(new):,} letters; GitHub takes {BODY_LIMIT:,}",
            remedy="Shorten it by hand, or attach fewer reports to this release.",
        )
    return new
