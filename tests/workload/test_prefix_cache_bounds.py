from __future__ import annotations

import itertools
import random
from collections.abc import Iterable, Iterator, Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from bench.workload.prefix_cache import predict_hits
from bench.workload.prefix_cache_bounds import HitPrediction, ServedPrompt, predict_served
from bench.workload.prefix_cache_rules import CacheRules
from bench.workload.turn import Segment

B = 10
PLAIN = CacheRules(block_size=B, hybrid=False, chunk_tokens=1000)
HYBRID = CacheRules(block_size=B, hybrid=True, chunk_tokens=1000)

_keys = itertools.count(1)


def text(tokens: int) -> Segment:
    return Segment(key=next(_keys), tokens=tokens)


def served(
    start_s: float, end_s: float, *segments: Segment, output_tokens: int = 2, complete: bool = True
) -> ServedPrompt:
    return ServedPrompt(segments=segments, output_tokens=output_tokens, start_s=start_s, end_s=end_s, complete=complete)


class TestOverlap:
    def test_two_cold_prompts_side_by_side_may_or_may_not_share(self) -> None:
        prefix = text(20)
        first, second = predict_served([served(0, 2, prefix, text(5)), served(1, 3, prefix, text(5))], PLAIN)
        assert first == HitPrediction(expected=0, least=0, most=20)
        assert second == HitPrediction(expected=20, least=0, most=20)

    def test_what_had_ended_is_sure(self) -> None:
        prefix = text(20)
        requests = [served(0, 1, prefix, text(5)), served(1, 3, prefix, text(5)), served(1, 3, prefix, text(5))]
        assert predict_served(requests, PLAIN)[1:] == [HitPrediction(20, 20, 20)] * 2

    def test_a_state_that_only_one_order_leaves_is_not_counted_on(self) -> None:
        prefix = text(20)
        # Whichever of the two comes second leaves the state at 20 for the third; should they meet, neither does.
        requests = [served(start, 3, prefix, text(15)) for start in (0, 1)] + [served(4, 5, prefix, text(15))]
        assert predict_served(requests, HYBRID)[2] == HitPrediction(expected=20, least=0, most=20)

    def test_a_prefill_that_may_be_cut_can_leave_a_state_more(self) -> None:
        prefix = text(20)
        beside = served(0, 2, text(900))
        for tokens, most in ((1000, 0), (900, 20)):
            rules = CacheRules(block_size=B, hybrid=True, chunk_tokens=tokens)
            requests = [beside, served(1, 2, prefix, text(15)), served(3, 4, prefix, text(15))]
            assert predict_served(requests, rules)[2] == HitPrediction(expected=0, least=0, most=most)

    def test_a_request_that_failed_is_not_counted_on(self) -> None:
        prompt = (text(20), text(5))
        requests = [served(0, 1, *prompt, complete=False), served(2, 3, *prompt)]
        assert predict_served(requests, HYBRID)[1] == HitPrediction(expected=20, least=0, most=20)

    def test_requests_come_back_in_the_order_given(self) -> None:
        prompt = (text(25),)
        late, early = served(2, 3, *prompt), served(0, 1, *prompt)
        assert [each.expected for each in predict_served([late, early], HYBRID)] == [20, 0]


class TestEviction:
    def requests(self) -> list[ServedPrompt]:
        prompt = (text(25),)
        return [served(0, 1, *prompt), served(2, 3, text(25)), served(4, 5, *prompt)]

    def rules(self, num_gpu_blocks: int) -> CacheRules:
        return CacheRules(block_size=B, hybrid=False, chunk_tokens=1000, num_gpu_blocks=num_gpu_blocks)

    def test_blocks_are_sure_while_all_since_fit_the_pool(self) -> None:
        # Three requests of 3 blocks each, and the null block.
        assert predict_served(self.requests(), self.rules(10))[2] == HitPrediction(20, 20, 20)
        assert predict_served(self.requests(), self.rules(9))[2] == HitPrediction(expected=20, least=0, most=20)

    def test_what_cannot_have_been_evicted_can_still_be_expected(self) -> None:
        assert predict_served(self.requests(), self.rules(5))[2] == HitPrediction(expected=10, least=0, most=20)

    def test_requests_that_had_ended_before_take_no_room(self) -> None:
        prompt = (text(25),)
        before = [served(number - 100, number - 99, text(25)) for number in range(50)]
        requests = [*before, served(0, 1, *prompt), served(2, 3, *prompt)]
        assert predict_served(requests, self.rules(10))[-1] == HitPrediction(20, 20, 20)

    def test_a_failed_request_may_hold_its_blocks_for_longer(self) -> None:
        prompt = (text(25),)
        lost = served(-2, -1, text(25), complete=False)
        requests = [lost, served(0, 1, *prompt), served(2, 3, *prompt)]
        assert predict_served(requests, self.rules(9))[-1].least == 0
        assert predict_served(requests[1:], self.rules(9))[-1].least == 20


