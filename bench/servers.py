"""Where an engine answers."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Server:
    """One server, which nobody else shares.

    Attributes:
        base_url: scheme, host and port, without a path and without a trailing slash: "http://127.0.0.1:8000".
        api_key: bearer token for every request; None where none is wanted. Never written anywhere.
    """

    base_url: str
    api_key: str | None = field(default=None, repr=False)
