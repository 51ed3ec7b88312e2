"""The capture list as vLLM 0.26.0 makes it of what it is asked for."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.errors import UsageError
from bench.explain.preflight.captures import captures_of, rounded
from bench.explain.preflight.releases import release_of
from bench.explain.preflight.settings import Settings, settings_of
from recipes.load import load_recipe


def settings(**changes: object) -> Settings:
    base = settings_of(load_recipe("h200-fp8"))
    return replace(base, **changes)  # type: ignore[arg-type]  # fields by name


def test_the_articles_list_ends_in_silence_at_12290() -> None:
    found = captures_of(settings())
    assert found.largest == 12290
    assert found.dropped == (16384,)
    assert (len(found.piecewise), len(found.full), found.full[-1]) == (59, 37, 320)


def test_the_list_that_was_measured_by_others() -> None:
    sizes = [2**power for power in range(15)]
    assert rounded(sizes, 5, 16384) == [5, 10, 20, 35, 65, 130, 260, 515, 1025, 2050, 4100, 8195]
    assert rounded([*sizes[:-1], 16380], 5, 16380)[-1] == 16380


def test_the_engines_own_list() -> None:
    found = captures_of(settings_of(load_recipe("vanilla")))
    assert found.sizes[:6] == (1, 2, 4, 8, 16, 24)
    assert (found.largest, len(found.piecewise), len(found.full)) == (512, 51, 51)


def test_a_newer_runner_does_not_round() -> None:
    assert captures_of(settings(release=release_of("0.29.0"))).largest == 16384


def test_graphs_in_pieces_are_not_rounded_and_none_is_whole() -> None:
    found = captures_of(settings(graph_mode="PIECEWISE"))
    assert found.sizes[:3] == (1, 2, 4)
    assert found.full == ()


def test_without_graphs_there_is_no_list() -> None:
    assert captures_of(settings(graph_mode="NONE")).graphs == 0


def test_sizes_above_a_step_are_removed_and_a_maximum_that_differs_is_refused() -> None:
    small = settings(max_num_batched_tokens=8192, max_capture=None)
    assert captures_of(small).largest == 6145  # 8,192 itself rounds up past the maximum
    assert captures_of(small).dropped == (8192,)  # no step has 12,288 tokens
    with pytest.raises(UsageError, match="vLLM refuses this"):
        captures_of(settings(max_num_batched_tokens=8192))


def test_a_list_of_which_nothing_is_left_is_refused() -> None:
    with pytest.raises(UsageError, match="no capture size is left"):
        captures_of(settings(capture_sizes=(3,), max_capture=None, max_num_batched_tokens=4))


@given(
    sizes=st.lists(st.integers(1, 20_000), min_size=1, max_size=40),
    step=st.integers(1, 9),
    largest=st.integers(1, 20_000),
)
def test_rounding_keeps_multiples_within_the_maximum(sizes: list[int], step: int, largest: int) -> None:
    kept = rounded(sizes, step, largest)
    assert kept == sorted(set(kept))
    assert all(size % step == 0 and size <= largest for size in kept)
    for size in sizes:  # what fits is replayed by a graph that is no more than k larger
        if -(-size // step) * step <= largest:
            assert any(size <= graph < size + step for graph in kept)
