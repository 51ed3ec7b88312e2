"""A checkpoint's files, for a host that cannot download them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from bench.bundle.entries import folder_files
from bench.bundle.host.layout import HUB
from bench.engine.pins import REPOSITORY
from bench.errors import StreamproofError, UsageError

if TYPE_CHECKING:
    from bench.bundle.entries import Entry
    from recipes.schema import Checkpoint


def checkpoint_files(checkpoint: Checkpoint, client_prefix: str) -> list[Entry]:
    """The files of a recipe's checkpoint, weights included.

    Args:
        checkpoint: of the recipe.
        client_prefix: of the client's files in the bundle, for folders of the repository.

    Raises:
        UsageError: a hub checkpoint without its commit: the host could not ask which one it is. Or a folder outside of
            the checkout.
        StreamproofError: it is not there, or cannot be downloaded.
    """
    if checkpoint.kind == "hub":
        return _from_hub(checkpoint)
    if Path(checkpoint.name).is_absolute():
        raise UsageError(
            f"The checkpoint {checkpoint.name} lies outside of the checkout, and would not be found on the host.",
            remedy="Copy it into the checkout (checkpoints/ is ignored by git) and name it from there.",
        )
    folder = REPOSITORY / checkpoint.name
    if not (folder / "config.json").is_file():
        raise StreamproofError(
            f"The checkpoint {checkpoint.name} is not there: {folder / 'config.json'} does not exist.",
            remedy="Make it first (just quantize), or leave --with-checkpoint away.",
        )
    return folder_files(folder, f"{client_prefix}{checkpoint.name}/")


def _from_hub(checkpoint: Checkpoint) -> list[Entry]:
    from huggingface_hub import snapshot_download  # noqa: PLC0415  half a second that only hub checkpoints cost
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError  # noqa: PLC0415

    if checkpoint.revision is None:
        raise UsageError(
            f"{checkpoint.name} has no revision in the recipe: the host could not ask the hub which one is meant.",
            remedy="Name its commit: --set checkpoint.revision=<40 hex digits>",
        )
    try:
        snapshot = Path(snapshot_download(checkpoint.name, revision=checkpoint.revision))
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError) as error:
        raise StreamproofError(
            f"The hub cannot be reached for {checkpoint.name}: {type(error).__name__}.",
            remedy="Download it where there is network, or leave --with-checkpoint away.",
        ) from error
    folder = f"models--{checkpoint.name.replace('/', '--')}"
    return folder_files(snapshot, f"{HUB}/{folder}/snapshots/{checkpoint.revision}/")
