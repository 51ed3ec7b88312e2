"""Where a target's `config.json` is: named, beside its weights, on the hub, or the same shapes in this repository."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bench.errors import UsageError
from bench.explain.preflight.quantization import assumed_nvfp4
from bench.explain.preflight.shapes import ModelShapes, read_config, shapes_of
from quantize.checkpoint import REPOSITORY

if TYPE_CHECKING:
    from recipes.schema import Checkpoint

_SAME_SHAPES: Final = {"qwen3.5-35b-a3b": REPOSITORY / "quantize" / "shapes" / "qwen3.5-35b-a3b-fp8" / "config.json"}
"""A checkpoint whose name contains this has these shapes."""
_HUB_TIMEOUT_S: Final = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A model to plan for.

    Attributes:
        shapes: what decides memory and work.
        source: where they are from, for people.
        assumed: what was assumed because the checkpoint itself could not be asked; None where nothing was.
    """

    shapes: ModelShapes
    source: str
    assumed: str | None = None


def model_of(checkpoint: Checkpoint, *, config: Path | None = None, offline: bool = False) -> Model:
    """Finds the shapes of a recipe's checkpoint.

    Args:
        checkpoint: of the recipe.
        config: a `config.json` that was named; it wins.
        offline: do not ask the hub; what it gave before is taken all the same.

    Raises:
        UsageError: there is none, or it cannot be planned for.
    """
    if config is not None:
        path = config / "config.json" if config.is_dir() else config
        return Model(shapes=shapes_of(read_config(path), path.name), source=str(path))
    beside = REPOSITORY / checkpoint.name / "config.json"
    if checkpoint.kind != "hub" and beside.is_file():
        return Model(
            shapes=shapes_of(read_config(beside), f"{checkpoint.name}/config.json"),
            source=f"{checkpoint.name}/config.json",
        )
    if checkpoint.kind == "hub" and (found := _from_hub(checkpoint, offline=offline)) is not None:
        return Model(shapes=shapes_of(found, f"{checkpoint.name}, config.json"), source=f"the hub's {checkpoint.name}")
    return _same_shapes(checkpoint)


def _same_shapes(checkpoint: Checkpoint) -> Model:
    name = checkpoint.name.lower()
    path = next((path for part, path in _SAME_SHAPES.items() if part in name), None)
    if path is None:
        raise UsageError(
            f"the configuration of {checkpoint.name} is not here and could not be fetched.",
            remedy="Name its config.json with --config PATH.",
        )
    shapes = shapes_of(read_config(path), path.parent.name)
    if checkpoint.precision == "nvfp4":
        shapes = replace(shapes, quantization=assumed_nvfp4())
    elif checkpoint.precision == "bf16":
        shapes = replace(shapes, quantization=replace(shapes.quantization, scheme="bf16", why="the recipe says bf16"))
    stored = "" if checkpoint.precision == "fp8" else f" ({shapes.quantization.why})"
    return Model(
        shapes=shapes,
        source=str(path.relative_to(REPOSITORY)),
        assumed=f"{checkpoint.name} could not be asked: shapes of the same model in {path.parent.name}, "
        f"{checkpoint.precision} weights{stored}",
    )


def _from_hub(checkpoint: Checkpoint, *, offline: bool) -> dict[str, Any] | None:
    """The hub's config.json; None where it cannot be had now.

    Asked once: the hub's own client would try again for half a minute where there is no network.
    """
    # Imported here: half a second that only hub checkpoints need to spend.
    import requests  # noqa: PLC0415  as above
    from huggingface_hub import get_token, hf_hub_url, try_to_load_from_cache  # noqa: PLC0415

    cached = try_to_load_from_cache(checkpoint.name, "config.json", revision=checkpoint.revision)
    if isinstance(cached, str):
        return read_config(Path(cached))
    if offline:
        return None
    url = hf_hub_url(checkpoint.name, "config.json", revision=checkpoint.revision)
    token = get_token()
    headers = {"authorization": f"Bearer {token}"} if token else {}
    try:
        reply = requests.get(url, headers=headers, timeout=_HUB_TIMEOUT_S)
        reply.raise_for_status()
        found = reply.json()
    except (requests.RequestException, ValueError):
        return None
    return found if isinstance(found, dict) else None
