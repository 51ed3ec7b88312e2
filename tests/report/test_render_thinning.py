import itertools

from hypothesis import given
from hypothesis import strategies as st

from bench.report.render.thinning import evenly, extremes, of_each_kind


@given(st.integers(0, 5000), st.integers(2, 300))
def test_evenly_spaced_indices(length: int, most: int) -> None:
    chosen = evenly(length, most)
    assert len(chosen) == min(length, most)
    assert chosen == sorted(set(chosen))
    if length:
        assert (chosen[0], chosen[-1]) == (0, length - 1)
    gaps = {after - before for before, after in itertools.pairwise(chosen)}
    assert not gaps or max(gaps) - min(gaps) <= 1


series = st.lists(st.tuples(st.floats(0, 1e4), st.floats(-1e6, 1e6)), min_size=1, max_size=400).map(sorted)


@given(series, st.integers(1, 40))
def test_no_peak_and_no_dip_of_a_line_is_lost(places: list[tuple[float, float]], slots: int) -> None:
    kept = extremes(places, slots)
    assert len(kept) <= 4 * slots or kept == places
    assert (kept[0], kept[-1]) == (places[0], places[-1])
    assert kept == sorted(kept, key=places.index)
    assert min(y for _, y in kept) == min(y for _, y in places)
    assert max(y for _, y in kept) == max(y for _, y in places)


def test_each_slot_keeps_its_first_last_lowest_and_highest() -> None:
    line = [(float(x), float(abs(x % 50 - 25))) for x in range(100)]
    assert extremes(line, 2) == [line[at] for at in (0, 25, 49, 50, 75, 99)]


def test_places_at_one_time_have_extremes_too() -> None:
    assert extremes([(1.0, float(y)) for y in (3, 1, 2, 9, 5)], 1) == [(1.0, 3.0), (1.0, 1.0), (1.0, 9.0), (1.0, 5.0)]


@given(st.lists(st.sampled_from("abc"), max_size=300), st.integers(2, 20))
def test_of_each_kind_some_are_kept(kinds: list[str], most: int) -> None:
    chosen = of_each_kind(kinds, most)
    assert chosen == sorted(set(chosen))
    for kind in "abc":
        assert [kinds[at] for at in chosen].count(kind) == min(most, kinds.count(kind))
