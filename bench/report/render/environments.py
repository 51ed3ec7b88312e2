"""The template environments of all pages, in one place: what escapes whatever comes from outside.

Names, quotes and log lines may be anybody's. In HTML the template engine escapes them; in Markdown every value passes
through `plain`, so that no heading, link, image, table cell or HTML can come from one.
"""

from __future__ import annotations

import re
from typing import Final

from jinja2 import Environment, PackageLoader, StrictUndefined

_SPECIAL: Final = re.compile(r"[\\`*_{}\[\]<>#|~&$]|^[-+=]|(?<=^\d)[.)](?=\s)")
"""What means something in Markdown: anywhere, or at the start only (lists, rules)."""
_SPACE: Final = re.compile(r"\s+")


def plain(value: object) -> str:
    """A value as Markdown that shows just its text, on one line."""
    text = _SPACE.sub(" ", str(value)).strip()
    return _SPECIAL.sub(r"\\\g<0>", text)


def html_environment(package: str, **names: object) -> Environment:
    """For the HTML templates of a package.

    Args:
        package: whose folder `templates` holds them.
        names: what every template may use.
    """
    environment = Environment(
        loader=PackageLoader(package),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals |= names
    return environment


def markdown_environment(package: str, **names: object) -> Environment:
    """For the Markdown templates of a package; arguments as above."""
    environment = Environment(
        loader=PackageLoader(package),
        autoescape=False,  # noqa: S701  it would escape for HTML; `finalize` escapes every value for Markdown instead
        finalize=plain,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.globals |= names
    return environment
