"""Which repository, on which GitHub: from the options, from GitHub's own runner, or from the checkout's remote."""

from __future__ import annotations

import ipaddress
import os
import re
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from bench.errors import StreamproofError, UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

PUBLIC_API: Final = "https://api.github.com"
TOKEN: Final = "GITHUB_TOKEN"  # noqa: S105  the name of a variable, not a token

HOW_TO_GET_A_TOKEN: Final = (
    "A fine-grained personal access token for this repository alone, with the permission "
    '"Contents: read and write", is made at https://github.com/settings/personal-access-tokens/new (on a server of '
    "your own under the same path). In a workflow of GitHub Actions: permissions: contents: write, and env: "
    f"{TOKEN}: ${{{{ github.token }}}}."
)

_REPOSITORY: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,38}/[A-Za-z0-9._-]{1,100}")
_REMOTE: Final = re.compile(
    r"(?:(?:https|ssh|git)://(?:[^@/]*@)?(?P<host>[^/:]+)(?::\d+)?/|(?:[^@/]+@)(?P<scp>[^/:]+):)(?P<name>[^/]+/[^/]+?)"
    r"(?:\.git)?/?"
)
_TOKEN: Final = re.compile(r"[\x21-\x7e]{1,512}")


@dataclass(frozen=True, slots=True)
class Place:
    """Where releases are.

    Attributes:
        repository: "owner/name".
        api: address of the REST API, without a slash at the end.
    """

    repository: str
    api: str


def place_of(repository: str | None, api: str | None, folder: Path, environ: Mapping[str, str] | None = None) -> Place:
    """Resolves it: an option counts before GITHUB_REPOSITORY and GITHUB_API_URL, and these before the remote "origin".

    A remote counts only where it is on the same server as the API: nobody's report goes to a namesake elsewhere.

    Args:
        repository: "owner/name" as given; None where it is not.
        api: likewise.
        folder: within the checkout whose remote is asked.
        environ: by default this process's.

    Raises:
        UsageError: one of them is wrong, or nothing tells the repository.
    """
    environ = os.environ if environ is None else environ
    api = _api(api or environ.get("GITHUB_API_URL") or PUBLIC_API)
    repository = repository or environ.get("GITHUB_REPOSITORY") or _of_remote(folder, api)
    if repository is None:
        raise UsageError(
            f"which repository of {_host(api)}? The checkout's remote does not tell.", remedy="--repo OWNER/NAME"
        )
    if not _REPOSITORY.fullmatch(repository):
        raise UsageError(f"{repository!r} is no repository.", remedy="--repo OWNER/NAME, as in its address.")
    return Place(repository, api)


def token_of(environ: Mapping[str, str] | None = None) -> str:
    """The token of GITHUB_TOKEN. It is never printed, not even when it is wrong.

    Raises:
        StreamproofError: there is none, or what is there cannot be one.
    """
    environ = os.environ if environ is None else environ
    token = environ.get(TOKEN, "").strip()
    if not token:
        raise StreamproofError(f"{TOKEN} is not set: GitHub wants to know who attaches", remedy=HOW_TO_GET_A_TOKEN)
    if not _TOKEN.fullmatch(token):
        raise StreamproofError(
            f"{TOKEN} holds something that is no token: {len(token):,} characters, some of them blank or not ASCII",
            remedy=HOW_TO_GET_A_TOKEN,
        )
    return token


def is_loopback(host: str | None) -> bool:
    """Whether a host is this machine itself, where nobody listens on the way."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host or "").is_loopback
    except ValueError:
        return False


def _api(address: str) -> str:
    parts = urlsplit(address)
    if parts.scheme == "http" and not is_loopback(parts.hostname):
        raise UsageError(
            f"--api-url {address}: over http everybody on the way could read the token.", remedy="Use https."
        )
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment or parts.username:
        raise UsageError(
            f"--api-url {address!r} is no address of a REST API.",
            remedy=f"{PUBLIC_API}, or https://HOST/api/v3 for a GitHub Enterprise Server.",
        )
    return address.rstrip("/")


def _host(api: str) -> str:
    """The host of the pages, and of git, that belong to an API."""
    return (urlsplit(api).hostname or "").removeprefix("api.")


def _of_remote(folder: Path, api: str) -> str | None:
    command = ["git", "-C", str(folder), "remote", "get-url", "origin"]
    try:
        told = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603  the user's own git
    except (OSError, subprocess.CalledProcessError):
        return None
    found = _REMOTE.fullmatch(told.stdout.strip())
    if found is None or (found["host"] or found["scp"]) != _host(api):
        return None
    return found["name"]
