"""Downloads one file from an address that a stranger may have named.

TLS all the way, redirects included; plain HTTP only to this machine itself. No login is sent, not even one that the
user keeps in a .netrc. What comes is counted while it comes, and nothing is unpacked on the way.
"""

from __future__ import annotations

import hashlib
import time
from typing import IO, TYPE_CHECKING, Final
from urllib.parse import urljoin, urlsplit

import requests
import urllib3

from bench.errors import StreamproofError, UsageError
from bench.images.registry_auth import NoLogin, is_loopback
from bench.images.registry_http import cause_of
from bench.report.verify_text import printable

if TYPE_CHECKING:
    from collections.abc import Callable

REDIRECTS_LIMIT: Final = 5
"""GitHub needs one: from the release to the storage behind it."""
TIMEOUT_S: Final = (10.0, 30.0)
"""To connect, and between two pieces."""
WHOLE_TIMEOUT_S: Final = 3600.0
"""For all of it: who sends a byte now and then never ends."""
_PIECE: Final = 1 << 18

_NO_NETWORK: Final = (
    "Try again where there is network (HTTPS_PROXY and REQUESTS_CA_BUNDLE are respected), or fetch the file yourself "
    "and name it."
)


def download(url: str, into: IO[bytes], *, most: int, tell: Callable[[int, int | None], object]) -> str:
    """Downloads what an address gives.

    Args:
        url: of a file.
        into: an empty file, open for writing.
        most: bytes that are taken at most.
        tell: called with the bytes that are there and those that are announced, as they come.

    Returns:
        SHA-256 in hex of what was written.

    Raises:
        UsageError: no address that anything is fetched from.
        StreamproofError: it cannot be had, is too large, or takes too long.
    """
    loopback = _check_address(url, UsageError)
    try:
        with _Session() as session, _opened(session, url, loopback=loopback) as answer:
            return _received(answer, into, most=most, tell=tell)
    except (requests.RequestException, urllib3.exceptions.HTTPError) as error:
        raise StreamproofError(
            f"{shown(url)} cannot be fetched: {printable(cause_of(error), 160)}", remedy=_NO_NETWORK
        ) from error


class _Session(requests.Session):
    """Follows nothing by itself: requests reads the whole body of a redirect first, however long it is."""

    def get_redirect_target(self, _answer: requests.Response) -> str | None:
        """Nowhere."""
        return None


def shown(url: str) -> str:
    """An address as it is printed: without what may be a password in it."""
    parts = urlsplit(url)
    query = "?..." if parts.query else ""
    return printable(f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}{query}", 300)


def _check_address(url: str, kind: type[StreamproofError]) -> bool:
    """Whether the address is this machine's own.

    Raises:
        StreamproofError: of this kind: nothing is fetched from there.
    """
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        _ = parts.port  # read where it is no number
    except ValueError as error:
        raise kind(f"{printable(url, 300)} is no address: {error}", remedy="E.g. https://.../report.zip") from error
    loopback = is_loopback(host)
    if parts.scheme != "https" and not (parts.scheme == "http" and loopback):
        raise kind(
            f"nothing is fetched from {shown(url)}: only https is, and http from this machine itself.",
            remedy="Without TLS anybody on the way could see what you verify, and give you another report.",
        )
    if not host or parts.username is not None or parts.password is not None:
        raise kind(
            f"nothing is fetched from {shown(url)}: it has no host, or a login in it.",
            remedy="Fetch the file yourself and name it.",
        )
    return loopback


def _opened(session: requests.Session, url: str, *, loopback: bool) -> requests.Response:
    """The answer that has the file, redirects followed one by one."""
    for _ in range(REDIRECTS_LIMIT + 1):
        answer = session.get(
            url,
            headers={"Accept": "application/octet-stream", "Accept-Encoding": "identity"},
            auth=NoLogin(),
            timeout=TIMEOUT_S,
            stream=True,
        )
        if not answer.is_redirect:
            return answer
        answer.close()
        try:
            target = urljoin(url, answer.headers["Location"])
        except ValueError as error:
            raise StreamproofError(
                f"{shown(url)} leads to something that is no address: {error}", remedy="Name the file's own address."
            ) from error
        if _check_address(target, StreamproofError) and not loopback:
            raise StreamproofError(
                f"{shown(url)} leads to {shown(target)}, which is this machine itself.",
                remedy="No release does that: somebody wants to reach what runs here. Do not fetch it.",
            )
        url = target
    raise StreamproofError(
        f"{shown(url)} leads on and on: more than {REDIRECTS_LIMIT} redirects.", remedy="Name the file's own address."
    )


def _received(
    answer: requests.Response, into: IO[bytes], *, most: int, tell: Callable[[int, int | None], object]
) -> str:
    where = shown(answer.url)
    if answer.status_code != requests.codes.ok:
        raise StreamproofError(
            f"{where} answers with status {answer.status_code}", remedy=_STATUS.get(answer.status_code, _NO_NETWORK)
        )
    encoding = answer.headers.get("Content-Encoding", "identity").strip().lower()
    if encoding not in {"", "identity"}:
        raise StreamproofError(
            f"{where} sends the file packed on the way ({printable(encoding, 40)}), which was not asked for.",
            remedy="Fetch the file yourself and name it.",
        )
    length = answer.headers.get("Content-Length", "")
    announced = int(length) if length.isascii() and length.isdigit() and len(length) < 20 else None
    if announced is not None and announced > most:
        raise _too_large(where, f"{announced:,} bytes", most)
    digest, total, until = hashlib.sha256(), 0, time.monotonic() + WHOLE_TIMEOUT_S
    tell(0, announced)
    while piece := answer.raw.read(_PIECE, decode_content=False):
        total += len(piece)
        if total > most:
            raise _too_large(where, "more", most)
        if time.monotonic() > until:
            raise StreamproofError(f"{where} takes more than an hour.", remedy=_NO_NETWORK)
        digest.update(piece)
        into.write(piece)
        tell(total, announced)
    if announced is not None and total != announced:
        raise StreamproofError(f"{where} ended after {total:,} of {announced:,} bytes.", remedy="Try again.")
    return digest.hexdigest()


def _too_large(where: str, size: str, most: int) -> StreamproofError:
    return StreamproofError(
        f"{where} has {size}; at most {most:,} bytes are fetched.",
        remedy="No report of ours is as large. If you expect this one to be: --max-size.",
    )


_STATUS: Final = {
    404: "It is not there, or not for everybody: what needs a login, fetch yourself and name the file.",
    401: "It needs a login: fetch it yourself and name the file.",
    403: "It is not for everybody: fetch it yourself and name the file.",
    429: "It is asked too often: try again later.",
}
