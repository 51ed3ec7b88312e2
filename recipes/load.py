"""From files and overrides to one resolved `Recipe`, or an error naming file, line, key and the nearest right one."""

from __future__ import annotations

import difflib
import typing
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, ValidationError

from bench.errors import UsageError
from recipes.layers import Layer, Leaf, read_layer, read_overrides, unflatten
from recipes.schema import Recipe, Source

RECIPES: Final = Path(__file__).parent
SOURCED: Final = ("hardware", "checkpoint", "engine", "workload", "load")
"""The tables that decide the number: each value in them has a source."""


@dataclass(frozen=True)
class _Placed:
    value: Leaf
    source: dict[str, Any] | None
    layer: Layer


def targets(folder: Path = RECIPES) -> list[str]:
    """Names of all targets in a folder, in alphabetical order; layers made only to be extended are left out."""
    return sorted(path.stem for path in folder.glob("*.toml") if not read_layer(path).abstract)


def load_recipe(target: str, overrides: Mapping[str, str] | None = None, *, folder: Path = RECIPES) -> Recipe:
    """Resolves a recipe.

    Args:
        target: name of a recipe in `folder`, or the path of a TOML file (what it extends may lie beside it or in
            `folder`).
        overrides: dotted key to value, as written after `--set`.
        folder: where named recipes are.

    Raises:
        UsageError: no such recipe, a cycle in `extends`, an unknown key, a bad value, a value without a source.
    """
    layers = _chain(target, folder)
    if layers[-1].abstract:
        raise UsageError(
            f"{layers[-1].origin} is a layer for others to extend, not a target.",
            remedy=f"Targets: {', '.join(targets(folder))}.",
        )
    layers.append(read_overrides(overrides or {}))
    placed = _merge(layers)
    claims = _claims(layers)
    if (ladder := placed.get("load.ladder")) is not None:
        placed["load.ladder"] = replace(ladder, value=_beside(ladder.layer.folder, ladder.value))
    kind, name = placed.get("checkpoint.kind"), placed.get("checkpoint.name")
    if kind is not None and kind.value == "folder" and name is not None and isinstance(name.value, str):
        placed["checkpoint.name"] = replace(name, value=_own_folder(name.layer.folder, name.value))
    raw = unflatten({key: entry.value for key, entry in placed.items()})
    raw |= {"target": Path(target).stem, "claims": claims, "overridden": sorted(layers[-1].values)}
    raw["sources"] = {key: entry.source for key, entry in placed.items() if entry.source is not None}
    try:
        recipe = Recipe.model_validate(raw)
    except ValidationError as error:
        raise _explain(error, placed, layers) from error
    _refuse_unsourced(placed, layers)
    return recipe


def _chain(target: str, folder: Path) -> list[Layer]:
    """The layers from the bottom one to the target's own."""
    path = Path(target) if target.endswith(".toml") else folder / f"{target}.toml"
    if not path.is_file():
        near = difflib.get_close_matches(target, targets(folder), n=1)
        hint = f"Did you mean {near[0]}? " if near else ""
        raise UsageError(f"There is no recipe {target}.", remedy=f"{hint}Targets: {', '.join(targets(folder))}.")
    layers = [read_layer(path)]
    seen = [path.resolve()]
    while (below := layers[0].extends) is not None:
        beside, named = path.parent / f"{below}.toml", folder / f"{below}.toml"
        path = beside if beside.is_file() else named
        if not path.is_file():
            raise UsageError(
                f"{layers[0].where('extends')}: extends {below!r}, and there is no {below}.toml.",
                remedy=f"Recipes there: {', '.join(sorted(p.stem for p in folder.glob('*.toml')))}.",
            )
        if path.resolve() in seen:
            cycle = " -> ".join([*(p.stem for p in seen), path.stem])
            raise UsageError(
                f"{layers[0].where('extends')}: extends goes in a circle: {cycle}.",
                remedy="Let one of them extend nothing.",
            )
        seen.append(path.resolve())
        layers.insert(0, read_layer(path))
    return layers


def _merge(layers: list[Layer]) -> dict[str, _Placed]:
    """Later layers win, value by value; a table that replaces a value (or the reverse) removes what it replaces.

    A flag of the engine that is set to an empty table (`speculative_config = {}`) is taken away: the engine's default
    rules again.
    """
    placed: dict[str, _Placed] = {}
    for layer in layers:
        if "checkpoint.name" in layer.values:
            placed.pop("checkpoint.revision", None)  # a commit of the repository that was named before
        for key, value in layer.values.items():
            for other in [k for k in placed if k.startswith(f"{key}.") or key.startswith(f"{k}.")]:
                del placed[other]
            if value == {} and key.startswith("engine.flags."):
                placed.pop(key, None)
            else:
                placed[key] = _Placed(value, _source_of(key, layer), layer)
    return placed


