"""What GitHub or the network says against it, as an error of ours: what was wrong, where, and what to do."""

from __future__ import annotations

from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import requests
from github import GithubException, RateLimitExceededException

from bench.errors import StreamproofError
from bench.release.place import HOW_TO_GET_A_TOKEN, TOKEN
from bench.report.verify_text import printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench.release.place import Place

AGAIN: Final = "Run the same command again: what is done is left alone."
_LETTERS: Final = 300
"""Of what a server says, at most."""


@contextmanager
def told(place: Place, doing: str) -> Iterator[None]:
    """Turns what PyGithub and requests raise into an error for people.

    Args:
        place: where it happened.
        doing: what was being done ("uploading x.zip"), for the message.

    Raises:
        StreamproofError: in the place of the other one.
    """
    try:
        yield
    except GithubException as error:
        raise _of_answer(error, place, doing) from error
    except requests.RequestException as error:
        raise _of_network(error, place, doing) from error


def says(error: GithubException) -> str:
    """GitHub's own words: the message, and the codes of its single errors."""
    data = error.data if isinstance(error.data, dict) else {}
    listed = data.get("errors")
    codes = (
        [str(each.get("message") or each.get("code")) for each in listed or () if isinstance(each, dict)]
        if isinstance(listed, list)
        else []
    )
    words = str(data.get("message") or data.get("data") or "no message")
    return printable(f"{words} ({', '.join(codes)})" if codes else words, _LETTERS)


def _of_answer(error: GithubException, place: Place, doing: str) -> StreamproofError:
    where = f"{place.repository} at {place.api}"
    answer = f"{doing}: {where} answers {error.status}: {says(error)}"
    if isinstance(error, RateLimitExceededException) or error.status == 429:
        return StreamproofError(answer, remedy=f"{_until(error)}Then: {AGAIN[0].lower()}{AGAIN[1:]}")
    remedies = {
        401: f"The token in {TOKEN} is wrong, expired or revoked. {HOW_TO_GET_A_TOKEN}",
        403: f"The token in {TOKEN} may not do this. {HOW_TO_GET_A_TOKEN}",
        404: f"There is no such thing, or the token in {TOKEN} cannot see it. {HOW_TO_GET_A_TOKEN}",
        422: "A release that is immutable takes no more files; otherwise see what GitHub names.",
    }
    return StreamproofError(answer, remedy=remedies.get(error.status, f"GitHub has a trouble of its own. {AGAIN}"))


def _until(error: GithubException) -> str:
    """When a limit ends, as far as the answer says it."""
    headers = {name.lower(): value for name, value in (error.headers or {}).items()}
    if headers.get("retry-after", "").isdigit():
        return f"Wait {headers['retry-after']} s. "
    if headers.get("x-ratelimit-reset", "").isdigit():
        end = datetime.fromtimestamp(int(headers["x-ratelimit-reset"]), UTC)
        return f"The limit ends at {end:%Y-%m-%d %H:%M:%S} UTC. "
    return "Wait some minutes. "


def _of_network(error: requests.RequestException, place: Place, doing: str) -> StreamproofError:
    response = error.response
    if response is not None:
        reason = f"the storage answers {response.status_code}"
    elif isinstance(error, requests.exceptions.RetryError):
        reason = "it answers with an error each time"
    elif isinstance(error, requests.Timeout):
        reason = "no answer in time"
    elif isinstance(error, requests.exceptions.SSLError):
        reason = f"its certificate is not accepted: {error}"
    else:
        reason = f"the connection fails: {error}"
    remedy = "Check the network, HTTPS_PROXY and --api-url. A certificate authority of your own: REQUESTS_CA_BUNDLE. "
    return StreamproofError(f"{doing}: {place.api}: {printable(reason, _LETTERS)}", remedy=f"{remedy}{AGAIN}")
