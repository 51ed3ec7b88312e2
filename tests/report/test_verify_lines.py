import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.report import folder_files as files
from bench.report import verify_lines
from bench.report.verify_files import RefusedError
from bench.report.verify_lines import check_observations, check_recipe_text, check_values
from bench.report.verify_text import commands_in
from tests.report.factories import make_recipe


def refusal(raw: bytes) -> str:
    with pytest.raises(RefusedError) as caught:
        check_observations(raw)
    (finding,) = caught.value.findings
    assert finding.file == files.OBSERVATIONS
    return finding.reason


def test_more_lines_than_a_run_leaves_are_refused() -> None:
    assert refusal(b"{}\n" * verify_lines.LINES_LIMIT) == "has 500,001 lines; a report has at most 500,000"


def test_a_line_without_end_is_refused() -> None:
    long = b"[" + b'{"":0},' * (verify_lines.LINE_LIMIT // 7 + 1) + b"0]"
    assert refusal(b"{}\n" + long + b"\n").startswith("line 2 has 1,04")


@given(st.text(), st.booleans())
def test_a_command_is_found_however_it_is_written(text: str, ascii_only: bool) -> None:
    line = json.dumps({"kind": "x", "line": text}, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
    if commands_in(text) is None:
        check_observations(b"{}\n" + line + b"\n")
    else:
        assert refusal(b"{}\n" + line + b"\n").startswith("line 2 holds characters that a terminal obeys: ")


def test_every_line_is_looked_at_once() -> None:
    """Lines that look like it and are not: an honest log may say "\\u001b"."""
    line = json.dumps({"line": "say \\u001b"}).encode()
    check_observations((line + b"\n") * 100_000)


def test_a_key_that_would_take_the_parser_days_is_refused() -> None:
    with pytest.raises(RefusedError, match=r"recipe\.resolved\.toml: line 2 has more than 200 dots"):
        check_recipe_text(b"a = 1\na" + b".a" * 500_000 + b" = 1\n")
    check_recipe_text(b"a.b.c = 1.5\nquote = '...'\n" * 1000)


def test_values_that_are_not_honest_are_named() -> None:
    check_values(make_recipe(), {"cpu": "AMD EPYC™ 9654"})
    for recipe, environment, file in (
        (make_recipe(title="\x1b]0;owned\x07"), {}, files.RECIPE),
        (make_recipe(engine={"flags": {"x": ["\u202e"]}}), {}, files.RECIPE),
        (make_recipe(), {"gpus": [{"na\x9bme": 1}]}, files.ENVIRONMENT),
    ):
        with pytest.raises(RefusedError, match="characters that a terminal obeys") as caught:
            check_values(recipe, environment)
        assert caught.value.findings[0].file == file
    with pytest.raises(RefusedError, match="holds a number of more than 63 bits"):
        check_values(make_recipe(workload={"output_tokens": 1 << 63}), {})
    with pytest.raises(RefusedError, match="holds a number of more than 63 bits"):
        check_values(make_recipe(engine={"flags": {"x": {"y": [1, -(10**400)]}}}), {})
