"""The rules one by one, on prompts small enough to follow by hand."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.errors import StreamproofError, UsageError
from bench.workload.prefix_cache import Prefill, PrefixCacheModel, predict_hits, predict_prefills
from bench.workload.prefix_cache_rules import CacheRules
from bench.workload.turn import Segment

B = 10
PLAIN = CacheRules(block_size=B, hybrid=False, chunk_tokens=1000)
HYBRID = CacheRules(block_size=B, hybrid=True, chunk_tokens=1000)
PLAIN_MTP = CacheRules(block_size=B, hybrid=False, chunk_tokens=1000, draft_tokens=4)
FINE = CacheRules(block_size=B, hybrid=True, chunk_tokens=1000, match_unit=2)
FINE_MTP = CacheRules(block_size=B, hybrid=True, chunk_tokens=1000, draft_tokens=1, match_unit=2)
HYBRID_MTP = CacheRules(block_size=B, hybrid=True, chunk_tokens=1000, draft_tokens=4)

Prompt = tuple[Segment, ...]
_keys = itertools.count(1)


def text(tokens: int) -> Segment:
    return Segment(key=next(_keys), tokens=tokens)


def hits(rules: CacheRules, *prompts: Prompt, output_tokens: int = 2) -> list[int]:
    return predict_hits([(prompt, output_tokens) for prompt in prompts], rules)


class TestFullAttention:
    def test_hits_are_the_whole_blocks_shared_with_any_earlier_prompt(self) -> None:
        prefix = text(25)
        assert hits(PLAIN, (prefix, text(9)), (text(30),), (prefix, text(3))) == [0, 0, 20]

    def test_a_block_counts_only_if_all_of_it_is_shared(self) -> None:
        assert hits(PLAIN, (first := text(19), text(30)), (first, text(30))) == [0, 10]

    def test_the_last_token_is_always_computed(self) -> None:
        prompt = (text(30),)
        longer = (text(31),)
        assert hits(PLAIN, prompt, prompt) == [0, 20]
        assert hits(PLAIN, longer, longer) == [0, 30]

    def test_the_same_text_after_another_text_is_another_block(self) -> None:
        shared = text(20)
        assert hits(PLAIN, (text(10), shared), (text(10), shared)) == [0, 0]

    def test_replies_are_never_part_of_a_prompt(self) -> None:
        prompt = text(15)
        assert hits(PLAIN, (prompt,), (prompt, text(30)), output_tokens=30) == [0, 10]

    def test_speculation_drops_the_last_block(self) -> None:
        prompt = (text(31),)
        short = (text(19),)
        assert hits(PLAIN_MTP, prompt, prompt) == [0, 20]
        assert hits(PLAIN_MTP, short, short) == [0, 0]


class TestHybrid:
    def test_a_state_is_kept_at_the_last_boundary_of_a_prompt(self) -> None:
        prefix = text(20)
        assert hits(HYBRID, (prefix, text(9)), (prefix, text(9))) == [0, 20]

    def test_no_state_is_kept_at_the_boundaries_before(self) -> None:
        prefix = text(20)
        assert hits(HYBRID, (prefix, text(15)), (prefix, text(15))) == [0, 0]

    def test_the_second_prompt_leaves_the_state_that_it_missed(self) -> None:
        prefix = text(20)
        assert hits(HYBRID, *((prefix, text(15)) for _ in range(4))) == [0, 0, 20, 20]

    def test_chunked_prefill_leaves_a_state_where_a_chunk_ends(self) -> None:
        prefix = text(20)
        rules = CacheRules(block_size=B, hybrid=True, chunk_tokens=25)
        assert hits(rules, (prefix, text(35)), (prefix, text(35))) == [0, 20]

    def test_a_prompt_that_ends_on_a_boundary_leaves_its_state_there(self) -> None:
        prompt = text(20)
        assert hits(HYBRID, (prompt,), (prompt, text(1))) == [0, 20]
        assert hits(HYBRID, repeated := (text(20),), repeated) == [0, 0]

    def test_history_that_grows_is_found_again_but_for_the_templates_last_words(self) -> None:
        opening, last_words = text(15), text(3)
        history: Prompt = (opening,)
        prompts = []
        for _ in range(5):
            history = (*history, text(4))
            prompts.append((*history, last_words))
            history = (*history, text(3))
        # Each shares all but its last words with the next: 19 of 22 tokens, 26 of 29, 33 of 36, 40 of 43. The first
        # state lies at 20, behind what is shared.
        assert hits(HYBRID, *prompts) == [0, 0, 20, 30, 40]

    def test_speculation_drops_the_last_block_and_keeps_the_state_before_it(self) -> None:
        prefix = text(20)
        assert hits(HYBRID_MTP, (prefix, text(9)), (prefix, text(9))) == [0, 10]
        assert hits(HYBRID_MTP, repeated := (text(41),), repeated) == [0, 30]

    def test_a_cpu_engine_without_block_size_misses_its_own_boundaries(self) -> None:
        rules = CacheRules(block_size=B, hybrid=True, chunk_tokens=1000, split_tokens=5)
        prefix, other = text(20), text(20)
        assert hits(rules, (prefix, text(4)), (prefix, text(4))) == [0, 20]
        assert hits(rules, (other, text(6)), (other, text(6)), (other, text(6))) == [0, 0, 20]

    def test_a_short_reply_that_crosses_a_boundary_changes_nothing_for_prompts(self) -> None:
        prompt = text(18)
        assert hits(HYBRID, (prompt,), (prompt, text(20)), output_tokens=9) == [0, 10]


class TestInsideBlocks:
    def test_a_prompt_that_goes_on_resumes_at_the_last_unit_of_the_one_before(self) -> None:
        history = text(25)
        assert hits(FINE, (history,), (history, text(9))) == [0, 24]

    def test_not_where_that_lies_in_what_does_not_go_on(self) -> None:
        history = text(25)
        # 25 and 3 make 28, of which 3 are not shared; the state at the boundary before is left as well.
        assert hits(FINE, (history, text(3)), (history, text(9))) == [0, 20]

    def test_no_entry_is_left_at_any_other_unit(self) -> None:
        history = text(18)
        assert hits(FINE, *((history, text(11)) for _ in range(3))) == [0, 0, 10]

    def test_a_shared_prefix_is_found_to_its_last_unit_once_a_prompt_ended_inside(self) -> None:
        prefix = text(28)
        assert hits(FINE, (prefix, text(1)), (prefix, text(30)), (prefix, text(31))) == [0, 28, 28]

    def test_with_drafts_a_prompt_never_resumes_at_the_tail_that_it_extends(self) -> None:
        history = text(25)
        assert hits(FINE_MTP, (history,), (history, text(9)))[1] == 10

    def test_with_drafts_it_resumes_at_the_one_before_that(self) -> None:
        history = text(25)
        first, second, third = (history,), (history, a := text(3)), (history, a, text(3))
        # The entry at 28 covers the one at 24, which both later prompts know.
        assert hits(FINE_MTP, first, second, third) == [0, 10, 24]

    def test_with_drafts_a_prefix_needs_two_prompts_that_end_inside_it(self) -> None:
        long = text(28)
        # The same text, cut short: a segment's key stands for its text.
        short = Segment(key=long.key, tokens=26)
        assert hits(FINE_MTP, (short,), (long,), (long, text(40)))[2] == 26
        alone = text(28)
        assert hits(FINE_MTP, (alone,), (alone, text(1)), (alone, text(40)))[2] == 20

    def test_a_short_state_under_the_name_of_a_whole_block(self) -> None:
        """Rule 9: the third prompt goes from 24 over 30 to 32, and what it leaves at 30 is the state at 24."""
        a, b, c = text(25), text(3), text(5)
        prompts = [(a,), (a, b), (a, b, c), (a, b, c, text(9))]
        assert hits(FINE_MTP, *prompts) == [0, 10, 24, 30]
        assert FINE_MTP.states_left(33, hit=24, match=26) == {30, 32}
        found = predict_prefills(((prompt, 1) for prompt in prompts), FINE_MTP)
        assert [prefill.misnames(FINE_MTP.block_size) for prefill in found] == [False, False, True, False]

    def test_copies_take_room(self) -> None:
        history, other = text(25), (text(25),)
        for blocks, last in ((9, 0), (14, 24)):
            rules = replace(FINE, state_groups=1, num_gpu_blocks=blocks)
            assert hits(rules, (history,), other, (history, text(2)))[2] == last

    def test_the_unit_of_a_block_is_none(self) -> None:
        history = text(25)
        whole = CacheRules(block_size=B, hybrid=True, chunk_tokens=1000, match_unit=B)
        assert not whole.fine
        assert hits(whole, (history,), (history, text(9))) == [0, 20]

    def test_full_attention_alone_has_none(self) -> None:
        history = text(25)
        plain = CacheRules(block_size=B, hybrid=False, chunk_tokens=1000, match_unit=2)
        assert hits(plain, (history,), (history, text(9))) == [0, 20]

    @pytest.mark.parametrize("unit", [0, 3, 20])
    def test_a_unit_must_divide_the_block(self, unit: int) -> None:
        with pytest.raises(UsageError, match=f"match_unit is {unit}"):
            CacheRules(block_size=B, hybrid=True, chunk_tokens=1000, match_unit=unit)


class TestSteps:
    def prefills(self, rules: CacheRules, *prompts: Prompt) -> list[Prefill]:
        return predict_prefills([(prompt, 2) for prompt in prompts], rules)

    def test_full_attention_takes_what_fits_a_step(self) -> None:
        rules = CacheRules(block_size=B, hybrid=False, chunk_tokens=40)
        prefix = text(50)
        first, second = self.prefills(rules, (prefix, text(45)), (prefix, text(5)))
        assert (first.ends, first.steps, first.computed) == ((40, 80, 95), 3, 95)
        assert (second.hit, second.ends, second.steps, second.computed) == (50, (55,), 1, 5)

    def test_a_hybrid_prompt_stops_at_its_last_boundary(self) -> None:
        assert self.prefills(HYBRID, (text(47),)) == [Prefill(0, (40, 47))]
        assert self.prefills(HYBRID_MTP, (text(47),)) == [Prefill(0, (30, 47))]

    def test_from_that_boundary_it_takes_one_step(self) -> None:
        prefix = text(41)
        assert self.prefills(HYBRID, (prefix, text(6)), (prefix, text(7)))[1] == Prefill(40, (48,))
        assert self.prefills(HYBRID_MTP, (prefix, text(6)), (prefix, text(7)))[1] == Prefill(30, (48,))

    def test_a_unit_ends_a_step_at_the_prompts_tail(self) -> None:
        history = text(25)
        assert self.prefills(FINE, (history,), (history, text(4))) == [Prefill(0, (20, 24, 25)), Prefill(24, (28, 29))]


class TestEviction:
    def test_the_least_recently_used_goes_first(self) -> None:
        a, b, c = (text(11),), (text(11),), (text(11),)
        # Each request needs 2 blocks and leaves 1 cached; 3 blocks are left besides the null block.
        rules = CacheRules(block_size=B, hybrid=False, chunk_tokens=1000, num_gpu_blocks=4)
        assert hits(rules, a, b, a, c, a, b, output_tokens=1) == [0, 0, 10, 0, 10, 0]

    def test_the_end_of_a_prompt_goes_before_its_beginning(self) -> None:
        long, short = text(40), (text(20),)
        rules = CacheRules(block_size=B, hybrid=False, chunk_tokens=1000, num_gpu_blocks=6)
        assert hits(rules, (long, text(1)), short, (long, text(1)), output_tokens=1) == [0, 0, 30]

    def test_states_take_room_too(self) -> None:
        prompts = [(text(15),) for _ in range(4)]
        room = {"block_size": B, "chunk_tokens": 1000, "num_gpu_blocks": 13}
        assert hits(CacheRules(hybrid=False, **room), *prompts, prompts[0])[-1] == 10
        assert hits(CacheRules(hybrid=True, **room), *prompts, prompts[0])[-1] == 0

    def test_a_prompt_that_does_not_fit_is_an_error_with_a_remedy(self) -> None:
        rules = CacheRules(block_size=B, hybrid=False, chunk_tokens=1000, num_gpu_blocks=4)
        with pytest.raises(StreamproofError, match="3 blocks of the pool") as error:
            hits(rules, (text(31),))
        assert "more cache memory" in error.value.remedy

    def test_nothing_is_evicted_from_a_pool_that_is_large_enough(self) -> None:
        model = PrefixCacheModel(CacheRules(block_size=B, hybrid=True, chunk_tokens=1000, num_gpu_blocks=20))
        small = PrefixCacheModel(CacheRules(block_size=B, hybrid=True, chunk_tokens=1000, num_gpu_blocks=9))
        for _ in range(2):
            prompt = (text(15),)
            model.serve(prompt, 1)
            small.serve(prompt, 1)
        assert model.evicted == 0
        assert small.evicted > 0


class TestRules:
    @pytest.mark.parametrize("name", ["block_size", "chunk_tokens", "state_groups"])
    def test_a_count_of_nothing_is_refused(self, name: str) -> None:
        facts = {"block_size": B, "chunk_tokens": 1000, "state_groups": 3} | {name: 0}
        with pytest.raises(UsageError, match=name):
            CacheRules(hybrid=True, **facts)

    def test_negative_drafts_are_refused(self) -> None:
        with pytest.raises(UsageError, match="draft_tokens is -1"):
            CacheRules(block_size=B, hybrid=True, chunk_tokens=1000, draft_tokens=-1)

    def test_a_pool_of_the_null_block_alone_is_refused(self) -> None:
        with pytest.raises(UsageError, match="num_gpu_blocks is 1"):
            CacheRules(block_size=B, hybrid=True, chunk_tokens=1000, num_gpu_blocks=1)

    def test_a_hybrid_step_holds_a_block(self) -> None:
        with pytest.raises(UsageError, match="below block_size"):
            CacheRules(block_size=B, hybrid=True, chunk_tokens=9)
        CacheRules(block_size=B, hybrid=False, chunk_tokens=9)

    def test_clearance_is_what_chance_would_have_to_add(self) -> None:
        assert [PLAIN.clearance(tokens) for tokens in (0, 1, 9, 10, 11)] == [10, 9, 1, 10, 9]


# A key stands for one text, so it decides the length too.
segment_lists = st.lists(st.integers(1, 4), min_size=1, max_size=8).map(
    lambda keys: tuple(Segment(key=key, tokens=7 * key) for key in keys)
)
sequences = st.lists(st.tuples(segment_lists, st.integers(1, 25)), max_size=12)
sizes = st.integers(1, 12).flatmap(
    lambda size: st.tuples(
        st.just(size), st.sampled_from([None, *(unit for unit in range(1, size + 1) if size % unit == 0)])
    )
)
engines = st.builds(
    lambda size, **facts: CacheRules(block_size=size[0], match_unit=size[1], **facts),
    sizes,
    hybrid=st.booleans(),
    chunk_tokens=st.integers(12, 100),
    draft_tokens=st.integers(0, 3),
)


def shared_tokens(a: Prompt, b: Prompt) -> int:
    pairs = itertools.takewhile(lambda pair: pair[0] == pair[1], zip(a, b, strict=False))
    return sum(segment.tokens for segment, _ in pairs)


@given(sequences, engines)
def test_hits_are_whole_units_of_what_earlier_prompts_share(
    sequence: list[tuple[Prompt, int]], rules: CacheRules
) -> None:
    predicted = predict_hits(sequence, rules)
    for number, ((prompt, _), hit) in enumerate(zip(sequence, predicted, strict=True)):
        shared = max((shared_tokens(prompt, earlier) for earlier, _ in sequence[:number]), default=0)
        assert hit % rules.unit == 0
        assert 0 <= hit <= min(shared, sum(segment.tokens for segment in prompt) - 1)
        if not rules.hybrid and not rules.draft_tokens:
            assert (
                hit == min(shared, sum(segment.tokens for segment in prompt) - 1) // rules.block_size * rules.block_size
            )


@given(sequences, engines)
def test_steps_lead_from_the_hit_to_the_end_of_the_prompt(
    sequence: list[tuple[Prompt, int]], rules: CacheRules
) -> None:
    prefills = predict_prefills(sequence, rules)
    assert [prefill.hit for prefill in prefills] == predict_hits(sequence, rules)
    for (prompt, _), prefill in zip(sequence, prefills, strict=True):
        tokens = sum(segment.tokens for segment in prompt)
        course = (prefill.hit, *prefill.ends)
        assert course[-1] == tokens
        assert all(0 < end - start <= rules.chunk_tokens for start, end in itertools.pairwise(course))
        assert prefill.steps == len(course) - 1 >= 1
        assert prefill.computed == tokens - prefill.hit


@given(sequences, engines, st.integers(0, 7))
def test_what_one_request_asks_to_write_changes_no_hit(
    sequence: list[tuple[Prompt, int]], rules: CacheRules, more: int
) -> None:
    assert predict_hits(sequence, rules) == predict_hits([(prompt, out + more) for prompt, out in sequence], rules)


@given(sequences, st.integers(2, 12), st.integers(12, 100), st.integers(0, 3))
def test_a_state_at_every_boundary_makes_a_hybrid_model_a_plain_one(
    sequence: list[tuple[Prompt, int]], block_size: int, chunk_tokens: int, draft_tokens: int
) -> None:
    plain = CacheRules(block_size=block_size, hybrid=False, chunk_tokens=chunk_tokens, draft_tokens=draft_tokens)
    every = CacheRules(block_size=block_size, hybrid=True, chunk_tokens=block_size, draft_tokens=draft_tokens)
    some = CacheRules(block_size=block_size, hybrid=True, chunk_tokens=chunk_tokens, draft_tokens=draft_tokens)
    assert predict_hits(sequence, every) == predict_hits(sequence, plain)
    assert all(a <= b for a, b in zip(predict_hits(sequence, some), predict_hits(sequence, plain), strict=True))


@given(sequences, engines, st.integers(60, 400))
def test_a_pool_that_evicts_nothing_changes_nothing(
    sequence: list[tuple[Prompt, int]], rules: CacheRules, num_gpu_blocks: int
) -> None:
    facts = {name: getattr(rules, name) for name in rules.__slots__} | {"num_gpu_blocks": num_gpu_blocks}
    model = PrefixCacheModel(CacheRules(**facts))
    try:
        predicted = [model.serve(prompt, out).hit for prompt, out in sequence]
    except StreamproofError:
        return
    if model.evicted == 0:
        assert predicted == predict_hits(sequence, rules)


class TestRunning:
    """Requests beside each other."""

    def test_prompts_that_run_share_blocks(self) -> None:
        """10 blocks hold two prompts of 70 tokens that share 60, and not two that share none."""
        rules = replace(PLAIN, num_gpu_blocks=11)
        shared = text(60)
        engine = PrefixCacheModel(rules)
        first = engine.begin((shared, text(10)), 1)
        second = engine.begin((shared, text(10)), 1)
        assert (first.prefill.hit, second.prefill.hit) == (0, 60)
        assert engine.used == 8
        first.end()
        second.end()
        alone = PrefixCacheModel(rules)
        alone.begin((text(70),), 1)
        with pytest.raises(StreamproofError):
            alone.begin((text(70),), 1)

    def test_what_runs_is_not_given_up_and_what_has_ended_is(self) -> None:
        rules = replace(PLAIN, num_gpu_blocks=11)
        shared = text(40)
        for ends, hit in ((False, 40), (True, 0)):
            engine = PrefixCacheModel(rules)
            running = engine.begin((shared, text(1)), 1)
            if ends:
                running.end()
            for other in (text(50), text(50)):
                engine.serve((other,), 1)
            assert engine.begin((shared, text(1)), 1).prefill.hit == hit

    @given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 60), st.integers(1, 30)), min_size=1, max_size=12))
    def test_one_at_a_time_is_serving(self, wanted: list[tuple[int, int, int]]) -> None:
        for rules in (PLAIN_MTP, HYBRID_MTP, FINE_MTP, FINE):
            pool = replace(rules, num_gpu_blocks=60)
            prefixes = [text(33) for _ in range(4)]
            rows = [((prefixes[which], text(own)), output) for which, own, output in wanted]
            ended, served = PrefixCacheModel(pool), PrefixCacheModel(pool)
            for prompt, output in rows:
                running = ended.begin(prompt, output)
                running.end()
                assert running.prefill == served.serve(prompt, output)
            assert (ended.used, ended.evicted) == (served.used, served.evicted)
