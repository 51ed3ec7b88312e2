"""What differs between two recipes, as factors that can be switched one at a time."""

from __future__ import annotations

import tomllib
from importlib.resources import files
from typing import TYPE_CHECKING, Annotated, Any, Final

from pydantic import BaseModel, ConfigDict, Field

from bench.errors import UsageError
from recipes.layers import flatten, unflatten
from recipes.schema import Recipe

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

TABLES: Final = ("checkpoint", "engine")
"""What a factor may switch. Workload and load are those of the target throughout, and one machine has one hardware."""
_NO_FACTOR: Final = ("engine.ready_timeout_s",)
"""Decides no latency: it is the target's throughout."""
TOGETHER: Final = "together"
"""Slug of several factors that are switched as one."""


class Factor(BaseModel):
    """Values that are switched together.

    Attributes:
        slug: short name, for options and folders.
        name: for people.
        keys: dotted keys that differ between the two recipes.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    slug: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]*$", max_length=60)]
    name: Annotated[str, Field(max_length=100)]
    keys: Annotated[tuple[str, ...], Field(min_length=1)]


def derive(base: Recipe, target: Recipe) -> tuple[Factor, ...]:
    """The factors between two recipes, in the order of `factors.toml`, then alphabetically.

    Raises:
        UsageError: nothing differs, or the hardware does.
    """
    if base.hardware != target.hardware:
        raise UsageError(
            f"{base.target} and {target.target} are for different hardware.",
            remedy="An ablation runs on one machine. Write a recipe that extends the target and has the base's flags, "
            "or measure each on its own card and use: just compare",
        )
    one, two = _values(base), _values(target)
    differing = sorted(key for key in one.keys() | two.keys() if one.get(key) != two.get(key) and key not in _NO_FACTOR)
    if not differing:
        raise UsageError(
            f"{base.target} and {target.target} serve alike: no flag, checkpoint or engine differs.",
            remedy="Name another recipe with --from.",
        )
    factors, left = [], list(differing)
    for slug, group in _groups().items():
        mine = [key for key in left if any(key == own or key.startswith(f"{own}.") for own in group["keys"])]
        if mine:
            factors.append(Factor(slug=slug, name=group["name"], keys=tuple(mine)))
            left = [key for key in left if key not in mine]
    return (*factors, *(Factor(slug=_slug(key), name=key, keys=(key,)) for key in left))


def choose(factors: tuple[Factor, ...], wanted: Collection[str]) -> tuple[Factor, ...]:
    """The factors of these slugs; all where none is named.

    Raises:
        UsageError: there is no such factor.
    """
    known = [factor.slug for factor in factors]
    if unknown := [slug for slug in wanted if slug not in known]:
        raise UsageError(f"--factors: there is no factor {unknown[0]}.", remedy=f"Factors here: {', '.join(known)}.")
    return tuple(factor for factor in factors if not wanted or factor.slug in wanted)


def as_one(factors: tuple[Factor, ...]) -> tuple[Factor, ...]:
    """These factors as a single one, which switches everything that they switch; one factor stays what it is."""
    if len(factors) == 1:
        return factors
    keys = tuple(key for factor in factors for key in factor.keys)
    return (Factor(slug=TOGETHER, name=", ".join(factor.slug for factor in factors)[:100], keys=keys),)


def with_factors(base: Recipe, target: Recipe, switched: Collection[Factor]) -> Recipe:
    """The base's serving with some factors as the target has them, under the target's workload and load.

    It carries no claims and runs its engine once: an ablation judges no published figure, and counts its own runs.

    Raises:
        UsageError: there is no such recipe: values that need each other are in different factors.
    """
    values, wanted = _values(base), _values(target)
    sources = dict(base.sources)
    for key in (*_NO_FACTOR, *(key for factor in switched for key in factor.keys)):
        values.pop(key, None)
        sources.pop(key, None)
        if key in wanted:
            # A table that takes a value's place, or the reverse, removes what it replaces.
            for other in [k for k in values if k.startswith(f"{key}.") or key.startswith(f"{k}.")]:
                del values[other]
            values[key] = wanted[key]
            if key in target.sources:
                sources[key] = target.sources[key]
    kept = {key: source for key, source in sources.items() if key.split(".")[0] in TABLES and _is_set(key, values)}
    of_target = {key: source for key, source in target.sources.items() if key.split(".")[0] not in TABLES}
    raw = target.model_dump(mode="json", exclude_none=True)
    raw |= unflatten(values)
    raw["engine"].setdefault("flags", {})
    raw |= {"claims": [], "overridden": []}
    raw["sources"] = {key: source.model_dump(exclude_none=True) for key, source in (of_target | kept).items()}
    raw["load"]["runs"] = 1
    try:
        return Recipe.model_validate(raw)
    except ValueError as error:
        names = ", ".join(factor.slug for factor in switched)
        raise UsageError(f"{base.target} with {names} as {target.target} has them is no recipe: {error}") from error


def _values(recipe: Recipe) -> dict[str, Any]:
    flat = flatten(recipe.model_dump(mode="json", exclude_none=True, include=set(TABLES)))
    return {key: value for key, value in flat if value != {}}


def _is_set(key: str, values: Mapping[str, Any]) -> bool:
    return any(value == key or value.startswith(f"{key}.") or key.startswith(f"{value}.") for value in values)


def _groups() -> dict[str, dict[str, Any]]:
    return tomllib.loads(files("bench.explain.ablate").joinpath("factors.toml").read_text(encoding="utf-8"))


def _slug(key: str) -> str:
    return key.removeprefix("engine.flags.").removeprefix("engine.").replace(".", "-").replace("_", "-").lower()[:60]
