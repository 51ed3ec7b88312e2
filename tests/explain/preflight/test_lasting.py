"""Hits that last: what the tuned recipe loses in the long run, and why."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.explain.preflight.blocks import blocks_of
from bench.explain.preflight.lasting import lasting_of, prompts_at_once
from bench.explain.preflight.plan import Basis, Verdict
from bench.explain.preflight.prefix import prefills_of, rules_of, turns_of
from bench.explain.preflight.verdicts import LASTING, verdicts_of
from bench.observe.lasting import Lasting
from bench.workload.prefix_cache import PrefixCacheModel
from tests.explain.preflight.planned import UNIT, basis, lines

FAST, NO_MTP = "h200-fp8-fast-dummy", "h200-fp8-no-mtp-dummy"
SIXTEEN = ("load.ladder", "[{concurrent = 16}]")
SHARED_CARD = ("engine.flags.kv_cache_memory_bytes", "23085449216")
"""What each of two engines got of one card (evidence/h200/host-floor-20261130)."""


def lasting(target: str, *overrides: tuple[str, str]) -> Lasting:
    found = lasting_of(basis(target, *overrides))
    assert found is not None
    return found


def said(of: Basis) -> Verdict | None:
    return next((verdict for verdict in verdicts_of(of) if verdict.name == LASTING), None)


def test_hits_that_tails_vouch_for_do_not_last() -> None:
    """What the tuned recipe had, and its reports of minutes showed only the beginning of."""
    found = lasting(FAST, UNIT)
    assert found.full
    assert not found.lasts
    assert found.first == pytest.approx(0.889, abs=0.002)
    assert found.rate == pytest.approx(0.745, abs=0.005)
    assert found.lost_after == pytest.approx(800, rel=0.1)
    # What is left is more than the same blocks give without a unit, which last, in twice the steps.
    whole = lasting(FAST)
    assert whole.lasts
    assert whole.rate == pytest.approx(0.648, abs=0.002)
    of = basis(FAST, UNIT)
    rules = rules_of(of.recipe, of.settings, of.cache)
    assert rules is not None
    assert lasting_of(of, replace(rules, match_unit=None)) == whole


def test_an_engine_that_shares_its_card_loses_them_within_a_window() -> None:
    """The first run, of 175 requests, lost 4 hits, and each later one 29 to 62 (evidence/h200/host-floor-20261130)."""
    found = lasting(FAST, UNIT, SIXTEEN, SHARED_CARD)
    assert found.blocks == pytest.approx(948, abs=1)
    assert found.lost_after == pytest.approx(170, rel=0.1)
    assert found.rate == pytest.approx(0.748, abs=0.005)


@pytest.mark.parametrize("target", [FAST, NO_MTP, "h200-fp8-dummy", "b200-nvfp4", "vanilla", "cpu"])
def test_whole_blocks_that_every_prompt_uses_last(target: str) -> None:
    found = lasting(target)
    assert found.lasts
    assert found.lost_after is None
    assert said(basis(target)) is None
    assert "keep what is used again" in lines(basis(target))["prefix.lasting"].how


def test_a_pool_that_nothing_more_is_left_in_is_never_full() -> None:
    """Blocks of 2,992: of a prompt behind the shared 8,976 tokens no block is ever full."""
    found = lasting(NO_MTP)
    assert not found.full
    assert found.requests < 2000
    assert "some were never used" in lines(basis(NO_MTP))["prefix.lasting"].how


def test_the_verdict_says_when_and_what_to_do() -> None:
    found = said(basis(FAST, UNIT))
    assert found is not None
    assert found.verdict == "tight"
    assert "88.9 %" in found.why
    assert "74.7 %" in found.why
    assert "4,135 blocks" in found.why
    assert "--blocks" in found.change
    line = lines(basis(FAST, UNIT))["prefix.lasting"]
    assert line.value == lasting(FAST, UNIT).rate
    assert "88.9 % until request 793" in line.how


def test_where_no_unit_is_set_no_blocks_are_recommended() -> None:
    """Without one it takes a pool that hardly holds what runs."""
    many = basis("cpu", ("load.ladder", "[{streams = 40}]"))
    small = replace(many, budget=replace(many.budget, blocks=440))
    found = lasting_of(small)
    assert found is not None
    assert not found.lasts
    verdict = said(small)
    assert verdict is not None
    assert "--blocks" not in verdict.change
    assert "KV cache" in verdict.change


def test_what_no_engine_can_serve_has_none() -> None:
    of = basis(FAST, SIXTEEN)
    assert lasting_of(replace(of, budget=replace(of.budget, blocks=0))) is None
    assert lasting_of(replace(of, budget=replace(of.budget, blocks=100))) is None  # not all 16 fit at once
    assert lasting_of(basis(FAST, ("load.ladder", "[{concurrent = 1000000000}]"))) is None  # said at once
    assert lasting_of(basis("cpu-mtp")) is None  # caches nothing
    assert lasting_of(basis("cpu", ("load.ladder", "[{trace = 'a.jsonl'}]"))) is None
    assert lasting_of(basis("h200-fp8", ("engine.flags.prefix_match_unit", "64"))) is None  # does not start


def test_long_prompts_in_small_blocks_are_fewer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.explain.preflight.lasting._MOST_BLOCKS", 40_000)
    of = basis("cpu", ("load.ladder", "[{concurrent = 3}]"))  # prompts of 2,000 tokens in blocks of 256
    found = lasting_of(of)
    assert found is not None
    assert found.requests == 40_000 // 8 + 1


def test_callers_of_a_rate_are_at_once_what_they_can_be() -> None:
    """As many as speak that often with the mean turn gap of 4 s (`bench.load.plan`)."""
    found = lasting(FAST, UNIT, ("load.ladder", '[{rate = 10.0, arrivals = "poisson"}, {concurrent = 16}]'))
    assert found.at_once == 40
    assert lasting(FAST, UNIT, ("load.ladder", '[{rate = 0.01, arrivals = "fixed"}]')).at_once == 1


def test_tried_blocks_say_what_lasts() -> None:
    blocks = blocks_of(basis(FAST, UNIT))
    assert blocks.current is not None
    assert blocks.current.lasting == lasting(FAST, UNIT).rate
    (whole,) = (choice for choice in blocks.front if choice.match_unit is None)
    assert (whole.block_size, whole.steps) == (2240, 1.0)
    assert whole.lasting == pytest.approx(0.672, abs=0.002)
    assert all(choice.lasting is not None and 0 < choice.lasting < 1 for choice in blocks.front)


class TestPrompts:
    workload = basis(FAST).recipe.workload.model_dump_json()

    @given(st.integers(1, 70))
    def test_streams_send_whole_calls_in_turn(self, at_once: int) -> None:
        turns = turns_of(self.workload)[1]
        first = list(islice(prompts_at_once(self.workload, at_once), 3 * at_once))
        assert [turns[index].turn for index, _ in first[:at_once]] == [0] * at_once
        for index, segments in first:
            assert [part.tokens for part in segments] == [part.tokens for part in turns[index].segments]

    def test_calls_share_what_the_workloads_calls_share_and_nothing_else(self) -> None:
        """Alone on an engine without end, each prompt has the hits of the call that it is made from."""
        of = basis(FAST, UNIT)
        rules = rules_of(of.recipe, of.settings, of.cache)
        assert rules is not None
        alone = [prefill.hit for prefill in prefills_of(self.workload, rules)]
        engine = PrefixCacheModel(rules)
        for turn in turns_of(self.workload)[0]:
            engine.serve(turn.segments, 1)
        for index, segments in islice(prompts_at_once(self.workload, 7), 400):
            assert engine.serve(segments, 100).hit == alone[index]
