"""One of the two models, measured: what is kept of it, so that the other can be measured later, or on another day.

A side's folder holds `side.json` and `scores.npz`. It is taken again only where checkpoint and settings are the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

from pydantic import ValidationError

from bench.errors import StreamproofError
from bench.workload import VERSION
from quantize.quality.served import EngineFacts, LoadedTensors, Part, Repeat, Replies
from recipes.schema import Workload

if TYPE_CHECKING:
    from pathlib import Path

RECORD: Final = "side.json"
SCORES: Final = "scores.npz"


class Settings(Part):
    """What decides a side's figures besides its checkpoint.

    Attributes:
        method: "vllm" or "transformers".
        workload: lengths and agents of the texts.
        workload_version: of their wording.
        seed, texts: which texts.
        top_k: most likely tokens known of each position.
        scored: whether log-probabilities were asked for.
        flags: of the engine, as `--name value` words without the model; empty with transformers and for a server that
            was already there.
    """

    method: Literal["vllm", "transformers"]
    workload: Workload
    workload_version: str = VERSION
    seed: int
    texts: int
    top_k: int
    scored: bool
    flags: tuple[str, ...]


class Side(Part):
    """What one model showed.

    Attributes:
        settings: see there.
        checkpoint: digest of its folder; None for a server of which nobody said what it serves.
        logged: the engine's log was read.
        tracked: it was started with the weights tracker on.
        engine: what it said; None with transformers.
        told_method: its log says which quantization method it resolved.
        drafting: it was told to draft.
        experts, decoder, drafter: what it loaded; None where it did not say.
        replies, repeat: what its requests showed; None with transformers.
        drafts: of each text: drafts, then accepted by position; None where it drafts nothing.
    """

    settings: Settings
    checkpoint: str | None
    engine: EngineFacts | None
    logged: bool = False
    tracked: bool = False
    told_method: bool = False
    drafting: bool = False
    experts: LoadedTensors | None = None
    decoder: LoadedTensors | None = None
    drafter: LoadedTensors | None = None
    replies: Replies | None = None
    repeat: Repeat | None = None
    drafts: tuple[tuple[int, ...], ...] | None = None


def kept_side(folder: Path, settings: Settings, checkpoint: str | None) -> Side | None:
    """The side that a folder holds, if it is of this checkpoint and these settings.

    Raises:
        StreamproofError: the folder holds something else under that name.
    """
    path = folder / RECORD
    try:
        side = Side.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValidationError) as error:
        raise StreamproofError(f"{path} cannot be used: {error}", remedy=f"Remove {folder}.") from error
    same = checkpoint is not None and (side.settings, side.checkpoint) == (settings, checkpoint)
    whole = not settings.scored or (folder / SCORES).is_file()
    return side if same and whole else None
