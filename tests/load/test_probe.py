"""The probe against a server whose answers are known, right and wrong."""

from __future__ import annotations

import asyncio
import hashlib
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from bench.load.clock import RunClock
from bench.load.http import Client
from bench.load.probe import Probe, ProbePrompts
from bench.observe.probe import ROW_STEPS, STEPS, pairs
from bench.records import Outcome
from bench.report.probe_rows import by_log_probabilities
from bench.report.rules_probe import compared
from bench.workload.turn import Segment, Turn
from tests.truth.process import running

if TYPE_CHECKING:
    from pathlib import Path

    from bench.observe.probe import ProbeTrial

TOKENS = 24


def turn(first: int, agent: str = "router") -> Turn:
    """A prompt of token ids that begins as no other one does."""
    ids = list(range(first, first + 60))
    body = {
        "model": "truth",
        "prompt": ids,
        "return_token_ids": True,
        "max_tokens": TOKENS,
        "temperature": 0.0,
        "stream": True,
        "stream_options": {"include_usage": True},
        "truth": {"ttft_s": 0.0, "gap_s": 0.0, "chunk_tokens": [1, 3]},
    }
    return Turn(
        agent=agent,
        conversation=0,
        turn=0,
        body=orjson.dumps(body),
        path="/v1/completions",
        prompt_tokens=len(ids),
        output_tokens=TOKENS,
        segments=(Segment(key=first, tokens=len(ids)),),
    )


def prompts(*firsts: int) -> list[ProbePrompts]:
    return [ProbePrompts(agent=f"agent {first}", first=turn(first), other=turn(first + 500)) for first in firsts]


def asked(
    folder: Path, script: dict[str, Any], *firsts: int, times: int = 1, comparable: bool = True
) -> tuple[list[tuple[ProbeTrial, ...]], list[dict[str, Any]]]:
    """The probe of these prompts, asked so many times; and what the server did."""

    async def main(url: str) -> list[tuple[ProbeTrial, ...]]:
        clock = RunClock.start()
        probe = Probe(prompts(*(firsts or (100,))), comparable=comparable, salt="salt")
        async with Client(url, clock=clock, request_timeout_s=20) as client:
            return [await probe.ask(client, clock) for _ in range(times)]

    with running(script, folder=folder) as server:
        found = asyncio.run(main(server.base_url))
        return found, server.truth()


def says(trial: ProbeTrial, earlier: ProbeTrial | None = None) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for pair in pairs(trial, earlier):
        found.setdefault(pair.what, set()).add(compared(pair, trial, trained=True).says)
    return found


def test_the_same_prompt_again_and_again_with_another_one_between(tmp_path: Path) -> None:
    (before, after), done = asked(tmp_path, {"answers": {}}, 100, 300, times=2)
    assert [trial.agent for trial in before] == ["agent 100", "agent 300"]
    for trial in (*before, *after):
        assert tuple(trial.replies) == STEPS
        assert trial.odds == ()
        hashes = [trial.replies[step].prompt_sha256 for step in STEPS]
        assert hashes[0] == hashes[1] == hashes[2] == hashes[4] != hashes[3]
        assert {reply.outcome for reply in trial.replies.values()} == {Outcome.OK}
        assert {len(reply.token_ids or ()) for reply in trial.replies.values()} == {TOKENS}
    assert says(before[0]) == {"repeated": {"same"}, "cached": {"same"}}
    assert says(after[1], before[1]) == {"repeated": {"same"}, "ladder": {"same"}}
    ids = orjson.dumps(list(range(100, 160)))
    assert before[0].replies["A"].prompt_sha256 == hashlib.sha256(ids).hexdigest()
    assert len(done) == 20
    assert {entry["in_flight"] for entry in done} == {1}  # one at a time


@pytest.mark.parametrize(("gap", "verdict"), [(3.0, "different"), (0.05, "tie")])
def test_a_state_that_leaks_from_the_request_between(tmp_path: Path, gap: float, verdict: str) -> None:
    ((trial,),), done = asked(tmp_path, {"answers": {"wrong": "leak", "gap": gap}})
    assert says(trial) == {"repeated": {verdict}, "cached": {"same"}}
    assert all(odds.cached and len(odds.likely) == 2 for odds in trial.odds)
    assert {odds.reply.outcome for odds in trial.odds} == {Outcome.OK}
    assert len(done) == len(STEPS) + len(trial.odds)


@pytest.mark.parametrize(("gap", "verdict"), [(3.0, "different"), (0.05, "tie")])
def test_a_cache_that_gives_another_state_than_the_prompt(tmp_path: Path, gap: float, verdict: str) -> None:
    ((trial,),), _ = asked(tmp_path, {"answers": {"wrong": "stale", "gap": gap}})
    assert says(trial) == {"repeated": {"same"}, "cached": {verdict}}
    assert {odds.cached for odds in trial.odds} == {True, False}  # with a salt it finds nothing in the cache


def rows_say(before: ProbeTrial, after: ProbeTrial) -> dict[str, str]:
    """Verdicts of the log-probabilities about repeats and about the cache."""
    told = {
        "repeated": by_log_probabilities([(before, None), (after, before)], [before, after], cached=False),
        "cached": by_log_probabilities([(before, None)], [before, after], cached=True),
    }
    return {what: each.verdict for what, each in told.items() if each is not None}


