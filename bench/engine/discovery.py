"""What a server says about itself: which models, which version."""

from __future__ import annotations

import http.client
import json
from dataclasses import dataclass
from typing import Any

from bench.engine.http_get import Reply, get
from bench.errors import StreamproofError, UsageError


@dataclass(frozen=True, slots=True)
class ServedModel:
    """One entry of `/v1/models`.

    Attributes:
        name: what requests call it.
        max_model_len: longest sequence in tokens; None where the server does not say.
    """

    name: str
    max_model_len: int | None


def served_models(base_url: str, *, api_key: str | None = None, timeout_s: float = 5.0) -> list[ServedModel]:
    """The models that the server lists.

    Raises:
        StreamproofError: nothing answers there, or what answers is no OpenAI-compatible server, or it wants a key.
    """
    address = f"{base_url}/v1/models"
    try:
        reply = get(base_url, "/v1/models", api_key=api_key, timeout_s=timeout_s)
    except (OSError, http.client.HTTPException) as error:
        raise StreamproofError(
            f"no engine answers at {base_url}: {_why(error)}",
            remedy="Start it, or correct the address (scheme, host and port of an OpenAI-compatible server).",
        ) from error
    if reply.status in (http.client.UNAUTHORIZED, http.client.FORBIDDEN):
        raise UsageError(
            f"{address} answers {reply.status}: it wants {'another' if api_key else 'an'} API key",
            remedy="Pass the server's key.",
        )
    models = _models(reply)
    if models is None:
        what = "an HTML page" if reply.is_html else f"status {reply.status} and no list of models"
        raise UsageError(
            f"{address} answers with {what}: this is no OpenAI-compatible server",
            remedy="Give the address of the engine itself, not of a page or a proxy in front of it.",
        )
    return models


def choose_model(models: list[ServedModel], wanted: str | None, base_url: str) -> ServedModel:
    """The one that is wanted; without a wish the only one there is.

    Raises:
        UsageError: it is not there, or there are several to choose from; the remedy lists them.
    """
    names = ", ".join(model.name for model in models) or "none"
    for model in models:
        if wanted in (model.name, None) and (wanted or len(models) == 1):
            return model
    if wanted is None:
        raise UsageError(f"{base_url} serves {len(models)} models", remedy=f"Name one of them: {names}.")
    raise UsageError(f'{base_url} does not serve a model called "{wanted}"', remedy=f"It serves: {names}.")


def server_version(base_url: str, *, api_key: str | None = None, timeout_s: float = 5.0) -> str | None:
    """The engine's version as vLLM reports it; None for a server that does not."""
    try:
        reply = get(base_url, "/version", api_key=api_key, timeout_s=timeout_s)
        version = json.loads(reply.body).get("version") if reply.status == http.client.OK else None
    except (OSError, http.client.HTTPException, ValueError, AttributeError):
        return None
    return version if isinstance(version, str) else None


def is_healthy(base_url: str, *, timeout_s: float = 5.0) -> bool:
    """Whether `/health` answers 200."""
    try:
        return get(base_url, "/health", timeout_s=timeout_s).status == http.client.OK
    except (OSError, http.client.HTTPException):
        return False


def _models(reply: Reply) -> list[ServedModel] | None:
    try:
        entries: list[Any] = json.loads(reply.body)["data"]
        return [ServedModel(str(entry["id"]), _length(entry.get("max_model_len"))) for entry in entries]
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def _length(value: object) -> int | None:
    return value if isinstance(value, int) else None


def _why(error: OSError | http.client.HTTPException) -> str:
    text: str = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return " ".join(text.split())  # a peer's own words may hold line ends
