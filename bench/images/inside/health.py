"""The health check of an image that serves: exit status 0 while the engine says that it is well.

It is copied into the image as one file. `http.client` and not `urllib`: no proxy that a container's environment names
can answer in the engine's place.
"""

from __future__ import annotations

import http.client
import sys
from typing import Final

PORT: Final = 8000
"""Of the engine inside the container (`bench.images.layout.PORT`; a test compares them)."""

_TIMEOUT_S: Final = 4.0


def healthy(port: int) -> bool:
    """Whether GET /health on this machine's loopback is answered with 200."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_TIMEOUT_S)
    try:
        connection.request("GET", "/health")
        return connection.getresponse().status == http.HTTPStatus.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


if __name__ == "__main__":
    sys.exit(0 if healthy(PORT) else 1)
