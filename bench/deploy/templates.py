"""The templates of docker/templates, in which no value can stand unquoted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Undefined

from bench.deploy.quoting import Quoted, comment, kubernetes_string, shell_word, yaml_lines, yaml_string
from bench.engine.pins import REPOSITORY

TEMPLATES: Final = REPOSITORY / "docker" / "templates"


def render(template: str, **values: object) -> str:
    """A file, from a template and its values.

    Args:
        template: name of a file in docker/templates.
        values: what it may use. Integers may be written as they are, everything else through one of the filters
            `yaml`, `yaml_lines`, `kubernetes`, `shell` and `comment`.

    Raises:
        UsageError: a value cannot be passed on.
        TypeError: the template writes a value without a filter.
        jinja2.UndefinedError: the template uses a value that it is not given.
    """
    return _ENVIRONMENT.get_template(template).render(**values)


def _only_quoted(value: object) -> object:
    """What `{{ ... }}` may write. An undefined value is left to `StrictUndefined`, which names it."""
    if isinstance(value, (Quoted, Undefined)) or type(value) is int:
        return value
    raise TypeError(f"a template of docker/templates writes {value!r} without a filter that quotes it")


def _of_text(quote: Callable[..., Quoted]) -> Callable[..., Quoted]:
    """The filter that quotes text, and nothing else."""

    def apply(value: object, *arguments: int) -> Quoted:
        if not isinstance(value, str):  # `StrictUndefined` raises its own error here, which names it
            raise TypeError(f"a filter of docker/templates quotes text, not {value}")
        return quote(value, *arguments)

    return apply


_ENVIRONMENT: Final = Environment(
    loader=FileSystemLoader(TEMPLATES),
    autoescape=False,  # noqa: S701  it would escape for HTML; `finalize` lets nothing pass that no filter has quoted
    finalize=_only_quoted,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
)
_ENVIRONMENT.filters |= {
    "yaml": _of_text(yaml_string),
    "yaml_lines": _of_text(yaml_lines),
    "kubernetes": _of_text(kubernetes_string),
    "shell": _of_text(shell_word),
    "comment": _of_text(comment),
}
