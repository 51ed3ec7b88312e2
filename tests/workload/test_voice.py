from __future__ import annotations

import json
import re
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bench.errors import StreamproofError, UsageError
from bench.workload.prompt import Message, Part, Prompts
from bench.workload.script import AGENTS
from bench.workload.tokens import CheckpointTokenizer
from bench.workload.turn import Turn
from bench.workload.voice import VoiceWorkload
from recipes.schema import Sampling, Workload

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.load.source import TurnSource

SMALL: dict[str, Any] = {
    "agents": ["router", "verification", "booking", "support", "closing"],
    "prompt_tokens": 1100,
    "output_tokens": 40,
    "shared_prefix_tokens": 500,
    "caller_tokens": 24,
    "turns": [3, 5],
}


def workload(
    tokenizer: CheckpointTokenizer, *, seed: tuple[str | int, ...] = ("test", 0, 0), **changes: Any
) -> VoiceWorkload:
    return VoiceWorkload(Workload(**(SMALL | changes)), tokenizer=tokenizer, model="toy", seed=seed)


def rendered(tokenizer: CheckpointTokenizer, turn: Turn) -> list[int]:
    """The prompt's tokens as the server gets them: from the request's body alone."""
    body = json.loads(turn.body)
    if "prompt" in body:
        ids: list[int] = body["prompt"]
        return ids
    return tokenizer.ids(tokenizer.template.render(body["messages"], **body["chat_template_kwargs"]))


def calls(source: TurnSource, streams: int, conversations: int) -> list[Sequence[Turn]]:
    return [call for stream in range(streams) for call in islice(source.calls(stream), conversations)]


def common(one: Sequence[object], other: Sequence[object]) -> int:
    """How many entries two sequences begin with in common."""
    return next(
        (place for place, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other))
    )


@st.composite
def recipes(draw: st.DrawFn) -> Workload:
    """Any workload within bounds."""
    caller, reply = draw(st.integers(1, 60)), draw(st.integers(1, 90))
    fewest = draw(st.integers(1, 6))
    most = draw(st.integers(fewest, 9))
    prefix = draw(st.integers(60, 700))
    agents = draw(st.lists(st.sampled_from(AGENTS), min_size=1, unique=True))
    tail = 80 + (most + 1) * (caller + 12) // 2 + (most - 1) * (reply + 12) // 2
    return Workload(
        api=draw(st.sampled_from(["chat", "token_ids"])),
        agents=sorted(agents, key=AGENTS.index),
        prompt_tokens=prefix + tail + draw(st.integers(0, 600)),
        output_tokens=reply,
        shared_prefix_tokens=prefix,
        caller_tokens=caller,
        turns=[fewest, most],
        thinking=draw(st.booleans()),
    )


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(recipes(), st.integers(0, 10**6))
def test_any_recipe_within_bounds_yields_exact_lengths(
    tokenizer: CheckpointTokenizer, spec: Workload, seed: int
) -> None:
    source = VoiceWorkload(spec, tokenizer=tokenizer, model="toy", seed=("any", seed))
    around = tokenizer.count("<|im_start|>user\n<|im_end|>\n")
    for agent, message in source.systems.items():
        text = f"<|im_start|>system\n{message.content}<|im_end|>\n"
        assert tokenizer.count(text) == spec.shared_prefix_tokens, agent
    for stream in range(2):
        call = source.call(stream, stream)
        assert spec.turns[0] <= len(call.turns) <= spec.turns[1]
        for spoken, turn in zip(call.spoken, call.turns, strict=True):
            assert tokenizer.count(spoken.caller) == spec.caller_tokens
            assert tokenizer.count(spoken.reply) == spec.output_tokens
            assert turn.output_tokens == spec.output_tokens
            assert turn.agent == spoken.agent
            assert turn.agent in spec.agents
            assert len(rendered(tokenizer, turn)) == turn.prompt_tokens
            assert sum(segment.tokens for segment in turn.segments) == turn.prompt_tokens
        mean = sum(turn.prompt_tokens for turn in call.turns) / len(call.turns)
        assert abs(mean - spec.prompt_tokens) <= 0.5
        for turn, following in pairwise(call.turns):
            assert following.prompt_tokens - turn.prompt_tokens == spec.caller_tokens + spec.output_tokens + 2 * around


@pytest.mark.parametrize("api", ["chat", "token_ids"])
def test_prompts_share_exactly_the_tokens_of_their_common_leading_segments(
    tokenizer: CheckpointTokenizer, api: str
) -> None:
    source = workload(tokenizer, api=api)
    turns = [*source.primes(), *(turn for call in calls(source, 3, 3) for turn in call)]
    turns += [*workload(tokenizer, api=api, seed=("test", 0, 1)).primes()]
    prompts = [(rendered(tokenizer, turn), turn.segments) for turn in turns]
    for place, (ids, segments) in enumerate(prompts):
        for other_ids, other_segments in prompts[:place]:
            shared = segments[: common(segments, other_segments)]
            assert sum(segment.tokens for segment in shared) == common(ids, other_ids)


