"""Floors: by hand for one step, in order for more work, and below everything that was measured."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.explain.preflight.floors import Machine, Request, reply_floor
from recipes.schema import Point
from tests.explain.preflight.planned import basis


def machine(target: str = "h200-fp8-dummy") -> Machine:
    found = basis(target).machine
    assert found is not None
    return found


def test_one_decoding_step_by_hand() -> None:
    vanilla = machine("vanilla")
    experts = vanilla.parts["routed experts"].total * 8 / 256
    always = sum(part.total for name, part in vanilla.parts.items() if name not in ("routed experts", "embedding"))
    keys = 10 * 10_000 * 2 * 2 * 256 * 2
    states = 30 * 2 * (8192 * 3 * 2 + 32 * 128 * 128 * 4)
    step = vanilla.decode(1, 10_000)
    assert step.moved == pytest.approx(experts + always + keys + states)
    assert step.seconds == pytest.approx(step.moved / 4.8e12)
    assert step.bound == "bandwidth"


def test_a_long_prefill_computes_and_a_short_one_reads() -> None:
    assert machine("vanilla").prefill(8192, 5000).bound == "compute"
    assert machine("vanilla").prefill(64, 5000).bound == "bandwidth"
    step = machine("vanilla").prefill(8192, 0)
    assert step.operations == pytest.approx(2 * 8192 * 2.44e9, rel=0.02)  # active parameters without embedding and head


def test_floors_lie_below_what_was_measured() -> None:
    of = basis("h200-fp8-dummy")
    measured = (1.042, 2.298, 3.620, 2.439)
    for point, mean in zip(of.recipe.load.ladder, measured, strict=True):
        floor = reply_floor(machine(), of.request, point, of.recipe.load.turn_gap.mean_s)
        assert floor is not None
        assert 0.01 < floor < mean
    assert machine("vanilla").decode(1, 10_000).seconds < 0.0041  # measured: 4.1 ms a token


def test_a_better_card_has_lower_floors() -> None:
    here, there = basis("h200-fp8", gpu="H200").machine, basis("h200-fp8", gpu="B200").machine
    assert here is not None
    assert there is not None
    assert there.decode(16, 10_000).seconds < here.decode(16, 10_000).seconds
    assert there.prefill(3520, 8000).seconds < here.prefill(3520, 8000).seconds


@given(sequences=st.integers(1, 200), context=st.floats(0, 200_000), more=st.integers(1, 50))
def test_more_work_never_takes_less(sequences: int, context: float, more: int) -> None:
    step = machine().decode(sequences, context)
    assert machine().decode(sequences + more, context).seconds >= step.seconds
    assert machine().decode(sequences, context + more).seconds >= step.seconds
    assert step.seconds >= step.moved / machine().bandwidth * (1 - 1e-12)
    # Together is never slower than one after another.
    assert step.seconds <= sequences * machine().decode(1, context).seconds * (1 + 1e-9)


def test_a_closed_loop_is_bound_by_the_card_and_a_gap_relieves_it() -> None:
    request = Request(prompt=10_000, computed=3520, reply=100, acceptance=3.2)
    alone, own = machine().alone(request), machine().own(request)
    assert own < alone
    assert reply_floor(machine(), request, Point(concurrent=1), 4.0) == alone
    assert reply_floor(machine(), request, Point(concurrent=1000), 4.0) == pytest.approx(1000 * own)
    assert reply_floor(machine(), request, Point(streams=1000), 4.0) == pytest.approx(1000 * own - 4.0)
    assert reply_floor(machine(), request, Point(streams=10), 4.0) == alone


def test_an_open_loop_beyond_the_card_has_no_floor() -> None:
    request = Request(prompt=10_000, computed=3520, reply=100, acceptance=3.2)
    limit = 1 / machine().own(request)
    assert reply_floor(machine(), request, Point(rate=limit * 0.9, arrivals="poisson"), 4.0) is not None
    assert reply_floor(machine(), request, Point(rate=limit * 1.1, arrivals="poisson"), 4.0) is None


def test_without_a_stated_acceptance_every_draft_is_accepted() -> None:
    request = Request(prompt=10_000, computed=3520, reply=101, acceptance=None)
    assert request.steps(4) == 20
    assert replace(request, acceptance=2.0).steps(4) == 50
