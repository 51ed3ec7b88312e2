"""The plan of an ablation: which configurations, how often, in which order. A folder's `plan.json`."""

from __future__ import annotations

from itertools import cycle, islice
from typing import TYPE_CHECKING, Annotated, Final, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from bench.errors import UsageError
from bench.explain.ablate.adapt import Adapted, with_adapted
from bench.explain.ablate.factors import Factor, with_factors
from bench.seeds import generator
from recipes.schema import Recipe

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from random import Random

FULL: Final = "full"
BASE: Final = "base"

Only: TypeAlias = Literal["added", "removed"]
"""One direction: each factor added to the base, or each removed from the full recipe. N factors then need N + 1
configurations, and nothing tells which of them depend on each other."""

FEW_DEGREES: Final = 3
"""Of freedom: with fewer a 95 % interval is more than twice as wide as if the chance were known."""

MEASURE_S: Final = 15.0
"""What a point takes besides ramp, window and drain: priming, counters; and drains end early."""


class Configuration(BaseModel):
    """One thing to measure.

    Attributes:
        name: "base", "full", "with-mtp", "without-mtp".
        factors: slugs of those that are as the target has them.
        adapted: values that it has besides.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    factors: tuple[str, ...]
    adapted: tuple[Adapted, ...] = ()


class Planned(BaseModel):
    """One measurement. Blocks and groups count from 1.

    Attributes:
        block: it is in.
        configuration: that is measured.
        group: of configurations that are measured beside each other; everything is in one, unless the engines of all
            do not fit at once.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    block: int
    configuration: str
    group: int = 1

    def folder(self, position: int) -> str:
        """Where its report goes, below the ablation's folder."""
        return f"runs/{position:03d}-block{self.block}-{self.configuration}"