def test_calls_to_one_agent_share_its_prefix_and_nothing_of_the_call(tokenizer: CheckpointTokenizer) -> None:
    source = workload(tokenizer)
    firsts = [call[0] for call in calls(source, 8, 2)]
    prompts = [rendered(tokenizer, turn) for turn in firsts]
    opening = tokenizer.count("<|im_start|>user\n#")
    for one, other in pairwise(prompts):
        assert 500 + opening <= common(one, other) <= 500 + opening + 7  # the call's number has eight digits


def test_two_primes_per_agent_end_soon_after_its_prefix(tokenizer: CheckpointTokenizer) -> None:
    source = workload(tokenizer)
    primes = source.primes()
    assert [turn.agent for turn in primes] == 2 * SMALL["agents"]
    for prime in primes:
        assert 500 < prime.prompt_tokens < 500 + 64
        assert prime.output_tokens == SMALL["output_tokens"]
        message = source.systems[prime.agent]
        assert rendered(tokenizer, prime)[:500] == list(message.part.ids)
    tails = [json.loads(prime.body)["messages"][-1]["content"] for prime in primes]
    assert len(set(tails)) == len(tails)


def test_a_stream_does_not_depend_on_the_others(tokenizer: CheckpointTokenizer) -> None:
    alone = list(islice(workload(tokenizer).calls(5), 2))
    source = workload(tokenizer)
    source.primes()
    fourth, fifth = source.calls(4), source.calls(5)
    among = []
    for _ in range(2):
        next(fourth)
        among.append(next(fifth))
    assert among == alone
    assert source.call(5, 1).turns == alone[1]


def test_streams_and_conversations_differ(tokenizer: CheckpointTokenizer) -> None:
    bodies = [turn.body for call in calls(workload(tokenizer), 6, 4) for turn in call]
    assert len(set(bodies)) == len(bodies)


def test_callers_call_about_different_things(tokenizer: CheckpointTokenizer) -> None:
    source = workload(tokenizer, turns=[5, 5])
    desks = {source.call(stream, 0).turns[-2].agent for stream in range(12)}
    assert desks == {"booking", "support"}


def test_turns_are_numbered_and_in_order(tokenizer: CheckpointTokenizer) -> None:
    for conversation, call in enumerate(islice(workload(tokenizer).calls(0), 3)):
        assert [(turn.conversation, turn.turn) for turn in call] == [(conversation, turn) for turn in range(len(call))]


def test_calls_have_between_the_fewest_and_the_most_turns(tokenizer: CheckpointTokenizer) -> None:
    lengths = {len(call) for call in calls(workload(tokenizer), 10, 4)}
    assert lengths == {3, 4, 5}


@pytest.mark.parametrize("agent", AGENTS)
def test_two_points_share_nothing_beyond_the_head_of_the_template(tokenizer: CheckpointTokenizer, agent: str) -> None:
    one, other = (
        workload(tokenizer, seed=("fingerprint", 0, point), shared_prefix_tokens=900, prompt_tokens=1500)
        for point in (0, 1)
    )
    prefixes = [source.systems[agent] for source in (one, other)]
    head = tokenizer.count("<|im_start|>system\n#")
    assert head <= common(prefixes[0].part.ids, prefixes[1].part.ids) <= head + 4
    first = [re.split(r"(?<=[.?!])\s", prefix.content)[0] for prefix in prefixes]
    assert first[0] != first[1]
    assert one.company != other.company


def test_a_chat_request_says_what_the_server_must_do(tokenizer: CheckpointTokenizer) -> None:
    turn = next(workload(tokenizer).calls(0))[1]
    body = json.loads(turn.body)
    messages = body.pop("messages")
    assert [message["role"] for message in messages] == ["system", "user", "user", "assistant", "user"]
    assert turn.path == "/v1/chat/completions"
    assert body == {
        "model": "toy",
        "max_tokens": 40,
        "temperature": 0.0,
        "ignore_eos": True,
        "stream": True,
        "stream_options": {"include_usage": True},
        "chat_template_kwargs": {"enable_thinking": False},
    }


def test_sampling_is_the_recipes(tokenizer: CheckpointTokenizer) -> None:
    source = workload(tokenizer, sampling=Sampling(temperature=0.7, ignore_eos=False))
    body = json.loads(next(source.calls(0))[0].body)
    assert body["temperature"] == 0.7
    assert "ignore_eos" not in body


