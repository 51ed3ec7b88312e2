"""From a recipe's checkpoint to files: what the engine loads, which tokenizer counts, and the hash that pins both."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.errors import StreamproofError
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
        StreamproofError: the folder is not there, or the hub cannot be reached or does not have it.
    """
    if checkpoint.kind == "hub":
        return _from_hub(checkpoint)
    folder = REPOSITORY / checkpoint.name
    if not (folder / "config.json").is_file():
        raise StreamproofError(
            f"The checkpoint {checkpoint.name} is not there: {folder / 'config.json'} does not exist.",
            remedy="Put the quantized checkpoint there, or name another folder with --set checkpoint.name=..."
            if checkpoint.kind == "quantized"
            else f"It belongs to the repository: git checkout -- {checkpoint.name}",
        )
    digest = folder_sha256(folder)
    if checkpoint.kind == "dummy":
        config = json.loads((folder / "config.json").read_text())
        size = config.get("text_config", config)["vocab_size"]
        return ResolvedCheckpoint(model=str(folder), tokenizer=TOY, revision=None, sha256=digest, vocab_size=size)
    return ResolvedCheckpoint(model=str(folder), tokenizer=folder, revision=None, sha256=digest)


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
            "--set checkpoint.kind=bundled --set checkpoint.name=/path/to/folder",
        ) from error
    return ResolvedCheckpoint(model=checkpoint.name, tokenizer=Path(folder), revision=revision, sha256=None)
