"""Files at a release: what is there, and how one gets there whole.

An upload that fails can leave an empty asset in the state "starter" that holds the name
(https://docs.github.com/en/rest/releases/assets, "Upload a release asset"): it is removed and uploaded again. And one
whose answer was lost may have arrived: what is there is looked at before anything is sent again.
"""

from __future__ import annotations

import hashlib
import io
import itertools
import time
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import requests
from github import GithubException, UnknownObjectException

from bench.errors import StreamproofError
from bench.release.client import Upload
from bench.release.told import AGAIN, told

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from github.GitRelease import GitRelease
    from github.GitReleaseAsset import GitReleaseAsset

    from bench.release.client import Client
    from bench.release.notes import Asset

    Tell: TypeAlias = Callable[[int], None]
    """Told how many bytes of a file have gone through."""

UPLOADED: Final = "uploaded"
"""State of an asset that is whole."""
Action: TypeAlias = Literal["upload", "leave alone", "replace", "complete", "conflict"]
"""`complete`: an upload that was cut off is removed and made again. `conflict`: another file has the name."""

_PIECE: Final = 1 << 20


class DamagedError(StreamproofError):
    """What arrived is not what was sent. It was removed."""


class ConflictError(StreamproofError):
    """A release has other files under names of ours.

    Args:
        names: of the files.
    """

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__(
            f"the release has other files of these names: {', '.join(names)}",
            remedy="A published file is replaced only with --replace. The hashes and the picture are of all reports of "
            "one release: to add a report, name the earlier ones too, and give --replace.",
        )


class _Watched(io.FileIO):
    """A file that tells how far it has been read."""

    def __init__(self, path: str, tell: Tell) -> None:
        super().__init__(path, "rb")
        self._tell = tell

    def read(self, size: int | None = -1, /) -> bytes:
        piece = super().read(size)
        self._tell(self.tell())
        return piece or b""


class Shelf:
    """The assets of one release.

    Args:
        client: open.
        release: the release.
    """

    def __init__(self, client: Client, release: GitRelease) -> None:
        self._client = client
        self._release = release

    def found(self) -> dict[str, GitReleaseAsset]:
        """Everything that is there now, by name."""
        with told(self._client.place, "listing the assets"):
            return {asset.name: asset for asset in self._release.get_assets()}

    def action(self, asset: Asset, there: GitReleaseAsset | None, *, replace: bool, tell: Tell) -> Action:
        """What has to be done for one file.

        Args:
            asset: the file.
            there: what has its name.
            replace: another file may be replaced.
            tell: progress, where the content has to be downloaded to know it.
        """
        if there is None:
            return "upload"
        if there.state != UPLOADED:
            return "complete"
        if there.size == asset.size and (_said(there) or self._download_digest(there, tell)) == asset.sha256:
            return "leave alone"
        return "replace" if replace else "conflict"

    def remove(self, there: GitReleaseAsset) -> None:
        """Deletes an asset; one that is gone already is gone."""
        with told(self._client.place, f"removing {there.name}"):
            try:
                there.delete_asset()
            except UnknownObjectException:
                return

    def put(self, asset: Asset, tell: Tell) -> GitReleaseAsset:
        """Uploads a file whose name is free, until GitHub has it whole and gives it back unchanged.

        Raises:
            StreamproofError: it cannot be done.
        """
        patience = self._client.patience
        for attempt in itertools.count(1):
            try:
                there = None if attempt == 1 else self._left_by_failure(asset, tell)
                return self._checked(asset, there or self._send(asset, tell), tell)
            except StreamproofError as error:
                if attempt == patience.attempts or not _worth_another_try(error):
                    raise
            time.sleep(patience.before(attempt))
        raise AssertionError("it counts for ever")

    def _send(self, asset: Asset, tell: Tell) -> GitReleaseAsset:
        what = Upload(asset.name, asset.media_type, asset.size)
        with told(self._client.place, f"uploading {asset.name}"), _Watched(str(asset.path), tell) as content:
            return self._client.upload(self._release, what, content)

    def _left_by_failure(self, asset: Asset, tell: Tell) -> GitReleaseAsset | None:
        """What an upload without a good answer has left: the whole file, or a rest that is removed."""
        there = self.found().get(asset.name)
        if there is None:
            return None
        action = self.action(asset, there, replace=False, tell=tell)
        if action == "leave alone":
            return there
        if action == "conflict":
            raise ConflictError([asset.name])
        self.remove(there)
        return None

    def _checked(self, asset: Asset, there: GitReleaseAsset, tell: Tell) -> GitReleaseAsset:
        """Compares what GitHub says that it has, and then what it gives back, with the file."""
        wrong = [
            *([f"in the state {there.state!r}"] if there.state != UPLOADED else []),
            *([f"with {there.size:,} bytes instead of {asset.size:,}"] if there.size != asset.size else []),
            *([f"with the SHA-256 {_said(there)}"] if _said(there) not in (None, asset.sha256) else []),
        ]
        if not wrong and (digest := self._download_digest(there, tell)) != asset.sha256:
            wrong = [f"and comes back with the SHA-256 {digest}"]
        if wrong:
            self.remove(there)
            raise DamagedError(
                f"{asset.name} arrived damaged at {self._client.place.repository}: {', '.join(wrong)}",
                remedy=f"It is removed there. {AGAIN}",
            )
        return there

    def _download_digest(self, there: GitReleaseAsset, tell: Tell) -> str:
        """SHA-256 of the content as anybody gets it; a download that breaks off is begun again."""
        patience = self._client.patience
        with told(self._client.place, f"downloading {there.name}"):
            for attempt in itertools.count(1):
                try:
                    return self._downloaded(there, tell)
                except (requests.ConnectionError, requests.exceptions.ChunkedEncodingError):
                    if attempt == patience.attempts:
                        raise
                time.sleep(patience.before(attempt))
        raise AssertionError("it counts for ever")

    def _downloaded(self, there: GitReleaseAsset, tell: Tell) -> str:
        digest, size = hashlib.sha256(), 0
        with self._client.download(there) as response:
            for piece in response.iter_content(_PIECE):
                digest.update(piece)
                size += len(piece)
                tell(size)
        return digest.hexdigest()


def _said(there: GitReleaseAsset) -> str | None:
    """The digest that the API gives (GitHub does since June 2025); None where it gives none."""
    kind, _, digest = (there.digest or "").partition(":")
    return digest.lower() if kind == "sha256" else None


def _worth_another_try(error: StreamproofError) -> bool:
    """A failure of the server or of the way; and a name that is taken, which shows what an earlier try has left."""
    cause = error.__cause__
    if isinstance(cause, GithubException):
        taken = cause.status == 422 and "already_exists" in str(cause.data)
        return taken or cause.status >= 500
    return isinstance(error, DamagedError) or isinstance(cause, requests.RequestException)
