from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.stats.ties import TIE
from quantize.quality.ask import Reply
from quantize.quality.repeat import REPLIES, asked_again, compare
from quantize.quality.served import Repeat
from quantize.quality.text import HeldOutText
from tests.quantize.quality.standin import Standin, greedy, serving
from tests.quantize.quality.test_quality_ask import engine

TEXTS = [HeldOutText(number, "router", (1, 2, 3, 4 + number, 5), (0,) * 5, 4) for number in range(2)]


def reply(*ids: int, likely: Sequence[dict[int, float]] = ()) -> Reply:
    return Reply(ids, 4, len(ids), "length", tuple(likely))


OTHER = reply(9, 9)
FIRST = reply(7, 3, 5, likely=[{7: -0.1, 8: -3.0}, {3: -1.0, 4: -1.1}, {5: -0.2, 6: -2.0}])


def again(likely_second: dict[int, float]) -> Reply:
    """Parts from FIRST at its second token, and is about something else then."""
    return reply(7, 4, 1, likely=[{7: -0.15, 8: -3.0}, likely_second, {1: -0.01, 0: -9.0}])


def test_equal_replies_part_nowhere() -> None:
    assert compare(FIRST, [FIRST, FIRST], OTHER) == Repeat(
        tokens=3, same=3, differs_from_b=True, replies=3, compared=6, partings=(), moved=0.0, other_gap=None
    )


def test_a_tie_by_hand() -> None:
    found = compare(FIRST, [FIRST, again({4: -1.02, 3: -1.08})], OTHER)
    assert (found.same, found.compared) == (1, 3 + 1)
    (parting,) = found.partings
    assert (parting.reply, parting.at) == (3, 1)
    assert parting.gap == pytest.approx(0.10 + 0.06)
    assert parting.gap is not None
    assert parting.gap < TIE
    # Of the third tokens nothing is compared: other words stand before them.
    assert found.moved == pytest.approx(0.08)


def test_how_far_another_prompt_s_reply_is() -> None:
    other = reply(9, 3, likely=[{9: -0.5, 6: -2.5}, {3: -1.0}])
    # 9 is not among the first reply's, nor 7 among the other's: at least as far as the last that are listed.
    assert compare(FIRST, [FIRST], other).other_gap == pytest.approx(2.9 + 2.0)


def test_another_candidate_that_is_far_ahead_is_no_tie() -> None:
    (parting,) = compare(FIRST, [again({4: -0.3, 3: -4.0})], OTHER).partings
    assert parting.gap == pytest.approx(0.1 + 3.7)


def test_a_candidate_that_is_not_listed_is_at_most_as_likely_as_the_last_one() -> None:
    (parting,) = compare(FIRST, [again({4: -0.3, 8: -2.3})], OTHER).partings
    assert parting.gap == pytest.approx(0.1 + 2.0)


@pytest.mark.parametrize("other", [reply(7, 4, 1), reply(7, 3), reply()])
def test_without_log_probabilities_or_a_token_nothing_is_known(other: Reply) -> None:
    (parting,) = compare(FIRST, [other], OTHER).partings
    assert parting.gap is None


@given(
    st.lists(st.lists(st.integers(0, 2), max_size=6), min_size=2, max_size=4),
    st.floats(-5, 0),
    st.floats(0, 5),
)
def test_whatever_the_replies_no_more_is_compared_than_there_is(
    replies: list[list[int]], high: float, lead: float
) -> None:
    one, *later = (
        reply(*ids, likely=[{token: high, (token + 1) % 3: high - lead} for token in ids]) for ids in replies
    )
    found = compare(one, later, OTHER)
    assert 0 <= found.same <= found.tokens
    assert found.same * len(later) <= found.compared <= len(one.ids) * len(later)
    assert len(found.partings) == sum(one.ids != each.ids for each in later)
    assert all(parting.gap is None or parting.gap >= 0 for parting in found.partings)


def asked(standin: Standin) -> Repeat:
    with serving(standin) as url:
        return asked_again(engine(url), TEXTS, tokens=6)


def test_a_server_that_changes_its_mind_is_found_where_it_does() -> None:
    standin = Standin()

    def forgetful(prompt: Sequence[int], tokens: int) -> list[int]:
        ids = greedy(prompt, tokens)
        return [*ids[:4], 49, 49] if len(standin.requests) == 4 else ids

    standin.reply = forgetful
    standin.likely = lambda ids: [{token: -0.5, 48: -3.5} for token in ids]
    found = asked(standin)
    assert len(standin.requests) == REPLIES + 1
    assert (found.same, found.compared, [parting.reply for parting in found.partings]) == (4, 16, [3])
    assert found.partings[0].gap == pytest.approx(6.0)


def test_a_server_that_gives_no_log_probabilities() -> None:
    standin = Standin(likely=lambda _ids: None)
    found = asked(standin)
    assert (found.same, found.partings, found.moved) == (6, (), None)


def test_one_reply_to_everything_is_told() -> None:
    assert not asked(Standin(reply=lambda _prompt, tokens: [1] * tokens)).differs_from_b
