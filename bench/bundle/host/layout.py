"""The folders and files of an installed bundle."""

from __future__ import annotations

from typing import Final

INSTALLED: Final = "bundle.json"
"""What the client must know about its bundle and its host; written by the installer."""

LAUNCHER: Final = "streamproof"
"""The command."""

CLIENT: Final = "client"
"""The repository's files that the client consists of."""

CLIENT_ENVIRONMENT: Final = "client-env"
"""The client's packages, as a virtual environment."""

ENGINE_SITE: Final = "engine"
"""The engine's packages; the host's Python finds them before its own."""

CACHES: Final = "caches"
"""What engines have compiled."""

IMAGE: Final = "image"
"""A container image, as `docker load` takes it; it is gone once it is loaded."""

HUB: Final = "hub"
"""Checkpoints, in the form of the hub's own cache: what finds a snapshot there asks no network."""