def conversations(
    rng: random.Random, *, agents: int, streams: int, turns: int
) -> tuple[list[Segment], list[list[list[Segment]]]]:
    """Agents' prefixes, and per stream the prompts of one call: histories that grow behind an agent's prefix."""
    prefixes = [text(rng.randint(5, 40)) for _ in range(agents)]
    last_words = text(3)
    calls = []
    for _ in range(streams):
        history = [rng.choice(prefixes), text(rng.randint(1, 30))]
        prompts = []
        for _ in range(rng.randint(1, turns)):
            history = [*history, text(rng.randint(1, 8))]
            prompts.append([*history, last_words])
            history = [*history, text(rng.randint(1, 8))]
        calls.append(prompts)
    return prefixes, calls


def primed(prefixes: Iterable[Segment]) -> Iterator[ServedPrompt]:
    """Two requests per agent, each a block longer than its prefix, one after another.

    The second one leaves the state that it missed at the end of the match. With speculation, which drops a block of the
    match, the first one leaves a state at the last boundary of the prefix, which later turns can use.
    """
    for number, prefix in enumerate(itertools.chain(prefixes, prefixes)):
        yield served(number - 1000, number - 999.5, prefix, text(B))


units = st.sampled_from([None, 1, 2, 5])


@given(st.integers(0, 2**32), st.booleans(), st.integers(0, 3), units)
@settings(max_examples=80)
def test_primed_conversations_hit_the_same_in_every_order(
    seed: int, hybrid: bool, draft_tokens: int, unit: int | None
) -> None:
    rng = random.Random(seed)  # noqa: S311  reproducibility is the point
    rules = CacheRules(block_size=B, hybrid=hybrid, chunk_tokens=10_000, draft_tokens=draft_tokens, match_unit=unit)
    prefixes, calls = conversations(rng, agents=2, streams=4, turns=4)
    outcomes = set()
    for _ in range(3):
        requests = list(primed(prefixes))
        for prompts in calls:
            now = rng.random()
            for prompt in prompts:
                end = now + rng.random()
                requests.append(served(now, end, *prompt, output_tokens=rng.randint(1, 20)))
                now = end + rng.random()
        predictions = predict_served(requests, rules)
        assert all(each.least == each.expected == each.most for each in predictions)
        outcomes.add(tuple(each.expected for each in predictions))
    assert len(outcomes) == 1


def orders(requests: Sequence[ServedPrompt]) -> Iterator[tuple[int, ...]]:
    """All orders of service that the times allow."""
    for order in itertools.permutations(range(len(requests))):
        if all(requests[a].start_s < requests[b].end_s for a, b in itertools.combinations(order, 2)):
            yield order


prompts = st.lists(st.integers(1, 4), min_size=1, max_size=5).map(
    # A key stands for one text, so it decides the length too.
    lambda keys: tuple(Segment(key=key, tokens=6 * key) for key in keys)
)
requests_side_by_side = st.lists(
    st.tuples(prompts, st.integers(1, 15), st.integers(0, 8), st.integers(1, 5)).map(
        lambda drawn: ServedPrompt(
            segments=drawn[0], output_tokens=drawn[1], start_s=drawn[2], end_s=drawn[2] + drawn[3]
        )
    ),
    min_size=1,
    max_size=5,
)


@given(
    requests_side_by_side,
    st.booleans(),
    st.sampled_from([10, 30, 1000]),
    st.sampled_from([0, 2]),
    st.sampled_from([None, 70, 120]),
    units,
)
def test_every_order_lies_within_the_bounds(  # noqa: PLR0917  all that decides
    requests: list[ServedPrompt],
    hybrid: bool,
    chunk_tokens: int,
    draft_tokens: int,
    num_gpu_blocks: int | None,
    unit: int | None,
) -> None:
    rules = CacheRules(
        block_size=B,
        hybrid=hybrid,
        chunk_tokens=chunk_tokens,
        draft_tokens=draft_tokens,
        num_gpu_blocks=num_gpu_blocks,
        match_unit=unit,
    )
    predictions = predict_served(requests, rules)
    for order in itertools.islice(orders(requests), 24):
        hits = predict_hits([(requests[index].segments, requests[index].output_tokens) for index in order], rules)
        for index, hit in zip(order, hits, strict=True):
            assert predictions[index].least <= hit <= predictions[index].most


@given(requests_side_by_side, st.booleans(), st.sampled_from([0, 2]), units)
def test_one_after_another_leaves_no_doubt(
    requests: list[ServedPrompt], hybrid: bool, draft_tokens: int, unit: int | None
) -> None:
    rules = CacheRules(block_size=B, hybrid=hybrid, chunk_tokens=1000, draft_tokens=draft_tokens, match_unit=unit)
    in_turn = [
        served(number, number + 1, *request.segments, output_tokens=request.output_tokens)
        for number, request in enumerate(requests)
    ]
    hits = predict_hits([(request.segments, request.output_tokens) for request in requests], rules)
    assert predict_served(in_turn, rules) == [HitPrediction(hit, hit, hit) for hit in hits]


def test_segments_without_tokens_change_nothing() -> None:
    prefix, nothing = text(20), text(0)
    requests = [served(0, 1, prefix, nothing, text(5)), served(2, 3, prefix, text(5))]
    assert predict_served(requests, HYBRID)[1] == HitPrediction(20, 20, 20)


def test_no_requests_no_predictions() -> None:
    assert predict_served([], HYBRID) == []