@pytest.mark.parametrize(
    ("answers", "repeated", "cached"),
    [
        ({}, "kept", "kept"),
        ({"rounding": 2e-5}, "kept", "kept"),
        ({"rounding": 1e-2}, "unknown", "unknown"),  # more than another prompt does
        ({"wrong": "leak"}, "broken", "kept"),
        ({"wrong": "leak", "rounding": 2e-5}, "broken", "kept"),
        ({"wrong": "stale"}, "kept", "broken"),  # cached, each prompt has the other's state, every time
        ({"wrong": "stale", "rounding": 2e-5}, "kept", "broken"),
    ],
    ids=str,
)
def test_a_model_that_says_one_token_for_ever(
    tmp_path: Path, answers: dict[str, Any], repeated: str, cached: str
) -> None:
    ((before,), (after,)), done = asked(tmp_path, {"answers": {"flat": 2e-3} | answers}, times=2)
    for trial in (before, after):
        assert trial.silent
        assert trial.odds == ()
        assert tuple(trial.rows) == tuple(ROW_STEPS)
        assert {(odds.of, odds.cached) for odds in trial.rows.values()} == set(ROW_STEPS.values())
        assert {(odds.after, len(odds.likely), odds.reply.completion_tokens) for odds in trial.rows.values()} == {
            ((), 20, 1)
        }
        assert trial.rows["B"].reply.prompt_sha256 == trial.replies["B"].prompt_sha256
        assert trial.rows["A3"].reply.prompt_sha256 == trial.replies["A"].prompt_sha256
    assert len(done) == 2 * (len(STEPS) + len(ROW_STEPS))
    assert rows_say(before, after) == {"repeated": repeated, "cached": cached}


def test_of_a_flat_model_without_log_probabilities_one_request_too_many_is_asked(tmp_path: Path) -> None:
    ((trial,),), done = asked(tmp_path, {"answers": {"flat": 2e-3, "odds": False}})
    assert tuple(trial.rows) == ("A1",)
    assert len(done) == len(STEPS) + 1
    assert rows_say(trial, trial) == {"repeated": "unknown", "cached": "unknown"}


def test_where_replies_of_two_prompts_differ_nothing_more_is_asked(tmp_path: Path) -> None:
    ((trial,),), _ = asked(tmp_path, {"answers": {}})
    assert trial.rows == {}
    assert rows_say(trial, trial) == {}


def test_of_replies_that_mean_nothing_no_log_probabilities_are_asked(tmp_path: Path) -> None:
    ((trial,),), _ = asked(tmp_path, {"answers": {"flat": 2e-3}}, comparable=False)
    assert trial.rows == {}


def test_replies_that_mean_nothing_are_not_asked_about(tmp_path: Path) -> None:
    ((trial,),), done = asked(tmp_path, {"answers": {"wrong": "leak"}}, comparable=False)
    assert trial.odds == ()
    assert len(done) == len(STEPS)


def test_a_server_without_log_probabilities(tmp_path: Path) -> None:
    ((trial,),), _ = asked(tmp_path, {"answers": {"wrong": "leak", "odds": False}})
    assert {odds.likely for odds in trial.odds} == {()}
    assert says(trial)["repeated"] == {"unknown"}


def test_a_server_that_does_not_say_its_tokens(tmp_path: Path) -> None:
    ((trial,),), _ = asked(tmp_path, {})
    assert {reply.token_ids for reply in trial.replies.values()} == {None}
    assert trial.rows == {}
    assert says(trial) == {}


@pytest.mark.parametrize(
    ("fault", "outcome"),
    [({"fault": "cut", "fault_after": 2}, Outcome.CUT), ({"status": 503}, Outcome.HTTP_ERROR)],
    ids=["cut", "503"],
)
def test_a_lost_request_is_kept_and_ends_the_probe(tmp_path: Path, fault: dict[str, Any], outcome: Outcome) -> None:
    """The third request: A2 of the first agent. The second agent is not asked."""
    (trials,), done = asked(tmp_path, {"answers": {}, "requests": [{}, {}, fault]}, 100, 300)
    (trial,) = trials
    assert [reply.outcome for reply in trial.replies.values()] == [Outcome.OK, Outcome.OK, outcome]
    assert trial.replies["A2"].error
    assert len(done) == 3


def test_tokens_that_are_none_are_not_taken_for_a_reply(tmp_path: Path) -> None:
    """One that the server repeats from the prompt, say, or a word."""

    class Odd(Client):
        def send(self, *arguments: Any, on_choice: Any = None, **options: Any) -> Any:
            def twisted(choice: dict[str, Any]) -> None:
                on_choice({**choice, "token_ids": ["word"]})

            return super().send(*arguments, on_choice=twisted, **options)

    async def main(url: str) -> tuple[ProbeTrial, ...]:
        clock = RunClock.start()
        async with Odd(url, clock=clock, request_timeout_s=20) as client:
            return await Probe(prompts(100), comparable=True, salt="").ask(client, clock)

    with running({"answers": {}}, folder=tmp_path) as server:
        (trial,) = asyncio.run(main(server.base_url))
    assert trial.replies["A"].outcome is Outcome.BAD_REPLY
    assert "token_ids" in trial.replies["A"].error
