"""An ablation for the terminal: its plan, and what came of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.console import Group
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from bench.explain.ablate.plan import FEW_DEGREES
from bench.explain.ablate.words import effect, figure_name, headline, one_direction, remarks, side_of
from bench.report.render import words

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from rich.console import RenderableType

    from bench.explain.ablate.outcome import Ablation, FigureEffects
    from bench.explain.ablate.plan import AblationPlan


def shown_plan(plan: AblationPlan, objections: Iterable[str]) -> RenderableType:
    """What an ablation would do, and how long it takes.

    Args:
        plan: of it.
        objections: of preflight.
    """
    factors = Table("factor", box=None, pad_edge=False)
    factors.add_column("what it switches", overflow="fold")
    for factor in plan.factors:
        factors.add_row(Text(f"{factor.slug}\n({factor.name})"), Text("\n".join(factor.keys)))
    runs = Table("configuration", "factors as the target has them", box=None, pad_edge=False)
    for each in plan.configurations:
        runs.add_row(Text(each.name), Text(", ".join(each.factors) or "none"))
    points = ", ".join(point.label for point in plan.target.load.ladder)
    rest = ", ".join(factor.slug for factor in plan.rest)
    return Group(
        Text(f"From {plan.base.target} to {plan.target.target} at {points}, with the workload and load of the latter."),
        *((Text(f"As the target has it throughout: {rest}."),) if rest else ()),
        factors,
        Text(),
        runs,
        Text(),
        *(Text(f"{name}: {each.says}.") for name, besides in plan.besides.items() for each in besides),
        *_course(plan),
        *(() if plan.degrees >= FEW_DEGREES else (Text(_FEW, "yellow"),)),
        *(Text(line, "yellow") for line in objections),
    )


_FEW: Final = "With so few measurements only a large effect can be told from chance: raise --blocks."


def _course(plan: AblationPlan) -> Iterator[Text]:
    """What happens in which order, and how long it takes."""
    blocks, groups = words.plural(plan.blocks, "block"), plan.groups
    measured = words.clock(plan.seconds_of_a_run * len(plan.order))
    if plan.resident:
        yield Text(
            f"{plan.starts} engine starts; all of a group start together and stay. Then {len(plan.order)} measurements "
            f"in {blocks}, one engine at a time, in random orders that favour none:"
        )
    else:
        yield Text(f"{plan.starts} engine starts in {blocks}, in random orders that favour none:")
    for group in groups:
        if len(groups) > 1:
            yield Text(f"  group {group}: {', '.join(groups[group])}")
        for block in range(1, plan.blocks + 1):
            names = [each.configuration for each in plan.order if (each.group, each.block) == (group, block)]
            yield Text(f"  block {block}: {', '.join(names)}")
    if plan.resident:
        starts = "one start, of the slowest engine" if len(groups) == 1 else f"{len(groups)} such starts together"
        yield Text(f"Some {measured} of measuring, and {starts}.")
    else:
        yield Text(f"Some {measured} of measuring, and {plan.starts} times the engine's start.")


def shown(ablation: Ablation) -> RenderableType:
    """What came of it. All text is plain: nothing in it is markup."""
    parts: list[RenderableType] = [Text(headline(ablation), "bold")]
    real = f" ({', '.join(ablation.not_real)})" if ablation.not_real else ""
    parts.append(
        Text(f"{ablation.title}{real}, from {ablation.base}, {words.plural(ablation.blocks, 'complete block')}")
    )
    parts += [Text(f"left out: {text}", "yellow") for text in ablation.left_out]
    parts += [Text(text) for text in remarks(ablation)]
    for figure in ablation.figures:
        parts.append(Text())
        if figure.none:
            parts.append(Text(f"{figure_name(figure)}: no effects: {figure.none}", "yellow"))
            continue
        parts += [_one_way(ablation, figure)] if ablation.only else _both_ways(figure)
    return Padding(Group(*parts), (1, 0, 0, 0))


def _one_way(ablation: Ablation, figure: FigureEffects) -> RenderableType:
    table = Table(figure_name(figure), one_direction(ablation), box=None, pad_edge=False)
    for each in figure.factors:
        table.add_row(Text(each.factor), effect(side_of(each)))
    return table


def _both_ways(figure: FigureEffects) -> Iterator[RenderableType]:
    table = Table(figure_name(figure), "added first", "removed last", "share", box=None, pad_edge=False)
    for each in figure.factors:
        share = "none: it interacts" if each.interacts else effect(each.share)
        table.add_row(
            Text(each.factor, "bold yellow" if each.interacts else ""),
            effect(each.added_first),
            effect(each.removed_last),
            share,
        )
    table.add_row(Text("all together", "bold"), effect(figure.total), "", "")
    yield table
    yield from (Text(f"  {each.factor}: {each.says}", "dim") for each in figure.factors)