def test_token_ids_are_those_of_the_same_text(tokenizer: CheckpointTokenizer) -> None:
    chat, ids = workload(tokenizer), workload(tokenizer, api="token_ids")
    for call, other in zip(calls(chat, 2, 2), calls(ids, 2, 2), strict=True):
        for turn, by_ids in zip(call, other, strict=True):
            assert rendered(tokenizer, turn) == rendered(tokenizer, by_ids)
            assert turn.segments == by_ids.segments
            assert by_ids.path == "/v1/completions"
            assert "messages" not in json.loads(by_ids.body)
            assert "chat_template_kwargs" not in json.loads(by_ids.body)


def test_token_ids_come_back_as_token_ids(tokenizer: CheckpointTokenizer) -> None:
    """An engine without a tokenizer has no text to send: on the H200 every such reply counted as empty."""
    turns = next(workload(tokenizer, api="token_ids").calls(0))
    assert json.loads(turns[0].body)["return_token_ids"] is True
    turns = next(workload(tokenizer).calls(0))
    assert "return_token_ids" not in json.loads(turns[0].body)


def test_token_ids_are_below_the_models_vocabulary(tokenizer: CheckpointTokenizer) -> None:
    spec = Workload(**(SMALL | {"api": "token_ids"}))
    size = tokenizer.vocab_size
    source = VoiceWorkload(spec, tokenizer=tokenizer, model="toy", seed=("v",), vocab_size=size)
    assert max(rendered(tokenizer, source.primes()[0])) < size
    with pytest.raises(UsageError, match=f"ids up to {size - 1:,}, the model only {size - 1:,} tokens"):
        VoiceWorkload(spec, tokenizer=tokenizer, model="toy", seed=("v",), vocab_size=size - 1)


@pytest.mark.parametrize(
    ("changes", "message", "remedy"),
    [
        ({"agents": ["router", "sales"]}, '"sales", which has no text', "router, verification, booking"),
        ({"agents": ["router", "router"]}, "an agent twice", "once"),
        ({"shared_prefix_tokens": 30}, "= 30 is too short", r"must be \d+ at least"),
        ({"prompt_tokens": 600}, r"no room for a call of 5 turns", r"Raise prompt_tokens to \d+"),
    ],
)
def test_a_recipe_that_cannot_be_is_refused_with_a_remedy(
    tokenizer: CheckpointTokenizer, changes: dict[str, Any], message: str, remedy: str
) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        workload(tokenizer, **changes)
    assert re.search(remedy, caught.value.remedy)


def test_the_remedies_work(tokenizer: CheckpointTokenizer) -> None:
    for key, short in (("prompt_tokens", 600), ("shared_prefix_tokens", 30)):
        with pytest.raises(UsageError) as caught:
            workload(tokenizer, seed=("test",), **{key: short})
        enough = re.search(r"(?:to|be) (\d+)", caught.value.remedy)
        assert enough is not None
        assert calls(workload(tokenizer, seed=("test",), **{key: int(enough[1])}), 1, 1)


def test_a_prefix_of_another_length_is_a_fault(tokenizer: CheckpointTokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.workload.conversation.Writer.system", lambda *_: "#1\nYou are the booking desk.")
    with pytest.raises(StreamproofError, match="instead of 500"):
        workload(tokenizer)


def test_tokens_of_a_history_that_are_not_those_of_the_prompt_are_a_fault(
    tokenizer: CheckpointTokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def spoilt(prompts: Prompts, role: str, content: str, *, coded: bool = False) -> Message:
        message = made(prompts, role, content, coded=coded)
        if role != "assistant":
            return message
        return Message(role, content, Part(message.part.text, message.part.ids[1:], message.part.segments))

    made = Prompts.message
    source = workload(tokenizer)
    monkeypatch.setattr(Prompts, "message", spoilt)
    with pytest.raises(StreamproofError, match="joins parts"):
        next(source.calls(0))


def test_people_find_a_plausible_call(tokenizer: CheckpointTokenizer) -> None:
    source = workload(tokenizer, turns=[5, 5], output_tokens=90, caller_tokens=40, prompt_tokens=1600)
    for stream in range(6):
        call = source.call(stream, 0)
        agents = [spoken.agent for spoken in call.spoken]
        assert agents[0] == "router"
        assert agents[1] == "verification"
        assert agents[2] in {"booking", "support"}
        assert agents[-1] == "closing"
        assert source.company.name in call.spoken[0].reply
        assert call.caller.model in " ".join(spoken.caller + spoken.reply for spoken in call.spoken)
        assert call.caller.registration in call.record
