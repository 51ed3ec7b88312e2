"""One GET, blocking, for what is asked of an engine outside the measurement: health, models, version, counters."""

from __future__ import annotations

import http.client
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

LONGEST_BODY: Final = 8 << 20
"""Bytes. vLLM's metrics page has about 60 KB; a server that sends more than this is no engine."""


@dataclass(frozen=True, slots=True)
class Reply:
    """Status and body of a response."""

    status: int
    content_type: str
    body: bytes

    @property
    def is_html(self) -> bool:
        """Whether this is a page for people: a proxy's, a portal's, another program's."""
        return self.content_type.startswith("text/html") or self.body[:64].lstrip()[:1] == b"<"


def get(base_url: str, path: str, *, api_key: str | None = None, timeout_s: float = 5.0) -> Reply:
    """Fetch `path` from the server at `base_url` (scheme, host, port).

    Raises:
        OSError: no connection, or none in time.
        http.client.HTTPException: what answers does not speak HTTP.
    """
    url = urlsplit(base_url)
    kind = http.client.HTTPSConnection if url.scheme == "https" else http.client.HTTPConnection
    connection = kind(url.hostname or "", url.port, timeout=timeout_s)
    headers = {"Accept": "*/*", "Connection": "close"}
    if api_key is not None:
        headers["Authorization"] = f"Bearer {api_key}"
    try:
        connection.request("GET", path, headers=headers)
        response = connection.getresponse()
        return Reply(response.status, response.headers.get("Content-Type", "").lower(), response.read(LONGEST_BODY))
    finally:
        connection.close()
