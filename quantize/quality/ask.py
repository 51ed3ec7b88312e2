"""Asks an engine: what it makes of a text, and what it answers to a prompt. One request at a time, all in token ids.

Everything goes through vLLM's completions endpoint, which takes token ids and so needs no tokenizer in the engine.
"""

from __future__ import annotations

import http.client
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import numpy as np
import orjson

from bench.errors import StreamproofError
from quantize.quality.scores import Scores

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.engine.base import RunningEngine

_PATH: Final = "/v1/completions"
_ID_PREFIX: Final = "token_id:"
_TIMEOUT_S: Final = 300.0
"""Log-probabilities of a long prompt take an engine seconds; this is for one that no longer works."""


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer to a prompt.

    Attributes:
        ids: its tokens.
        prompt_tokens, reply_tokens: as the engine counted them.
        finish_reason: "length" where the reply is as long as was asked for.
        likely: of each token, by id the log-probabilities of it and of the most likely ones; empty where none were
            asked for or given.
    """

    ids: tuple[int, ...]
    prompt_tokens: int
    reply_tokens: int
    finish_reason: str | None
    likely: tuple[dict[int, float], ...] = ()


def scores(engine: RunningEngine, ids: Sequence[int], *, top_k: int) -> Scores:
    """What the engine makes of a text.

    Args:
        engine: that is ready.
        ids: the text.
        top_k: most likely tokens to be told at each position; vLLM allows 20 unless its `--max-logprobs` says more.

    Raises:
        StreamproofError: it refuses, answers with something else, or with a figure that is no number.
    """
    body = {"prompt": list(ids), "max_tokens": 1, "temperature": 0, "prompt_logprobs": top_k}
    choice = _complete(engine, body)["choices"][0]
    rows = choice.get("prompt_logprobs")
    if not isinstance(rows, list) or len(rows) != len(ids):
        raise StreamproofError(
            f"the engine at {engine.servers[0].base_url} gave no log-probabilities of the prompt",
            remedy="They come from vLLM's completions endpoint (`prompt_logprobs`); other servers do not have them.",
        )
    return scores_from_rows(ids, rows[1:], top_k=top_k)


def scores_from_rows(ids: Sequence[int], rows: Sequence[dict[str, dict[str, Any]]], *, top_k: int) -> Scores:
    """Scores from vLLM's rows, one a token: by token id, its log-probability; the text's own token and the top k.

    vLLM names the text's own token first, and once only where it is among the top k: a row has k or k + 1 entries.

    Raises:
        StreamproofError: a row has fewer entries, or not the text's token, or a figure that is no number.
    """
    logprob = np.empty(len(rows), dtype=np.float32)
    top_ids = np.empty((len(rows), top_k), dtype=np.int32)
    top_logprob = np.empty((len(rows), top_k), dtype=np.float32)
    for place, (own, row) in enumerate(zip(ids[1:], rows, strict=True)):
        entries = {int(token): entry["logprob"] for token, entry in row.items()}
        figures = list(entries.values())
        if own not in entries or len(entries) not in (top_k, top_k + 1) or not all(_is_number(f) for f in figures):
            raise StreamproofError(
                f"the log-probabilities of token {place + 1} are not what was asked for: {len(entries)} entries "
                f"instead of {top_k} or {top_k + 1}, or one that is no number",
                remedy="A model whose figures are NaN is broken (zero or NaN scales): run `just quantize audit` on it.",
            )
        logprob[place] = entries[own]
        if len(entries) > top_k:
            del entries[own]
        ranked = sorted(entries.items(), key=lambda entry: -entry[1])
        top_ids[place] = [token for token, _ in ranked]
        top_logprob[place] = [figure for _, figure in ranked]
    return Scores(np.asarray(ids[1:], dtype=np.int32), logprob, top_ids, top_logprob)


def reply(engine: RunningEngine, ids: Sequence[int], *, tokens: int, salt: str, top_k: int | None = None) -> Reply:
    """Asks for a greedy reply of exact length.

    Args:
        engine: that is ready.
        ids: the prompt.
        tokens: length of the reply.
        salt: a prefix cache is shared only among requests of the same salt.
        top_k: most likely tokens to be told with each token of the reply; None asks for no log-probabilities.

    Raises:
        StreamproofError: it refuses or answers with something else.
    """
    body = {
        "prompt": list(ids),
        "max_tokens": tokens,
        "temperature": 0,
        "ignore_eos": True,
        "return_token_ids": True,
        "cache_salt": salt,
    }
    if top_k is not None:
        body |= {"logprobs": top_k, "return_tokens_as_token_ids": True}
    answer = _complete(engine, body)
    choice, usage = answer["choices"][0], answer.get("usage") or {}
    return Reply(
        ids=tuple(choice.get("token_ids") or ()),
        prompt_tokens=int(usage.get("prompt_tokens") or 0),
        reply_tokens=int(usage.get("completion_tokens") or 0),
        finish_reason=choice.get("finish_reason"),
        likely=_likely(choice.get("logprobs")),
    )


def _likely(logprobs: object) -> tuple[dict[int, float], ...]:
    """From vLLM's `token_id:17` words; nothing where a server answers with anything else."""
    rows: Any = logprobs.get("top_logprobs") if isinstance(logprobs, dict) else ()
    try:
        return tuple(
            {int(word.removeprefix(_ID_PREFIX)): float(figure) for word, figure in row.items()} for row in rows
        )
    except (AttributeError, TypeError, ValueError):
        return ()


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value == value  # noqa: PLR0124  not NaN


def _complete(engine: RunningEngine, body: dict[str, Any]) -> dict[str, Any]:
    (server,) = engine.servers
    url = urlsplit(server.base_url)
    kind = http.client.HTTPSConnection if url.scheme == "https" else http.client.HTTPConnection
    connection = kind(url.hostname or "", url.port, timeout=_TIMEOUT_S)
    headers = {"Content-Type": "application/json", "Connection": "close"}
    if server.api_key is not None:
        headers["Authorization"] = f"Bearer {server.api_key}"
    try:
        connection.request("POST", _PATH, body=orjson.dumps({"model": engine.model, **body}), headers=headers)
        response = connection.getresponse()
        status, content = response.status, response.read()
    except (OSError, http.client.HTTPException) as error:
        died = "" if engine.alive() else " (it has died)"
        raise StreamproofError(
            f"the engine at {server.base_url} does not answer{died}: {error!r}",
            remedy="See the end of its log.",
        ) from error
    finally:
        connection.close()
    try:
        answer = orjson.loads(content)
    except ValueError:
        answer = None
    if status != http.client.OK or not isinstance(answer, dict) or not answer.get("choices"):
        said = " ".join(content[:300].decode(errors="replace").split())
        raise StreamproofError(
            f"the engine at {server.base_url} refuses a request with status {status}: {said}",
            remedy="See its log. A sequence that is too long needs a smaller workload.prompt_tokens or a larger "
            "engine.flags.max_model_len; more than 20 top tokens need engine.flags.max_logprobs.",
        )
    return answer
