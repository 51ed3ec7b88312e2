import copy
import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.report.verify_compare import SHOWN, differences

LEAVES = st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=5)
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
)


@given(VALUES)
def test_a_value_is_the_same_as_its_copy(value: object) -> None:
    assert differences(value, copy.deepcopy(value)) == []


@given(VALUES, VALUES)
def test_values_that_are_written_differently_differ(one: object, other: object) -> None:
    same = json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)
    assert (differences(one, other) == []) is same


@pytest.mark.parametrize(
    ("stored", "computed", "named"),
    [
        ({"a": [{"b": 1.0}]}, {"a": [{"b": 1.0 + 1e-8}]}, "a[0].b is 1.0; computed again: 1.00000001"),
        ({"a": 1}, {}, "a should not be there"),
        ({}, {"a": 1}, "a is missing"),
        ({"a": [1]}, {"a": [1, 2]}, "a has 1 entries; computed again: 2"),
        ({"a": True}, {"a": 1}, "a is True; computed again: 1"),
        ({"a": None}, {"a": 0.0}, "a is None; computed again: 0.0"),
        ({"a": "x" * 500}, {"a": ""}, f"a is '{'x' * 119}...; computed again: ''"),
        ({"a": {}}, {"a": []}, "a is {}; computed again: []"),
    ],
)
def test_a_difference_is_named_with_its_place(stored: object, computed: object, named: str) -> None:
    assert differences(stored, computed) == [named]


def test_the_last_digits_of_a_float_may_differ() -> None:
    assert differences({"a": 0.1 + 0.2}, {"a": 0.3}) == []
    assert differences({"a": 1.0}, {"a": math.nextafter(1.0, 2)}) == []


def test_only_the_first_differences_are_named() -> None:
    assert len(differences(list(range(100)), list(range(1, 101)))) == SHOWN
