"""From a recipe's checkpoint to files: what the engine loads, which tokenizer counts, and the hash that pins both."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.errors import StreamproofError
from bench.report.keys import trusted_keys
from quantize.attested import check_attested
from quantize.hashes import Hashes
from recipes.fingerprint import folder_sha256
from recipes.schema import Checkpoint

REPOSITORY: Final = Path(__file__).resolve().parents[1]
TOY: Final = REPOSITORY / "quantize" / "toy" / "checkpoint"
TOKENIZER_FILES: Final = ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "config.json")


@dataclass(frozen=True, kw_only=True)
class ResolvedCheckpoint:
    """Where a checkpoint is.

    Attributes:
        model: what the engine is told to load: a folder, or a hub repository.
        tokenizer: folder with tokenizer.json and the chat template that count the prompts.
        revision: commit of a hub repository, else None.
        sha256: over all files of a folder (`recipes.fingerprint.folder_sha256`); for a hub repository None, since its
            commit pins it.
        vocab_size: of the model, from its configuration; None where the tokenizer is the model's own.
    """

    model: str
    tokenizer: Path
    revision: str | None
    sha256: str | None
    vocab_size: int | None = None


def resolve(checkpoint: Checkpoint) -> ResolvedCheckpoint:
    """Finds a checkpoint, and downloads no more than a tokenizer: weights are the engine's to load.

    Raises:
        StreamproofError: the folder is not there, a quantized checkpoint was not audited and signed, or the hub cannot
            be reached or does not have it.
    """
    if checkpoint.kind == "hub":
        return _from_hub(checkpoint)
    folder = REPOSITORY / checkpoint.name
    if not (folder / "config.json").is_file():
        raise StreamproofError(
            f"The checkpoint {checkpoint.name} is not there: {folder / 'config.json'} does not exist.",
            remedy=_missing_remedy(checkpoint),
        )
    if checkpoint.kind == "quantized" and not checkpoint.unaudited:
        return ResolvedCheckpoint(model=str(folder), tokenizer=folder, revision=None, sha256=_attested_sha256(folder))
    digest = folder_sha256(folder)
    if checkpoint.kind == "dummy":
        config = json.loads((folder / "config.json").read_text())
        size = config.get("text_config", config)["vocab_size"]
        return ResolvedCheckpoint(model=str(folder), tokenizer=TOY, revision=None, sha256=digest, vocab_size=size)
    return ResolvedCheckpoint(model=str(folder), tokenizer=folder, revision=None, sha256=digest)


def _missing_remedy(checkpoint: Checkpoint) -> str:
    if checkpoint.kind == "quantized":
        return "Make it with `just quantize`, or name another folder with --set checkpoint.name=..."
    if checkpoint.kind == "folder":
        return (
            "Name the folder that has the checkpoint's config.json, absolute or from the recipe's own file: "
            "checkpoint.name."
        )
    return f"It belongs to the repository: git checkout -- {checkpoint.name}"


def _attested_sha256(folder: Path) -> str:
    """The hash over a checkpoint that was audited and signed.

    As `folder_sha256`, but without the signature: who makes the same checkpoint again has the same fingerprint.

    Raises:
        StreamproofError: it was not, or its files are not those.
    """
    trusted = trusted_keys(allow_list=REPOSITORY / "keys")
    digests = check_attested(folder, trusted, hashes=Hashes(None)).digests
    return hashlib.sha256("".join(f"{digests[name]}  {name}\n" for name in sorted(digests)).encode()).hexdigest()


def _from_hub(checkpoint: Checkpoint) -> ResolvedCheckpoint:
    # Imported here: half a second that only hub checkpoints need to spend.
    import httpx2  # noqa: PLC0415  as above
    from huggingface_hub import HfApi, snapshot_download  # noqa: PLC0415
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError, RepositoryNotFoundError  # noqa: PLC0415

    try:
        revision = checkpoint.revision or HfApi().model_info(checkpoint.name).sha
        folder = snapshot_download(checkpoint.name, revision=revision, allow_patterns=list(TOKENIZER_FILES))
    except RepositoryNotFoundError as error:
        raise StreamproofError(
            f"The hub has no repository {checkpoint.name}, or it is private or gated.",
            remedy="Check the name; for a gated one accept its terms and set HF_TOKEN.",
        ) from error
    except (HfHubHTTPError, LocalEntryNotFoundError, httpx2.HTTPError, OSError) as error:
        raise StreamproofError(
            f"The hub cannot be reached for {checkpoint.name}: {type(error).__name__}.",
            remedy="Give the host network access, or download the repository elsewhere and name the folder: "
            "--set checkpoint.kind=folder --set checkpoint.name=/path/to/folder",
        ) from error
    return ResolvedCheckpoint(model=checkpoint.name, tokenizer=Path(folder), revision=revision, sha256=None)
