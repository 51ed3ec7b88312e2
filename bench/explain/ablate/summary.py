"""From the reports of an ablation to its summary. Only reports that verify count."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from bench.errors import StreamproofError
from bench.explain.ablate.complete import complete_part
from bench.explain.ablate.effects import figure_effects
from bench.explain.ablate.outcome import Ablation, FigureEffects, RunPart
from bench.explain.compare.side import read_side
from bench.report import folder_files as files
from bench.stats.quantiles import Sample, quantile

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from bench.explain.ablate.complete import CompletePart
    from bench.explain.ablate.plan import AblationPlan, Planned
    from bench.explain.compare.side import Side
    from bench.report.keys import TrustedKey

QUANTILES: Final = (0.5, 0.95)


def reports_of(run: Path) -> list[Path]:
    """The finished report folders of one planned engine start, in order of time; several where it was repeated."""
    return sorted(path.parent for path in run.glob(f"*/*/{files.REPORT}"))


def summarize(folder: Path, plan: AblationPlan, trusted: Mapping[str, TrustedKey]) -> Ablation:
    """Effects of every factor from the reports in the folder.

    Args:
        folder: of the ablation.
        plan: of it.
        trusted: keys by id.

    Raises:
        StreamproofError: a report is not verified, or something changed between two runs of a configuration.
    """
    measured, missing = _found(folder, plan, trusted)
    _refuse_changes(measured)
    groups = [
        (group, complete_part(names, plan.blocks, missing[group], may_drop=plan.resident))
        for group, names in plan.groups.items()
    ]
    counted = [(part, [each for each in measured if each.counts_in(group, part)]) for group, part in groups]
    runs = [each for _, runs in counted for each in runs]
    return Ablation(
        target=plan.target.target,
        base=plan.base.target,
        title=plan.target.title,
        not_real=tuple(dict.fromkeys(words for each in runs for words in each.side.report.not_real)),
        factors=tuple((factor.slug, factor.name, factor.keys) for factor in plan.factors),
        only=plan.only,
        adapted=tuple((name, tuple(each.says for each in besides)) for name, besides in plan.besides.items()),
        blocks=min(len(part.blocks) for _, part in groups),
        left_out=tuple(
            f"group {group}, {why}" if len(groups) > 1 else why for group, part in groups for why in part.left_out
        ),
        complete=not any(part.left_out for _, part in groups),
        runs=tuple(each.part(folder) for each in sorted(runs, key=_in_table)),
        figures=tuple(_figures(plan, counted)),
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class _Measured:
    """A planned measurement with a report that counts.

    Attributes:
        planned: it.
        path: of the report.
        side: the report.
    """

    planned: Planned
    path: Path
    side: Side

    def counts_in(self, group: int, part: CompletePart) -> bool:
        planned = self.planned
        return planned.group == group and planned.configuration in part.names and planned.block in part.blocks

    def part(self, folder: Path) -> RunPart:
        residents = self.side.measurement.seen.residents
        return RunPart(
            group=self.planned.group,
            block=self.planned.block,
            configuration=self.planned.configuration,
            start=residents[0].start if residents else None,
            report=self.path.relative_to(folder).as_posix(),
            attestation_sha256=files.file_sha256(self.path / files.ATTESTATION),
        )


def _in_table(measured: _Measured) -> tuple[int, int, str]:
    return measured.planned.group, measured.planned.block, measured.planned.configuration


def _found(
    folder: Path, plan: AblationPlan, trusted: Mapping[str, TrustedKey]
) -> tuple[list[_Measured], dict[int, dict[tuple[str, int], str]]]:
    """What was measured, in order of the plan; and by group, configuration and block, why the rest was not."""
    measured: list[_Measured] = []
    missing: dict[int, dict[tuple[str, int], str]] = {group: {} for group in plan.groups}
    for position, planned in enumerate(plan.order, start=1):
        found = [(path, read_side(path, trusted)) for path in reports_of(folder / planned.folder(position))]
        good = [(path, side) for path, side in found if side.report.valid and not side.report.partial]
        if good:
            measured.append(_Measured(planned=planned, path=good[-1][0], side=good[-1][1]))
            continue
        why = "invalid or partial" if found else "not run yet"
        if found and (ended := found[-1][1].measurement.seen.interrupted) is not None and ended.cause == "engine":
            why = "cut off by its engine's death"
        missing[planned.group][planned.configuration, planned.block] = why
    return measured, missing


def _refuse_changes(measured: list[_Measured]) -> None:
    """All runs of one configuration must be repeats: the same recipe, packages, checkpoint and workload."""
    seen: dict[str, tuple[str, Path]] = {}
    for each in measured:
        name, here = each.planned.configuration, each.side.report.fingerprint
        fingerprint, other = seen.setdefault(name, (here, each.path))
        if fingerprint != here:
            raise StreamproofError(
                f"{each.path} and {other} are both {name}, and have different fingerprints.",
                remedy="Something was changed while the ablation ran (just compare tells what): begin a new one.",
            )


def _figures(plan: AblationPlan, counted: list[tuple[CompletePart, list[_Measured]]]) -> Iterator[FigureEffects]:
    for index, point in enumerate(plan.target.load.ladder):
        for q in QUANTILES:
            seconds = [
                {
                    name: [_figure(each.side, index, q) for each in runs if each.planned.configuration == name]
                    for name in part.names
                }
                for part, runs in counted
            ]
            yield figure_effects(plan, point.label, q, *seconds)


def _figure(side: Side, index: int, q: float) -> float:
    """A percentile of E2E: +infinity among the failures, NaN with too few requests for one."""
    found = quantile(Sample.of(np.concatenate(side.latencies((index,), "e2e"))), q)
    return math.nan if found is None else found.value
