"""The plan of an ablation: which configurations, how often, in which order. A folder's `plan.json`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from bench.explain.ablate.factors import Factor, with_factors
from bench.seeds import generator
from recipes.schema import Recipe

if TYPE_CHECKING:
    from collections.abc import Iterator

FULL: Final = "full"
BASE: Final = "base"

FEW_DEGREES: Final = 3
"""Of freedom: with fewer a 95 % interval is more than twice as wide as if the chance were known."""

MEASURE_S: Final = 15.0
"""What a point takes besides ramp, window and drain: priming, counters; and drains end early."""


class Configuration(BaseModel):
    """One thing to measure.

    Attributes:
        name: "base", "full", "with-mtp", "without-mtp".
        factors: slugs of those that are as the target has them.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    factors: tuple[str, ...]


class Planned(BaseModel):
    """One engine start. Blocks count from 1."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    block: int
    configuration: str

    def folder(self, position: int) -> str:
        """Where its report goes, below the ablation's folder."""
        return f"runs/{position:03d}-block{self.block}-{self.configuration}"


class AblationPlan(BaseModel):
    """Everything that an ablation will do.

    Attributes:
        base: recipe to start from. target: recipe to get to.
        factors: what is switched between them. What differs besides stays as the base has it.
        configurations: each is run once in every block.
        blocks: how often.
        seed: decides the order.
        order: of the engine starts.
        engine: who starts them, as for `just repro`; None takes what fits the target.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    schema_version: Literal["1.0"] = "1.0"
    base: Recipe
    target: Recipe
    factors: Annotated[tuple[Factor, ...], Field(min_length=1)]
    configurations: tuple[Configuration, ...]
    blocks: Annotated[int, Field(ge=1, le=100)]
    seed: int
    order: tuple[Planned, ...]
    engine: Literal["docker", "process"] | None = None

    def recipe(self, name: str) -> Recipe:
        """The recipe of a configuration."""
        found = next(each for each in self.configurations if each.name == name)
        return with_factors(self.base, self.target, [factor for factor in self.factors if factor.slug in found.factors])

    def added(self, slug: str) -> tuple[str, str]:
        """(before, after) of adding a factor first."""
        return BASE, self._named({slug})

    def removed(self, slug: str) -> tuple[str, str]:
        """(before, after) of adding a factor last; read backwards: of removing it from the full recipe."""
        return self._named({factor.slug for factor in self.factors} - {slug}), FULL

    def _named(self, slugs: set[str]) -> str:
        return next(each.name for each in self.configurations if set(each.factors) == slugs)

    @property
    def degrees(self) -> int:
        """Of freedom that tell an effect from chance, see `bench.stats.blocked`."""
        return (len(self.configurations) - 1) * (self.blocks - 1)

    @property
    def seconds_of_a_run(self) -> float:
        """Measured time of one engine start, about: without the start itself."""
        load = self.target.load
        return len(load.ladder) * (load.ramp_s + load.steady_s + MEASURE_S)


def make_plan(base: Recipe, target: Recipe, factors: tuple[Factor, ...], *, blocks: int, seed: int) -> AblationPlan:
    """Plans it.

    Every configuration once in each block, in an order of its own for each block. Two factors need four configurations
    (each one added first is the other one removed last), one factor two.
    """
    configurations = tuple(_configurations([factor.slug for factor in factors]))
    order = []
    for block in range(1, blocks + 1):
        names = [each.name for each in configurations]
        generator("ablation", seed, block).shuffle(names)
        order += [Planned(block=block, configuration=name) for name in names]
    return AblationPlan(
        base=base,
        target=target,
        factors=factors,
        configurations=configurations,
        blocks=blocks,
        seed=seed,
        order=tuple(order),
    )


def _configurations(slugs: list[str]) -> Iterator[Configuration]:
    names = {(): BASE, tuple(slugs): FULL}
    for slug in slugs:
        names.setdefault((slug,), f"with-{slug}")
    for slug in slugs:
        names.setdefault(tuple(other for other in slugs if other != slug), f"without-{slug}")
    for factors, name in names.items():
        yield Configuration(name=name, factors=factors)
