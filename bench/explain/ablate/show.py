"""An ablation for the terminal: its plan, and what came of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.console import Group
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from bench.explain.ablate.plan import FEW_DEGREES
from bench.explain.ablate.words import effect, figure_name, headline
from bench.report.render import words

if TYPE_CHECKING:
    from rich.console import RenderableType

    from bench.explain.ablate.outcome import Ablation
    from bench.explain.ablate.plan import AblationPlan


def shown_plan(plan: AblationPlan) -> RenderableType:
    """What an ablation would do, and how long it takes."""
    factors = Table("factor", box=None, pad_edge=False)
    factors.add_column("what it switches", overflow="fold")
    for factor in plan.factors:
        factors.add_row(Text(f"{factor.slug}\n({factor.name})"), Text("\n".join(factor.keys)))
    runs = Table(
        "configuration", "factors as the target has them", "recipe differs from base in", box=None, pad_edge=False
    )
    for each in plan.configurations:
        keys = sum(len(factor.keys) for factor in plan.factors if factor.slug in each.factors)
        runs.add_row(Text(each.name), Text(", ".join(each.factors) or "none"), words.plural(keys, "value"))
    points = ", ".join(point.label for point in plan.target.load.ladder)
    measured = plan.seconds_of_a_run * len(plan.order)
    return Group(
        Text(f"From {plan.base.target} to {plan.target.target} at {points}, with the workload and load of the latter."),
        factors,
        Text(),
        runs,
        Text(),
        Text(f"{len(plan.order)} engine starts in {words.plural(plan.blocks, 'block')}, in a random order in each:"),
        *(Text(f"  block {block}: {', '.join(_names(plan, block))}") for block in range(1, plan.blocks + 1)),
        Text(f"Some {words.clock(measured)} of measuring, and {len(plan.order)} times the engine's start."),
        *(() if plan.degrees >= FEW_DEGREES else (Text(_FEW, "yellow"),)),
    )


_FEW: Final = "With so few engine starts only a large effect can be told from chance: raise --blocks."


def _names(plan: AblationPlan, block: int) -> list[str]:
    return [planned.configuration for planned in plan.order if planned.block == block]


def shown(ablation: Ablation) -> RenderableType:
    """What came of it. All text is plain: nothing in it is markup."""
    parts: list[RenderableType] = [Text(headline(ablation), "bold")]
    real = f" ({', '.join(ablation.not_real)})" if ablation.not_real else ""
    parts.append(
        Text(f"{ablation.title}{real}, from {ablation.base}, {words.plural(ablation.blocks, 'complete block')}")
    )
    parts += [Text(f"left out: {text}", "yellow") for text in ablation.left_out]
    for figure in ablation.figures:
        parts.append(Text())
        if figure.none:
            parts.append(Text(f"{figure_name(figure)}: no effects: {figure.none}", "yellow"))
            continue
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
        parts.append(table)
        parts += [Text(f"  {each.factor}: {each.says}", "dim") for each in figure.factors]
    return Padding(Group(*parts), (1, 0, 0, 0))