def _beside(folder: Path | None, ladder: Leaf) -> Leaf:
    """The ladder with the path of each trace that lies beside the recipe's file, and not in the working directory."""
    if folder is None or not isinstance(ladder, list):
        return ladder
    return [
        {**point, "trace": str(folder / trace)}
        if isinstance(point, dict)
        and isinstance(trace := point.get("trace"), str)
        and not Path(trace).is_file()
        and (folder / trace).is_file()
        else point
        for point in ladder
    ]


def _own_folder(beside: Path | None, name: str) -> str:
    """A checkpoint's own folder, named from the recipe's file: from the repository where it lies in it, else absolute.

    Reports have the name in them: what lies in the repository does not tell where that is.
    """
    path = ((beside or Path.cwd()) / name).resolve()
    root = RECIPES.parent
    return str(path.relative_to(root) if path.is_relative_to(root) else path)


def _claims(layers: list[Layer]) -> list[Any]:
    """The claims of all layers; one with the id of an earlier one takes its place."""
    claims: dict[object, Any] = {}
    for layer in layers:
        for number, claim in enumerate(layer.claims):
            # What has no id cannot take another's place; the schema refuses it with its number.
            claims[claim.get("id", (layer.origin, number)) if isinstance(claim, dict) else (layer.origin, number)] = (
                claim
            )
    return list(claims.values())


def _source_of(key: str, layer: Layer) -> dict[str, Any] | None:
    """The source that the layer itself gives for a key: its own, or that of the longest prefix."""
    parts = key.split(".")
    for end in range(len(parts), 0, -1):
        source = layer.sources.get(".".join(parts[:end]))
        if source is not None:
            return source
    return None


def _refuse_unsourced(placed: Mapping[str, _Placed], layers: list[Layer]) -> None:
    """A value without a source, and a source without a value, are both mistakes of the recipe."""
    for key, entry in placed.items():
        if key.split(".")[0] in SOURCED and entry.source is None:
            raise UsageError(
                f"{entry.layer.where(key)}: {key} has no source.",
                remedy=f'Say in the same file where it comes from: [sources] "{key}" = {{ kind = ..., why = ... }}; '
                f"kinds: {', '.join(typing.get_args(Source.model_fields['kind'].annotation))}.",
            )
    for layer in layers:
        for key in layer.sources:
            if not any(value == key or value.startswith(f"{key}.") for value in layer.values):
                raise UsageError(
                    f"{layer.where('sources')}: there is a source for {key}, which this file does not set.",
                    remedy="Remove it, or set the value here as well.",
                )


def _explain(error: ValidationError, placed: Mapping[str, _Placed], layers: list[Layer]) -> UsageError:
    """The first mistake, with its place and a remedy."""
    first = error.errors()[0]
    location = [str(part) for part in first["loc"]]
    key = ".".join(location)
    entry = next((placed[k] for k in placed if k == key or k.startswith(f"{key}.") or key.startswith(f"{k}.")), None)
    place = (entry.layer if entry else layers[-2]).where(key)
    if first["type"] == "extra_forbidden":
        known = _fields(Recipe, location[:-1])
        near = difflib.get_close_matches(location[-1], known, n=1)
        remedy = f"Did you mean {'.'.join([*location[:-1], near[0]])}?" if near else f"Known here: {', '.join(known)}."
        return UsageError(f"{place}: unknown key {key}.", remedy=remedy)
    if first["type"] == "missing":
        return UsageError(f"{place}: {key} is missing.", remedy=f"Add it to {layers[-2].origin}, or extend a recipe.")
    got = "" if isinstance(first["input"], dict) else f" (got {first['input']!r})"
    message = first["msg"].removeprefix("Value error, ")
    return UsageError(f"{place}: {key or 'the recipe'}: {message}{got}.")


def _fields(model: Any, path: list[str]) -> list[str]:  # noqa: ANN401  a type annotation of any form
    """Field names of the model found by walking `path` down from `model`; empty where the path leaves the models."""
    for part in path:
        model = _model_within(model)
        if model is not None and not part.isdigit():
            field = model.model_fields.get(part)
            model = field.annotation if field else None
    inner = _model_within(model)
    return sorted(inner.model_fields) if inner else []


def _model_within(annotation: Any) -> type[BaseModel] | None:  # noqa: ANN401  a type annotation of any form
    """The model that an annotation is, or holds: `Model`, `list[Model]`, `Model | None`, `Annotated[...]`."""
    if isinstance(annotation, type) and not typing.get_args(annotation):
        return annotation if issubclass(annotation, BaseModel) else None
    return next((found for part in typing.get_args(annotation) if (found := _model_within(part))), None)
