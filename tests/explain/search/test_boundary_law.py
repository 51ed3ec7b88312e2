"""The promise of a search: the true boundary lies between what it certifies, in at least 95 of 100 searches."""

import pytest

from bench.explain.search.boundary import Search
from tests.explain.search.laws import Share, asked, drive, inside, lognormal, true_boundary

SEEDS = 100


def cliff(streams: float) -> float:
    """Nearly nobody is late up to 13 streams, and half of all from 14 on."""
    return 0.005 if streams <= 13 else 0.5


@pytest.mark.parametrize(
    ("share", "keep"),
    [
        pytest.param(lognormal(0.03), 0.0, id="smooth"),
        pytest.param(lognormal(0.08), 0.0, id="smooth and steep"),
        pytest.param(lognormal(0.08), 0.6, id="late requests in bursts"),
        pytest.param(cliff, 0.0, id="cliff"),
        pytest.param(cliff, 0.6, id="cliff, in bursts"),
    ],
)
def test_the_true_boundary_is_inside_in_95_of_100_searches(share: Share, keep: float) -> None:
    question = asked()
    truth = true_boundary(question, share)
    assert 0 <= truth < len(question.values) - 1
    found = [drive(question, share, seed=seed, keep=keep) for seed in range(SEEDS)]
    assert sum(inside(question, state, truth) for state in found) >= 95
    # And the answers say something: without a certificate on both sides every boundary is inside.
    assert sum(state.holds is not None and state.fails is not None for state in found) >= 80


def test_plain_counts_of_bursts_would_break_the_promise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.explain.search.boundary.design_effect", lambda _settings: 1.0)
    question, share = asked(), lognormal(0.08)
    truth = true_boundary(question, share)
    found = [drive(question, share, seed=seed, keep=0.9) for seed in range(SEEDS)]
    assert sum(inside(question, state, truth) for state in found) < 95


def test_a_cliff_is_found_to_the_stream() -> None:
    question = asked()
    exact = [drive(question, cliff, seed=seed) for seed in range(20)]
    assert sum((state.holds, state.fails) == (12, 13) for state in exact) >= 19


def test_a_search_over_turn_gaps_keeps_the_promise() -> None:
    gaps = tuple(float(f"{16 / 1.25**step:.3g}") for step in range(17))
    question = asked(axis="turn_gap", values=gaps, base={"streams": 20}, start=8)

    def share(gap_s: float) -> float:
        return lognormal(0.08)(60 / gap_s)

    truth = true_boundary(question, share)
    assert 0 < truth < len(gaps) - 1
    found = [drive(question, share, seed=seed) for seed in range(SEEDS)]
    assert sum(inside(question, state, truth) for state in found) >= 95


@pytest.mark.parametrize(("share", "holds", "fails"), [(lambda _: 0.001, 63, None), (lambda _: 0.9, None, 0)])
def test_a_limit_that_holds_everywhere_or_nowhere(share: Share, holds: int | None, fails: int | None) -> None:
    state = drive(asked(), share, seed=0)
    assert (state.holds, state.fails) == (holds, fails)


def test_too_few_requests_prove_nothing_and_the_search_ends() -> None:
    state: Search = drive(asked(), lognormal(0.03), seed=0, requests=8)
    assert state.holds is None
    assert state.points <= 60