class AblationPlan(BaseModel):
    """Everything that an ablation will do.

    Attributes:
        base: recipe to start from. target: recipe to get to.
        factors: what is switched between them.
        rest: what differs besides, and is as the target has it throughout; anything else stays as the base has it.
        only: the one direction in which factors are switched; None for both.
        configurations: each is run once in every block.
        blocks: how often.
        seed: decides the order.
        order: of the measurements.
        resident: the engines of a group are started together, once, and stay; else every measurement starts its own.
        engine: who starts them, as for `just repro`; None takes what fits the target.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    schema_version: Literal["1.0"] = "1.0"
    base: Recipe
    target: Recipe
    factors: Annotated[tuple[Factor, ...], Field(min_length=1)]
    rest: tuple[Factor, ...] = ()
    only: Only | None = None
    configurations: tuple[Configuration, ...]
    blocks: Annotated[int, Field(ge=1, le=100)]
    seed: int
    order: tuple[Planned, ...]
    resident: bool = False
    engine: Literal["docker", "process"] | None = None

    def recipe(self, name: str) -> Recipe:
        """The recipe of a configuration."""
        found = next(each for each in self.configurations if each.name == name)
        switched = [factor for factor in self.factors if factor.slug in found.factors]
        recipe = with_adapted(with_factors(self.base, self.target, [*self.rest, *switched]), found.adapted)
        return recipe.model_copy(update={"title": f"{self.target.title}; ablation, {name}"})

    @property
    def besides(self) -> dict[str, tuple[Adapted, ...]]:
        """What configurations have besides their factors, by name; first, under "all", what they all have."""
        first, *others = self.configurations
        common = tuple(each for each in first.adapted if all(each in other.adapted for other in others))
        own = {each.name: tuple(one for one in each.adapted if one not in common) for each in self.configurations}
        return {name: adapted for name, adapted in {"all": common, **own}.items() if adapted}

    def added(self, slug: str) -> tuple[str, str] | None:
        """(before, after) of adding a factor first; None where that is not measured."""
        return None if self.only == "removed" else (BASE, self._named({slug}))

    def removed(self, slug: str) -> tuple[str, str] | None:
        """(before, after) of adding a factor last; read backwards: of removing it from the full recipe; likewise."""
        if self.only == "added":
            return None
        return self._named({factor.slug for factor in self.factors} - {slug}), FULL

    @property
    def total(self) -> tuple[str, str] | None:
        """(before, after) of all factors together; None where that is not measured."""
        return (BASE, FULL) if self.only is None else None

    @property
    def reference(self) -> str:
        """What every group holds."""
        return BASE if self.only == "added" else FULL

    def _named(self, slugs: set[str]) -> str:
        return next(each.name for each in self.configurations if set(each.factors) == slugs)

    @property
    def groups(self) -> dict[int, list[str]]:
        """Configurations that are measured beside each other, in the order of the plan."""
        found: dict[int, set[str]] = {}
        for planned in self.order:
            found.setdefault(planned.group, set()).add(planned.configuration)
        return {
            group: [each.name for each in self.configurations if each.name in names] for group, names in found.items()
        }

    @property
    def degrees(self) -> int:
        """Of freedom that tell an effect from chance in the smallest group, see `bench.stats.blocked`."""
        return (min(map(len, self.groups.values())) - 1) * (self.blocks - 1)

    @property
    def starts(self) -> int:
        """Engine starts, if nothing goes wrong."""
        return sum(map(len, self.groups.values())) if self.resident else len(self.order)

    @property
    def seconds_of_a_run(self) -> float:
        """Measured time of one measurement, about: without the start of its engine."""
        load = self.target.load
        return len(load.ladder) * (load.ramp_s + load.steady_s + MEASURE_S)


def make_plan(  # noqa: PLR0913  everything that decides it
    base: Recipe,
    target: Recipe,
    factors: tuple[Factor, ...],
    *,
    blocks: int,
    seed: int,
    rest: tuple[Factor, ...] = (),
    only: Only | None = None,
    at_once: int | None = None,
) -> AblationPlan:
    """Plans it.

    Every configuration once in each block, in orders that favour none (`balanced`). Two factors need four
    configurations (each one added first is the other one removed last), one factor two.

    Args:
        base: recipe to start from.
        target: recipe to get to.
        factors: what is switched.
        blocks: how often each configuration is measured.
        seed: decides the order.
        rest: see `AblationPlan`.
        only: likewise.
        at_once: engines are started together and stay, no more than this many; None for a start each time.

    Raises:
        UsageError: more engines would have to run beside each other.
    """
    configurations = tuple(_configurations([factor.slug for factor in factors], only))
    names = [each.name for each in configurations]
    order = []
    for group, members in enumerate(_grouped(names, only, at_once), start=1):
        rng = generator("ablation", seed, group)
        for block, turns in enumerate(islice(balanced(members, rng), blocks), start=1):
            order += [Planned(block=block, configuration=name, group=group) for name in turns]
    return AblationPlan(
        base=base,
        target=target,
        factors=factors,
        rest=rest,
        only=only,
        configurations=configurations,
        blocks=blocks,
        seed=seed,
        order=tuple(order),
        resident=at_once is not None,
    )


def balanced(names: Sequence[str], rng: Random) -> Iterator[list[str]]:
    """Orders without end: of N names any N in a row, from the first on, have each name once in every place.

    A place in a block may matter by itself (what ran before leaves a warm card), and few shuffles favour somebody. Each
    N orders are the rows of a cyclic Latin square, in random order and with random names (Fisher 1935, "The Design of
    Experiments", chapter 5); every other square runs backwards, so that not always the same one comes before another.
    The places are not in the model of the effects: what they matter counts as chance, and makes intervals wider.
    """
    for backwards in cycle((False, True)):
        first = list(names)
        rng.shuffle(first)
        shifts = list(range(len(first)))
        rng.shuffle(shifts)
        for shift in shifts:
            turns = first[shift:] + first[:shift]
            yield turns[::-1] if backwards else turns


def _configurations(slugs: list[str], only: Only | None) -> Iterator[Configuration]:
    names: dict[tuple[str, ...], str] = {}
    if only != "removed":
        names[()] = BASE
    if only != "added":
        names[tuple(slugs)] = FULL
    for slug in slugs if only != "removed" else ():
        names.setdefault((slug,), f"with-{slug}")
    for slug in slugs if only != "added" else ():
        names.setdefault(tuple(other for other in slugs if other != slug), f"without-{slug}")
    for factors, name in names.items():
        yield Configuration(name=name, factors=factors)


def _grouped(names: Sequence[str], only: Only | None, at_once: int | None) -> list[list[str]]:
    """All in one group, or as few groups of `at_once` as there can be, each with the reference, which stands first."""
    if at_once is None or len(names) <= at_once:
        return [list(names)]
    if only is None:
        raise UsageError(
            f"{len(names)} configurations have to run beside each other, and only {at_once} engines may at once.",
            remedy="Fewer factors (--factors), one direction (--only removed, or added), which can be done in groups, "
            "or --at-once.",
        )
    reference, *others = names
    count = -(-len(others) // (at_once - 1))
    return [[reference, *others[start::count]] for start in range(count)]
