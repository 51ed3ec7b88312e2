"""Where things are inside our images, and as whom they run: the same for every stage of the Dockerfile."""

from __future__ import annotations

from typing import Final

USER_ID: Final = 10001
"""User and group of everything that runs in our images. A number: `runAsNonRoot` cannot check names."""

HOME: Final = "/home/streamproof"
"""Of that user. Empty, and the only folder besides `CACHES` that it may write."""

ROOT: Final = "/opt/streamproof"
"""What we install; belongs to root and is only read."""

CACHES: Final = "/var/cache/streamproof"
"""Where an engine keeps what it compiles. A new named volume that is mounted there begins as a copy of what was baked
into the image; with a read-only root and neither volume nor tmpfs there, an engine cannot start."""

PORT: Final = 8000
"""That an engine listens on inside its container; the health check asks there."""
