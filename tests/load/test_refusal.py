from __future__ import annotations

from dataclasses import replace

import pytest

from bench.errors import Exit
from bench.load.refusal import refusal
from bench.records import Outcome, RequestRecord

PRIMED = RequestRecord(
    point=0,
    run=0,
    request=0,
    stream=-1,
    conversation=0,
    turn=0,
    agent="booking",
    primed=True,
    intended_s=0.0,
    sent_s=0.0,
    headers_s=0.1,
    first_token_s=None,
    last_token_s=None,
    done_s=0.2,
    chunk_s=(),
    prompt_tokens_expected=10,
    prompt_tokens=None,
    cached_tokens=None,
    completion_tokens=None,
    requested_tokens=4,
    finish_reason=None,
    status=None,
    outcome=Outcome.OK,
    error="what happened",
    segments=(),
)


@pytest.mark.parametrize(
    ("outcome", "status", "code", "remedy"),
    [
        (Outcome.BAD_REPLY, 200, Exit.USAGE, "base URL"),
        (Outcome.HTTP_ERROR, 401, Exit.USAGE, "API key"),
        (Outcome.HTTP_ERROR, 403, Exit.USAGE, "API key"),
        (Outcome.HTTP_ERROR, 404, Exit.USAGE, "/v1/models"),
        (Outcome.HTTP_ERROR, 405, Exit.USAGE, "/v1/models"),
        (Outcome.HTTP_ERROR, 400, Exit.FAILURE, "context length"),
        (Outcome.HTTP_ERROR, 422, Exit.FAILURE, "context length"),
        (Outcome.PROMPT_MISMATCH, 200, Exit.FAILURE, "tokenizer"),
        (Outcome.NO_USAGE, 200, Exit.FAILURE, "include_usage"),
        (Outcome.EMPTY, 200, Exit.FAILURE, "return_token_ids"),
        (Outcome.CONNECT, None, Exit.FAILURE, "running"),
    ],
)
def test_what_will_not_pass_by_itself(outcome: Outcome, status: int | None, code: Exit, remedy: str) -> None:
    error = refusal(replace(PRIMED, outcome=outcome, status=status))
    assert error is not None
    assert error.exit_code is code
    assert error.message == "the first request to the agent 'booking' failed: what happened"
    assert remedy in error.remedy


@pytest.mark.parametrize(
    ("outcome", "status"),
    [
        (Outcome.OK, 200),
        (Outcome.SHORT, 200),
        (Outcome.CUT, 200),
        (Outcome.TIMEOUT, None),
        (Outcome.ENGINE_ERROR, 200),
        (Outcome.HTTP_ERROR, 429),
        (Outcome.HTTP_ERROR, 500),
        (Outcome.HTTP_ERROR, 503),
    ],
)
def test_what_may_pass(outcome: Outcome, status: int | None) -> None:
    assert refusal(replace(PRIMED, outcome=outcome, status=status)) is None
