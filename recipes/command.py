"""The engine's command line, from the recipe alone."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from recipes.schema import FlagValue, Recipe


def engine_arguments(recipe: Recipe, *, model: str, host: str, port: int) -> list[str]:
    """Arguments for vLLM's OpenAI server.

    Args:
        recipe: resolved.
        model: folder of the checkpoint, or a hub repository.
        host: address to listen on.
        port: TCP port.

    Returns:
        Arguments without the program: the model, what every run sets (address, served name, revision), then the
        recipe's flags in the order in which they stand.
    """
    fixed: dict[str, FlagValue] = {"served_model_name": recipe.target, "host": host, "port": port}
    if recipe.checkpoint.revision is not None:
        fixed["revision"] = recipe.checkpoint.revision
    return ["--model", model, *_render(fixed), *_render(recipe.engine.flags)]


def shell_command(recipe: Recipe) -> list[str]:
    """The `vllm serve` command line as a person would type it: the model's name, then the recipe's flags."""
    revision: dict[str, FlagValue] = {"revision": recipe.checkpoint.revision} if recipe.checkpoint.revision else {}
    return ["vllm", "serve", recipe.checkpoint.name, *_render(revision), *_render(recipe.engine.flags)]


def _render(flags: Mapping[str, FlagValue]) -> Iterator[str]:
    for name, value in flags.items():
        option = name.replace("_", "-")
        if isinstance(value, bool):
            yield f"--{option}" if value else f"--no-{option}"
        elif isinstance(value, list):
            yield f"--{option}"
            yield from map(str, value)
        else:
            yield f"--{option}"
            yield json.dumps(value, separators=(",", ":")) if isinstance(value, dict) else str(value)
