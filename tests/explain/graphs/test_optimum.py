"""The best capture list: against brute force over every list, and on steps whose best list is plain."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.errors import UsageError
from bench.explain.graphs.optimum import Suggestion, apply, best_lists, enough

STEPS = st.dictionaries(st.integers(1, 30), st.integers(1, 50), min_size=1, max_size=7)


def brute(histogram: dict[int, int], count: int, step: int, miss_tokens: float) -> float:
    """The least cost of any list of at most so many multiples of `step`, the empty one included."""
    top = -(-max(histogram) // step) * step
    every = range(step, top + 1, step)
    return min(
        apply(sizes, histogram, miss_tokens=miss_tokens).cost
        for length in range(min(count, len(every)) + 1)
        for sizes in combinations(every, length)
    )


@settings(max_examples=60)
@given(histogram=STEPS, count=st.integers(1, 3), step=st.integers(1, 5), miss=st.sampled_from([0.0, 0.5, 3.0, 40.0]))
def test_no_list_is_better(histogram: dict[int, int], count: int, step: int, miss: float) -> None:
    found = best_lists(histogram, most=count, step=step, miss_tokens=miss)
    nothing = apply((), histogram, miss_tokens=miss).cost
    for length in range(1, len(found) + 1):
        best = min(nothing, *(suggestion.cost for suggestion in found[:length]))
        assert best == pytest.approx(brute(histogram, length, step, miss))


@given(histogram=STEPS, step=st.integers(1, 5), miss=st.floats(0, 100))
def test_a_suggestion_costs_what_it_says(histogram: dict[int, int], step: int, miss: float) -> None:
    for suggestion in best_lists(histogram, most=8, step=step, miss_tokens=miss):
        again = apply(suggestion.sizes, histogram, miss_tokens=miss)
        assert (again.padded, again.missed, again.steps, again.tokens) == (
            suggestion.padded,
            suggestion.missed,
            suggestion.steps,
            suggestion.tokens,
        )
        assert again.cost == pytest.approx(suggestion.cost)
        assert list(suggestion.sizes) == sorted(set(suggestion.sizes))
        assert all(size % step == 0 for size in suggestion.sizes)


def test_as_many_graphs_as_sizes_leave_only_the_rounding() -> None:
    lists = best_lists({4: 10, 7: 5, 300: 2}, most=64, step=5, miss_tokens=100)
    assert [len(found.sizes) for found in lists] == [1, 2, 3]
    assert lists[-1].sizes == (5, 10, 300)
    assert lists[-1].padded == 10 * 1 + 5 * 3
    assert lists[-1].covered == 1


def test_a_rare_long_step_is_worth_a_graph_only_if_a_miss_costs_more() -> None:
    steps = {10: 1000, 9000: 1}
    assert best_lists(steps, most=1, step=1, miss_tokens=100)[0].sizes == (10,)
    assert best_lists(steps, most=1, step=1, miss_tokens=1e8)[0].sizes == (9000,)


def test_few_graphs_that_are_nearly_as_good_are_enough() -> None:
    steps = dict.fromkeys(range(1000, 1064), 10) | {5: 1000}
    lists = best_lists(steps, most=64, step=1, miss_tokens=1000)
    found = enough(lists, 0.02)
    assert len(found.sizes) < 10
    assert found.padding < 0.025
    assert enough(lists, 0.0).cost == min(one.cost for one in lists)


def test_an_articles_worth_of_steps_is_solved_in_a_moment() -> None:
    steps = {tokens: 1 + tokens % 7 for tokens in range(5, 4000, 5)}
    lists = best_lists(steps, most=64, step=5, miss_tokens=1024)
    costs = [found.cost for found in lists]
    assert len(lists) == 64
    assert costs == sorted(costs, reverse=True)


def test_a_list_without_sizes_misses_everything() -> None:
    assert apply((), {5: 3}, miss_tokens=10) == Suggestion(sizes=(), padded=0, missed=3, steps=3, tokens=15, cost=30)


@pytest.mark.parametrize(
    ("histogram", "most", "step", "miss"),
    [({}, 1, 1, 0), ({0: 1}, 1, 1, 0), ({1: 0}, 1, 1, 0), ({1: 1}, 0, 1, 0), ({1: 1}, 1, 0, 0), ({1: 1}, 1, 1, -1)],
)
def test_numbers_that_cannot_be_are_refused(histogram: dict[int, int], most: int, step: int, miss: float) -> None:
    with pytest.raises(UsageError):
        best_lists(histogram, most=most, step=step, miss_tokens=miss)
