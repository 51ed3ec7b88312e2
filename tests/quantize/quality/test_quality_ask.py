from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

from bench.engine.external import RunningExternal
from bench.errors import StreamproofError
from bench.observe.observations import EngineStarted
from quantize.quality.ask import _likely, reply, scores, scores_from_rows
from quantize.quality.scores import load_scores, save_scores
from tests.quantize.quality.standin import Standin, greedy, row, serving

IDS = (7, 3, 9, 0, 2)


def engine(url: str) -> RunningExternal:
    nothing = dict.fromkeys(("ready_s", "version", "max_model_len", "block_size", "prefix_caching", "argv", "cold"))
    started = EngineStarted.model_validate(
        {"t": 0.0, "run": 0, "kind_of_engine": "external", "stages": (), "model": "toy", "packages_sha256": None}
        | nothing
    )
    return RunningExternal(url, None, started)


def test_rows_of_vllm_become_scores() -> None:
    found = scores_from_rows(IDS, [row(own, 3) for own in IDS[1:]], top_k=3)
    assert found.tokens.tolist() == [3, 9, 0, 2]
    assert found.logprob.tolist() == [-3.5, -9.5, -0.5, -2.5]
    # 3 and 9 are not among the three most likely, and their own entries must not push one of those out.
    assert found.top_ids.tolist() == [[0, 1, 2]] * 4
    assert found.top_logprob.tolist() == [[-0.5, -1.5, -2.5]] * 4


@pytest.mark.parametrize(
    "change",
    [
        lambda entries: (entries.pop("0"), entries.pop("1")),
        lambda entries: entries.pop("9"),
        lambda entries: entries.update({"0": {"logprob": math.nan}}),
        lambda entries: entries.update({"0": {"logprob": None}}),
    ],
)
def test_a_row_that_is_not_what_was_asked_for_is_refused(change: object) -> None:
    entries = row(9, 2)
    assert callable(change)
    change(entries)
    with pytest.raises(StreamproofError, match="token 1 are not what was asked for"):
        scores_from_rows((7, 9), [entries], top_k=2)


def test_scores_of_a_server() -> None:
    standin = Standin()
    with serving(standin) as url:
        found = scores(engine(url), IDS, top_k=4)
    assert found.top_ids.shape == (4, 4)
    assert standin.requests == [
        {"model": "toy", "prompt": list(IDS), "max_tokens": 1, "temperature": 0, "prompt_logprobs": 4}
    ]


def test_a_server_without_log_probabilities_is_named_as_such() -> None:
    with serving(Standin(rows=lambda _ids, _k: None)) as url, pytest.raises(StreamproofError, match="no log-prob"):
        scores(engine(url), IDS, top_k=4)


def test_a_refusal_is_told_with_the_server_s_words() -> None:
    with serving(Standin(status=400)) as url, pytest.raises(StreamproofError, match="status 400: it is too long"):
        reply(engine(url), IDS, tokens=3, salt="a")


def test_a_server_that_is_gone_is_an_error_with_a_remedy() -> None:
    with serving(Standin()) as url:
        pass
    with pytest.raises(StreamproofError, match="does not answer"):
        reply(engine(url), IDS, tokens=3, salt="a")


def test_a_reply_is_asked_for_greedily_and_out_of_no_cache() -> None:
    standin = Standin()
    with serving(standin) as url:
        answer = reply(engine(url), IDS, tokens=3, salt="mine")
    assert answer.ids == tuple(greedy(IDS, 3))
    assert (answer.prompt_tokens, answer.reply_tokens, answer.finish_reason) == (5, 3, "length")
    asked = standin.requests[0]
    assert (asked["temperature"], asked["ignore_eos"], asked["cache_salt"]) == (0, True, "mine")
    json.dumps(asked)


def test_log_probabilities_of_a_reply_come_by_token_id() -> None:
    standin = Standin(likely=lambda ids: [{token: -0.5, 99: -2.0} for token in ids])
    with serving(standin) as url:
        answer = reply(engine(url), IDS, tokens=3, salt="mine", top_k=2)
    assert answer.likely == tuple({token: -0.5, 99: -2.0} for token in greedy(IDS, 3))


@pytest.mark.parametrize(
    "said",
    [
        None,
        [],
        "x",
        {},
        {"top_logprobs": None},
        {"top_logprobs": [None]},
        {"top_logprobs": [{"the": -1.0}]},
        {"top_logprobs": [{"token_id:1": None}]},
    ],
)
def test_log_probabilities_that_are_not_vllm_s_are_none(said: object) -> None:
    assert _likely(said) == ()


def test_scores_are_kept_as_they_are(tmp_path: Path) -> None:
    first = scores_from_rows(IDS, [row(own, 3) for own in IDS[1:]], top_k=3)
    second = scores_from_rows(IDS[:3], [row(own, 3) for own in IDS[1:3]], top_k=3)
    save_scores(tmp_path / "scores.npz", [first, second])
    back = load_scores(tmp_path / "scores.npz")
    assert len(back) == 2
    for one, other in zip((first, second), back, strict=True):
        for name in ("tokens", "logprob", "top_ids", "top_logprob"):
            assert np.array_equal(getattr(one, name), getattr(other, name))


def test_a_file_that_holds_no_scores_is_refused(tmp_path: Path) -> None:
    (tmp_path / "scores.npz").write_bytes(b"PK nothing")
    for name in ("scores.npz", "missing.npz"):
        with pytest.raises(StreamproofError, match="holds no scores"):
            load_scores(tmp_path / name)
