"""What to quantize and how: one TOML per target, with a strict schema, and `--set KEY=VALUE` as in recipes."""

from __future__ import annotations

import difflib
import re
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeAlias

from pydantic import Field, ValidationError, model_validator

from bench.errors import UsageError
from recipes.layers import Layer, flatten, read_overrides, unflatten
from recipes.schema import Positive, Strict

if TYPE_CHECKING:
    from collections.abc import Mapping

TARGETS: Final = Path(__file__).parent / "targets"
DEFAULT: Final = "qwen3.5-35b-a3b"
MIXED: Final = "nvfp4_experts_fp8_rest"
COMMIT: Final = re.compile(r"[0-9a-f]{40}")

Preset: TypeAlias = Literal["nvfp4_experts_only", "nvfp4_mlp_only", "nvfp4", "nvfp4_experts_fp8_rest"]
KvCache: TypeAlias = Literal["fp8", "fp8_cast", "none"]


class SourceSpec(Strict):
    """Which weights, in BF16.

    Attributes:
        repository: on the hub.
        revision: its commit, 40 digits. Anything else is kept here and refused by `fetch`, which can ask the hub.
        folder: a folder instead of the hub, relative to the repository of this project.
    """

    repository: str | None = None
    revision: str | None = None
    folder: str | None = None

    @model_validator(mode="after")
    def _one_place(self) -> SourceSpec:
        if (self.repository is None) == (self.folder is None):
            raise ValueError("source needs either repository or folder")
        return self


class Calibration(Strict):
    """What the ranges are measured on.

    Attributes:
        recipe: calls of this recipe's workload; its model is not asked.
        dataset: instead, a JSONL file with "text", "messages" or "token_ids" in every line.
        samples: token sequences.
        tokens: length of each.
        seed: of the calls, or of the order of the dataset's lines.
        batch_tokens: tokens in one forward pass: more is faster and needs more memory.
        save_every: decoder layers between two copies of the activations that a later attempt can go on from.
    """

    recipe: str | None = None
    dataset: str | None = None
    samples: Positive
    tokens: Annotated[int, Field(ge=16)]
    seed: Annotated[int, Field(ge=0)]
    batch_tokens: Positive
    save_every: Positive = 10

    @model_validator(mode="after")
    def _one_text(self) -> Calibration:
        if (self.recipe is None) == (self.dataset is None):
            raise ValueError("calibration needs either recipe or dataset")
        return self


class Target(Strict):
    """A checkpoint to make.

    Attributes:
        title: for people.
        name: of the checkpoint's folder.
        preset: which linears become NVFP4. `nvfp4_experts_fp8_rest` mixes formats: the engine takes that as
            `modelopt_mixed` only.
        kv_cache: "fp8" measures scales for keys and values; "fp8_cast" leaves them at 1; "none" keeps BF16.
        source: see there.
        calibration: see there.
        overridden: keys that the command line set.
    """

    title: str
    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=96)]
    preset: Preset
    kv_cache: KvCache
    source: SourceSpec
    calibration: Calibration
    overridden: Annotated[list[str], Field(default_factory=list)]

    @property
    def is_mixed(self) -> bool:
        """Whether more than one weight format comes out."""
        return self.preset == MIXED


def targets(folder: Path = TARGETS) -> list[str]:
    """Names of all targets, in alphabetical order."""
    return sorted(path.stem for path in folder.glob("*.toml"))


def load_target(name: str, overrides: Mapping[str, str] | None = None, *, folder: Path = TARGETS) -> Target:
    """Resolves a target.

    Args:
        name: of a target in `folder`, or the path of a TOML file.
        overrides: dotted key to value, as written after `--set`.
        folder: where named targets are.

    Raises:
        UsageError: there is no such target, or it has an unknown key or a bad value.
    """
    path = Path(name) if name.endswith(".toml") else folder / f"{name}.toml"
    if not path.is_file():
        near = difflib.get_close_matches(name, targets(folder), n=1)
        hint = f"Did you mean {near[0]}? " if near else ""
        raise UsageError(f"There is no target {name}.", remedy=f"{hint}Targets: {', '.join(targets(folder))}.")
    text = path.read_text(encoding="utf-8")
    try:
        leaves = dict(flatten(tomllib.loads(text)))
    except tomllib.TOMLDecodeError as error:
        raise UsageError(f"{path.name} is not TOML: {error}", remedy="Correct that line.") from error
    chosen = read_overrides(overrides or {}).values
    for key in chosen:
        for other in _instead_of(key):  # one place of two: to name one is to leave the other
            leaves.pop(other, None)
    raw = {**unflatten(leaves | chosen), "overridden": sorted(chosen)}
    try:
        return Target.model_validate(raw)
    except ValidationError as error:
        raise _explain(error, Layer(origin=path.name, text=text), set(chosen)) from error


_EITHER_OR: Final = (
    ("source.folder", "source.repository"),
    ("source.folder", "source.revision"),
    ("calibration.recipe", "calibration.dataset"),
)


def _instead_of(key: str) -> list[str]:
    return [b if key == a else a for a, b in _EITHER_OR if key in (a, b)]


def _explain(error: ValidationError, layer: Layer, chosen: set[str]) -> UsageError:
    """The first mistake, with its place and a remedy."""
    first: Any = error.errors()[0]
    key = ".".join(str(part) for part in first["loc"])
    place = "--set" if key in chosen else layer.where(key)
    if first["type"] == "extra_forbidden":
        return UsageError(f"{place}: unknown key {key}.", remedy=f"Known keys: {', '.join(_known())}.")
    if first["type"] == "missing":
        return UsageError(f"{place}: {key} is missing.", remedy=f"Add it to {layer.origin}.")
    got = "" if isinstance(first["input"], dict) else f" (got {first['input']!r})"
    return UsageError(f"{place}: {key or 'the target'}: {first['msg'].removeprefix('Value error, ')}{got}.")


def _known() -> list[str]:
    nested: dict[str, type[Strict]] = {"source": SourceSpec, "calibration": Calibration}
    own = [name for name in Target.model_fields if name not in (*nested, "overridden")]
    return own + [f"{table}.{name}" for table, model in nested.items() for name in model.model_fields]
