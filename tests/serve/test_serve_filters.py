from dataclasses import fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.serve.filters import VALUES_LIMIT, Filters, parse_query
from tests.serve.served import EVIL, Served

words = st.text(st.characters(exclude_categories=["Cs"]), max_size=40).map(str.strip)


@given(st.builds(Filters, words, words, words, words, words, words))
def test_what_is_asked_for_survives_an_address(filters: Filters) -> None:
    assert Filters.of(filters.query()) == filters


@given(st.text(max_size=300))
def test_no_query_is_an_error(query: str) -> None:
    found = Filters.of(query)
    assert all(isinstance(getattr(found, field.name), str) for field in fields(found))


def test_a_query_has_limits() -> None:
    assert parse_query("&".join("a=1" for _ in range(VALUES_LIMIT + 1))) == {}
    assert len(Filters.of(f"text={'x' * 5000}").text) == 200


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("validity=partial", {"deep/er/stranger"}),
        ("verdict=not+reproduced", {"fast"}),
        ("verdict=nothing+to+compare", {"slow"}),
        ("hardware=NVIDIA+H200&validity=valid", {"fast", "slow"}),
        ("hardware=nothing", set()),
        ("target=test-h200&text=SLOWER", {"slow"}),
        ("text=stranger+img", {"deep/er/stranger"}),
        ("text=stranger+slower", set()),
        ("validity=cannot+be+read&text=schema+9", {"broken/future"}),
        ("kind=capacity", set()),
    ],
)
def test_entries_that_fit(served: Served, query: str, expected: set[str]) -> None:
    assert {entry.place for entry in Filters.of(query).chosen(served.catalogue.entries())} == expected


def test_runs_of_an_ablation_are_shown_when_they_are_asked_for(served: Served) -> None:
    run = replace(served.entry("fast"), kind="ablation run")
    assert Filters().chosen([run]) == []
    assert Filters(kind="ablation run").chosen([run]) == [run]
    assert Filters(kind="report").chosen([run]) == []


def test_a_hostile_text_is_only_text(served: Served) -> None:
    assert [entry.place for entry in Filters(text=EVIL.split()[-1]).chosen(served.catalogue.entries())] != []
