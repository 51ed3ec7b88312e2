"""What the hub says of a repository at a commit, and its files, each checked against what it says."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from bench.errors import StreamproofError, UsageError
from bench.report.folder_files import file_sha256
from quantize.target import COMMIT

if TYPE_CHECKING:
    from pathlib import Path

_CHUNK: Final = 1 << 20


@dataclass(frozen=True, kw_only=True)
class HubFile:
    """A file of a repository.

    Attributes:
        size: bytes.
        sha256: of its content, for a large file; None for one that is kept in git itself.
        blob: its git object id, which is a SHA-1 over its content.
    """

    size: int
    sha256: str | None
    blob: str


def files_of(repository: str, revision: str | None) -> dict[str, HubFile]:
    """The files of a repository at a commit.

    Args:
        repository: its name.
        revision: a commit; anything else is refused, with the commit that it points to now.

    Raises:
        UsageError: the revision is no commit.
        StreamproofError: the repository is not there, not open, or the hub cannot be reached.
    """
    from huggingface_hub import HfApi  # noqa: PLC0415  half a second that a folder does not need

    if revision is None or not COMMIT.fullmatch(revision):
        raise _no_commit(repository, revision)
    with _in_words(repository):
        info = HfApi().model_info(repository, revision=revision, files_metadata=True)
    found = {}
    for file in info.siblings or []:
        if file.size is None or file.blob_id is None:
            raise StreamproofError(
                f"the hub does not say the size and hash of {repository}/{file.rfilename}",
                remedy="Download the repository by other means and name the folder: --source FOLDER",
            )
        sha256 = file.lfs.sha256 if file.lfs else None
        found[file.rfilename] = HubFile(size=file.size, sha256=sha256, blob=file.blob_id)
    return found


def _no_commit(repository: str, revision: str | None) -> UsageError:
    from huggingface_hub import HfApi  # noqa: PLC0415  as above

    what = "has no revision" if revision is None else f"has the revision {revision!r}, which is no 40-digit commit"
    advice = "Name the commit: --set source.revision=COMMIT"
    try:
        with _in_words(repository):
            commit = HfApi().model_info(repository, revision=revision).sha
        advice = f"{revision or 'main'} points to {commit} now: --set source.revision={commit}"
    except UsageError:
        raise
    except StreamproofError as error:
        advice += f" (the hub could not be asked for it: {error.message})"
    return UsageError(
        f"source {repository} {what}: a branch is something else tomorrow, and nobody could repeat this", remedy=advice
    )


def download(repository: str, revision: str, name: str, file: HubFile, folder: Path) -> Path:
    """Takes one file, going on where an earlier attempt stopped, and checks it.

    Returns:
        Its path, `folder/name`.

    Raises:
        StreamproofError: the hub cannot be reached, or what came is not what the hub says it has.
    """
    from huggingface_hub import hf_hub_download  # noqa: PLC0415  as above

    path = folder / name
    if not (path.is_file() and path.stat().st_size == file.size and is_whole(path, file)):
        path.unlink(missing_ok=True)
        with _in_words(repository):
            hf_hub_download(repository, name, revision=revision, local_dir=folder)
        if not is_whole(path, file):
            path.unlink()
            raise StreamproofError(
                f"{repository}/{name} came with other content than the hub says it has at {revision}; it was deleted",
                remedy="Run the command again. If it happens again, something between here and the hub changes files.",
            )
    return path


def is_whole(path: Path, file: HubFile) -> bool:
    """Whether a file has the content that the hub promised."""
    if file.sha256 is not None:
        return file_sha256(path) == file.sha256
    return git_blob(path) == file.blob


def git_blob(path: Path) -> str:
    """The git object id of a file: SHA-1 over "blob", its size, a NUL and its content (gitformat-pack)."""
    digest = hashlib.sha1(f"blob {path.stat().st_size}\0".encode(), usedforsecurity=False)
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


@contextmanager
def _in_words(repository: str) -> Iterator[None]:
    """Turns the hub client's errors into ours."""
    import httpx2  # noqa: PLC0415  as above
    from huggingface_hub.errors import (  # noqa: PLC0415  as above
        GatedRepoError,
        HfHubHTTPError,
        HFValidationError,
        LocalEntryNotFoundError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    try:
        yield
    except GatedRepoError as error:
        raise StreamproofError(
            f"the repository {repository} is gated: its owner wants its terms accepted first",
            remedy=f"Accept them at https://huggingface.co/{repository} and set HF_TOKEN to a token of that account.",
        ) from error
    except RepositoryNotFoundError as error:
        raise StreamproofError(
            f"the hub has no repository {repository}, or it is private",
            remedy="Check the name; for a private one set HF_TOKEN.",
        ) from error
    except RevisionNotFoundError as error:
        raise UsageError(
            f"the repository {repository} has no such revision", remedy="Check source.revision, a 40-digit commit."
        ) from error
    except HFValidationError as error:
        raise UsageError(f"{repository!r} is no name of a repository", remedy="It is OWNER/NAME.") from error
    except (HfHubHTTPError, LocalEntryNotFoundError, httpx2.HTTPError, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None and error.filename is not None:
            raise  # our own disk, not the hub
        raise StreamproofError(
            f"the hub cannot be reached for {repository}: {type(error).__name__}",
            remedy="Give the host network access, or download the repository elsewhere and name the folder: "
            "--source FOLDER",
        ) from error
