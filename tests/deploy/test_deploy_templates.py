"""A template can forget no filter and no value."""

from pathlib import Path

import pytest
from jinja2 import DictLoader, UndefinedError

from bench.deploy import templates


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    pages: dict[str, str] = {}
    monkeypatch.setattr(templates._ENVIRONMENT, "loader", DictLoader(pages))
    monkeypatch.setattr(templates._ENVIRONMENT, "cache", None)
    return pages


def test_a_value_without_a_filter_ends_the_rendering(written: dict[str, str]) -> None:
    written["page"] = "name: {{ name }}"
    with pytest.raises(TypeError, match="without a filter"):
        templates.render("page", name="anything")
    for harmless in ("true", "1.5", "none", "'text'", "[1]"):
        written["page"] = f"name: {{{{ {harmless} }}}}"
        with pytest.raises(TypeError, match="without a filter"):
            templates.render("page")


def test_a_filter_that_jinja_brings_does_not_count_as_one(written: dict[str, str]) -> None:
    written["page"] = "name: {{ name | yaml | upper }}"
    with pytest.raises(TypeError, match="without a filter"):
        templates.render("page", name="anything")


def test_a_filter_takes_text_only(written: dict[str, str]) -> None:
    written["page"] = "name: {{ name | yaml }}"
    with pytest.raises(TypeError, match="quotes text, not None"):
        templates.render("page", name=None)


def test_numbers_and_filtered_values_are_written(written: dict[str, str]) -> None:
    written["page"] = "{{ count }} {{ name | yaml }} {{ name | shell }} {{ name | kubernetes }} # {{ name | comment }}"
    assert templates.render("page", count=3, name="a $b") == '3 "a $b" \'a $b\' "a $$b" # a $b'


def test_a_value_that_is_not_given_is_named(written: dict[str, str]) -> None:
    for use in (
        "{{ nobody }}",
        "{{ nobody | yaml }}",
        "{% for x in nobody %}{% endfor %}",
        "{% if nobody %}{% endif %}",
    ):
        written["page"] = use
        with pytest.raises(UndefinedError, match="nobody"):
            templates.render("page")


def test_the_templates_are_ascii_and_no_line_is_too_long_to_read() -> None:
    for path in sorted(Path(templates.TEMPLATES).glob("*.j2")):
        text = path.read_text(encoding="ascii")
        assert text.endswith("\n"), path
        assert "\t" not in text, path
