import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from bench.errors import StreamproofError
from bench.release.body import BEGIN, BODY_LIMIT, END, with_section

SECTION = f"{BEGIN}\nours\n{END}\n"
theirs = st.text().filter(lambda text: BEGIN not in text and END not in text)


@given(theirs)
def test_what_others_wrote_stays_and_twice_is_as_once(body: str) -> None:
    once = with_section(body, SECTION)
    assert once.startswith(body.rstrip())
    assert once.count(BEGIN) == once.count(END) == 1
    assert with_section(once, SECTION) == once


@given(theirs, theirs, theirs)
def test_only_what_is_between_the_marks_is_replaced(before: str, inside: str, after: str) -> None:
    assume(inside.replace("\r\n", "\n") != "\nours\n")
    body = f"{before}{BEGIN}{inside}{END}{after}"
    assert with_section(body, SECTION) == f"{before}{SECTION.strip()}{after}"


def test_ends_of_lines_that_githubs_editor_changed_are_no_difference() -> None:
    body = f"# Release\n\n{SECTION}".replace("\n", "\r\n")
    assert with_section(body, SECTION) == body


@pytest.mark.parametrize(
    "body", [BEGIN, END, f"{END}{BEGIN}", f"{SECTION}{SECTION}", f"{BEGIN}{SECTION}", f"{SECTION}{END}"]
)
def test_marks_that_somebody_edited_are_refused(body: str) -> None:
    with pytest.raises(StreamproofError, match="has not one") as refused:
        with_section(body, SECTION)
    assert "Remove them" in refused.value.remedy


def test_a_body_that_github_would_refuse_is_refused_beforehand() -> None:
    with pytest.raises(StreamproofError, match="125,000"):
        with_section("x" * BODY_LIMIT, SECTION)
