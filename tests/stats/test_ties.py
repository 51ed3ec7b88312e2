from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.stats.ties import TIE, UNTRAINED, lead, shared, tie_limit

tokens = st.lists(st.integers(0, 3), max_size=6)


@given(tokens, tokens)
def test_what_two_replies_share_is_their_longest_common_beginning(one: list[int], other: list[int]) -> None:
    at = shared(one, other)
    assert one[:at] == other[:at]
    assert one[at : at + 1] != other[at : at + 1] or at == len(one) == len(other)


def test_a_lead_by_hand() -> None:
    row = {7: -0.1, 8: -3.0}
    assert lead(row, 7, 8) == pytest.approx(2.9)
    assert lead(row, 8, 7) == pytest.approx(-2.9)
    assert lead(row, 7, 9) == pytest.approx(2.9)  # at most as likely as the last that is listed


@pytest.mark.parametrize(
    ("trained", "other_gap", "limit"),
    [(True, 9.0, TIE), (False, None, TIE), (False, 0.1, TIE), (False, 3.0, UNTRAINED * 3.0)],
)
def test_only_untrained_weights_are_allowed_more(trained: bool, other_gap: float | None, limit: float) -> None:
    assert tie_limit(trained=trained, other_gap=other_gap) == limit
