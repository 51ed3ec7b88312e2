"""A first reply that tells that no reply will ever count: stop at once and say what to do."""

from __future__ import annotations

from bench.errors import StreamproofError, UsageError
from bench.records import Outcome, RequestRecord


def refusal(record: RequestRecord) -> StreamproofError | None:
    """The error that a priming request's record calls for; None if the point may go on."""
    text = f"the first request to the agent {record.agent!r} failed: {record.error}"
    match record.outcome:
        case Outcome.BAD_REPLY:
            return UsageError(
                text, remedy="Is the base URL that of an OpenAI-compatible server? It must stream server-sent events."
            )
        case Outcome.HTTP_ERROR if record.status in (401, 403):
            return UsageError(text, remedy="The server wants another API key.")
        case Outcome.HTTP_ERROR if record.status in (404, 405):
            return UsageError(
                text, remedy="Check the served model's name (GET /v1/models lists them) and the path of the base URL."
            )
        case Outcome.HTTP_ERROR if record.status is not None and 400 <= record.status < 500 and record.status != 429:
            return StreamproofError(
                text,
                remedy="The server refuses the workload's requests; its message says why (context length, option).",
            )
        case Outcome.PROMPT_MISMATCH:
            return StreamproofError(
                text,
                remedy="The tokenizer or chat template of the workload is not the one that the server uses; give the"
                " served checkpoint's own.",
            )
        case Outcome.NO_USAGE:
            return StreamproofError(
                text, remedy="The server must honour stream_options.include_usage; without it no token can be counted."
            )
        case Outcome.CONNECT:
            return StreamproofError(text, remedy="Is the server running, and is the base URL its address?")
        case _:
            return None
