from __future__ import annotations

import re
from io import StringIO

from rich.console import Console

from bench.workload.show import seen_before, show
from bench.workload.tokens import CheckpointTokenizer
from bench.workload.turn import Segment, Turn
from bench.workload.voice import VoiceWorkload
from recipes.schema import Workload


def workload(tokenizer: CheckpointTokenizer) -> VoiceWorkload:
    spec = Workload(
        agents=["router", "booking", "closing"],
        prompt_tokens=1100,
        output_tokens=40,
        shared_prefix_tokens=600,
        caller_tokens=24,
        turns=[4, 4],
    )
    return VoiceWorkload(spec, tokenizer=tokenizer, model="toy", seed=("show",))


def turn(*segments: tuple[int, int]) -> Turn:
    return Turn(
        agent="a",
        conversation=0,
        turn=0,
        body=b"",
        path="/",
        prompt_tokens=sum(tokens for _, tokens in segments),
        output_tokens=1,
        segments=tuple(Segment(key, tokens) for key, tokens in segments),
    )


def test_only_the_beginning_of_an_earlier_prompt_was_seen_before() -> None:
    turns = [
        turn((1, 100), (2, 10)),
        turn((1, 100), (3, 7), (2, 10)),
        turn((2, 10), (1, 100)),
        turn((1, 100), (3, 7), (4, 1)),
        turn((1, 100), (2, 10)),
    ]
    assert seen_before(turns) == [0, 100, 0, 107, 110]


def test_a_conversation_is_printed_as_people_read_it(tokenizer: CheckpointTokenizer) -> None:
    source = workload(tokenizer)
    out = StringIO()
    Console(file=out, width=200).print(show(source, stream=2))
    text = out.getvalue()
    call = source.call(2, 0)
    assert source.company.name in text
    assert f"A call of {call.caller.first} {call.caller.last}, stream 2" in text
    for line in call.record.splitlines():
        assert line in text
    for number, (spoken, request) in enumerate(zip(call.spoken, call.turns, strict=True), start=1):
        assert spoken.caller in text
        assert " ".join(spoken.reply.split()[:12]) in text
        assert f"{number} {spoken.agent}  prompt {request.prompt_tokens:,} tokens, " in text
    assert text.count("600 tokens") == 3
    assert "every utterance 24 and every reply 40" in text


def test_the_shares_are_those_of_the_segments(tokenizer: CheckpointTokenizer) -> None:
    source = workload(tokenizer)
    out = StringIO()
    Console(file=out, width=200).print(show(source))
    shares = [
        int(share.replace(",", "")) for share in re.findall(r"tokens, ([\d,]+) of them seen before", out.getvalue())
    ]
    turns = source.call(0, 0).turns
    assert 600 <= shares[0] < 620  # the router's prefix came with its prime
    assert shares[2] > turns[1].prompt_tokens - 10  # the same desk again: all but the generation prompt
