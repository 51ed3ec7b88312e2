"""The folders of the two checkpoints, and how each is served."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bench.engine.pins import REPOSITORY
from bench.errors import UsageError
from quantize.checkpoint import TOY
from recipes.command import engine_arguments

if TYPE_CHECKING:
    from collections.abc import Mapping

    from recipes.schema import FlagValue, Recipe

MOST_TOKENS: Final = 4096
"""Of a step, while log-probabilities of prompts are asked for: the engine then makes the logits of every token of the
step, in float32 several times over. With 248,320 tokens in the vocabulary that is 4 GB each at 4,096 and 16 GB at the
article's 16,384, beyond what the engine leaves free."""
TRACKED: Final = {"enable_weights_track": True}
PRECISION_FLAGS: Final = frozenset({"quantization", "kv_cache_dtype"})
"""What makes a recipe serve a quantized checkpoint; the BF16 reference is served without."""
LARGEST_SHARE: Final = 0.85
"""Of a GPU's memory that the engine may take: the logits must fit beside it."""
_ALLOWED_LOGPROBS: Final = 20


@dataclass(frozen=True, slots=True)
class Place:
    """A checkpoint on this host.

    Attributes:
        folder: with its weights.
        tokenizer: folder of its tokenizer; of the project's toy where the checkpoint has none.
        vocab_size: of the model, where the tokenizer is not its own.
    """

    folder: Path
    tokenizer: Path
    vocab_size: int | None


def place(name: str) -> Place:
    """Finds a checkpoint's folder.

    Args:
        name: a path, from the working directory or from the repository.

    Raises:
        UsageError: there is no checkpoint.
    """
    folder = next((path for path in (Path(name), REPOSITORY / name) if (path / "config.json").is_file()), None)
    if folder is None:
        raise UsageError(
            f"{name} is no folder with a checkpoint: there is no {Path(name) / 'config.json'}",
            remedy="Name a folder; `just quantize` makes and fetches them.",
        )
    folder = folder.resolve()
    if (folder / "tokenizer.json").is_file():
        return Place(folder, folder, None)
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        size = int(config.get("text_config", config)["vocab_size"])
    except (ValueError, KeyError, AttributeError) as error:
        raise UsageError(
            f"{folder} has no tokenizer.json, and its config.json does not say how many tokens it knows",
            remedy="Put the model's tokenizer.json and tokenizer_config.json into the folder.",
        ) from error
    return Place(folder, TOY, size)


def serving_flags(recipe: Recipe, *, quantized: bool, top_k: int) -> dict[str, FlagValue]:
    """The engine's flags: the recipe's, but for what measuring needs.

    Args:
        recipe: whose engine it is.
        quantized: serve the quantized checkpoint; otherwise BF16 weights with a KV cache in BF16.
        top_k: most likely tokens that will be asked for.
    """
    flags: dict[str, FlagValue] = {
        name: value for name, value in recipe.engine.flags.items() if quantized or name not in PRECISION_FLAGS
    }
    flags.pop("load_format", None)  # weights from the folder, whatever the recipe does for latency
    flags["model_loader_extra_config"] = TRACKED
    most = flags.get("max_num_batched_tokens")
    flags["max_num_batched_tokens"] = min(most, MOST_TOKENS) if isinstance(most, int) else MOST_TOKENS
    if recipe.hardware.kind == "gpu":
        share = flags.get("gpu_memory_utilization")
        flags["gpu_memory_utilization"] = min(share, LARGEST_SHARE) if isinstance(share, float) else LARGEST_SHARE
    if top_k > _ALLOWED_LOGPROBS:
        flags["max_logprobs"] = top_k
    return flags


def arguments(recipe: Recipe, flags: Mapping[str, FlagValue], *, folder: Path, port: int) -> list[str]:
    """The engine's command line for one side."""
    engine = recipe.engine.model_copy(update={"flags": dict(flags)})
    checkpoint = recipe.checkpoint.model_copy(update={"revision": None})
    changed = recipe.model_copy(update={"engine": engine, "checkpoint": checkpoint})
    return engine_arguments(changed, model=str(folder), host="127.0.0.1", port=port)
