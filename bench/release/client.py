"""PyGithub, with what an upload of measured evidence needs besides.

What can be asked twice without harm (GET, PATCH, DELETE) is repeated after a server error or a limit. A POST is
repeated only where the server has refused it outright: after a "502 Bad Gateway" nobody knows whether it was done.

Three things are done beside PyGithub 2.10, each because of what its source does: its connection to the upload host has
no timeout; it holds a whole download in memory; and it refuses to follow a redirect to the storage of a server that is
not github.com. All three go through the same `requests` underneath, with the same rules of repetition.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, Self
from urllib.parse import urlsplit

import requests
from github import Auth, Github, GithubRetry
from github.GitReleaseAsset import GitReleaseAsset
from github.Requester import HTTPRequestsConnectionClass, HTTPSRequestsConnectionClass
from requests.adapters import HTTPAdapter

from bench.errors import StreamproofError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import TracebackType
    from typing import BinaryIO

    from github.GitRelease import GitRelease
    from github.Repository import Repository

    from bench.release.patience import Patience
    from bench.release.place import Place

USER_AGENT: Final = "streamproof"
PER_PAGE: Final = 100
"""The most that the API gives at once."""
_REPEATABLE: Final = frozenset({"GET", "HEAD", "PATCH", "DELETE"})
_REFUSED: Final = [429]
"""Besides 403, which PyGithub's retry looks into: only a rate limit is worth another try."""


@dataclass(frozen=True, slots=True)
class Upload:
    """What is sent.

    Attributes:
        name: of the asset.
        media_type: of its content.
        size: bytes.
    """

    name: str
    media_type: str
    size: int


class Client:
    """An open connection to one repository.

    Args:
        place: the repository.
        token: of who attaches.
        patience: how long we wait.
    """

    def __init__(self, place: Place, token: str, patience: Patience) -> None:
        self.place = place
        self.patience = patience
        self._token = token
        self._asking = self._github(_retry(patience, range(500, 600), _REPEATABLE))
        self._once = _retry(patience, (), frozenset({"GET", "POST"}), read=False)
        self._adding = self._github(self._once, lazy=True)
        self._downloads = requests.Session()
        self._downloads.auth = _as_it_is
        for scheme in ("http://", "https://"):
            self._downloads.mount(scheme, HTTPAdapter(max_retries=_retry(patience, range(500, 600), _REPEATABLE)))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._asking.close()
        self._adding.close()
        self._downloads.close()

    def repository(self) -> Repository:
        """The repository, for everything but POST."""
        return self._asking.get_repo(self.place.repository)

    def create_draft(self, tag: str, name: str) -> GitRelease:
        """Makes a draft of a release. Its tag is made by GitHub when somebody publishes it."""
        made = self._adding.get_repo(self.place.repository).create_git_release(tag, name, "", draft=True)
        return self.repository().get_release(made.id)

    def upload(self, release: GitRelease, what: Upload, content: BinaryIO) -> GitReleaseAsset:
        """Sends one file, once.

        Args:
            release: that it is for.
            what: its name and size.
            content: open at its begin; PyGithub closes it.

        Raises:
            GithubException: GitHub has refused it, or has failed.
            requests.RequestException: the connection has failed.
            StreamproofError: the API names no safe address to upload to.
        """
        url = release.upload_url.split("{", 1)[0]
        parts = urlsplit(url)
        if parts.hostname is None or parts.scheme not in ("https", urlsplit(self.place.api).scheme):
            raise StreamproofError(f"{self.place.api} names {url!r} as the address for uploads: no token goes there")
        kind = HTTPSRequestsConnectionClass if parts.scheme == "https" else HTTPRequestsConnectionClass
        connection = kind(parts.hostname, parts.port, timeout=self.patience.timeout_s, retry=self._once)
        try:
            headers, data = self._adding.requester.requestMemoryBlobAndCheck(
                "POST",
                url,
                parameters={"name": what.name},
                headers={"Content-Type": what.media_type, "Content-Length": str(what.size)},
                file_like=content,
                cnx=connection,
            )
        finally:
            connection.close()
        return GitReleaseAsset(self._asking.requester, headers, data, completed=True)

    def download(self, asset: GitReleaseAsset) -> requests.Response:
        """The content of an asset, not yet read. The token goes to the API and never to where it sends us.

        Raises:
            requests.RequestException: no answer, or not this one.
        """
        response = self._downloads.get(
            asset.url,
            headers={
                "Accept": "application/octet-stream",
                "Accept-Encoding": "identity",
                "Authorization": f"Bearer {self._token}",
                "User-Agent": USER_AGENT,
            },
            stream=True,
            timeout=self.patience.timeout_s,
        )
        response.raise_for_status()
        return response

    def _github(self, retry: GithubRetry, *, lazy: bool = False) -> Github:
        return Github(
            auth=Auth.Token(self._token),
            base_url=self.place.api,
            user_agent=USER_AGENT,
            per_page=PER_PAGE,
            retry=retry,
            timeout=self.patience.timeout_s,
            lazy=lazy,
            seconds_between_requests=self.patience.between_s,
            seconds_between_writes=self.patience.between_writes_s,
        )


def _retry(
    patience: Patience, statuses: Iterable[int], methods: frozenset[str], *, read: Literal[False] | None = None
) -> GithubRetry:
    """The rules of repetition for some methods.

    Args:
        patience: how often, and how long.
        statuses: that are repeated besides limits.
        methods: that are repeated at all.
        read: False where a request that was sent, and not answered, is not repeated.
    """
    return GithubRetry(
        secondary_rate_wait=patience.secondary_wait_s,
        max_rate_limit_wait=patience.longest_wait_s,
        total=patience.attempts - 1,
        backoff_factor=patience.backoff_s,
        retry_after_max=patience.longest_wait_s,
        status_forcelist=[*_REFUSED, *statuses],
        allowed_methods=methods,
        read=read,
    )


def _as_it_is(request: requests.PreparedRequest) -> requests.PreparedRequest:
    """Without this `requests` would put a login of ~/.netrc in the place of the token."""
    return request
