"""A first reply that tells that no reply will ever count: stop at once and say what to do."""

from __future__ import annotations

from bench.errors import StreamproofError, UsageError
from bench.records import Outcome, RequestRecord

UNAUTHORIZED = (401, 403)
NOT_THERE = (404, 405)
BUSY = 429
"""The only client error that may pass by itself."""


def refusal(record: RequestRecord) -> StreamproofError | None:
    """The error that a priming request's record calls for; None if the point may go on."""
    text = f"the first request to the agent {record.agent!r} failed: {record.error}"
    match record.outcome:
        case Outcome.HTTP_ERROR:
            error = _by_status(record.status or 0, text)
        case Outcome.BAD_REPLY:
            error = UsageError(
                text, remedy="Is the base URL that of an OpenAI-compatible server? It must stream server-sent events."
            )
        case Outcome.PROMPT_MISMATCH:
            error = StreamproofError(
                text,
                remedy="The tokenizer or chat template of the workload is not the one that the server uses; give the"
                " served checkpoint's own.",
            )
        case Outcome.NO_USAGE:
            error = StreamproofError(
                text, remedy="The server must honour stream_options.include_usage; without it no token can be counted."
            )
        case Outcome.EMPTY:
            error = StreamproofError(
                text,
                remedy="No text and no token ids came. An engine without a tokenizer must honour return_token_ids; a"
                " reply of nothing but special tokens has no text, and with random weights that happens.",
            )
        case Outcome.CONNECT:
            error = StreamproofError(text, remedy="Is the server running, and is the base URL its address?")
        case _:
            error = None
    return error


def _by_status(status: int, text: str) -> StreamproofError | None:
    if status in UNAUTHORIZED:
        return UsageError(text, remedy="The server wants another API key.")
    if status in NOT_THERE:
        return UsageError(
            text, remedy="Check the served model's name (GET /v1/models lists them) and the path of the base URL."
        )
    if 400 <= status < 500 and status != BUSY:
        return StreamproofError(
            text, remedy="The server refuses the workload's requests; its message says why (context length, option)."
        )
    return None
