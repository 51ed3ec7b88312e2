"""From the reports of an ablation to its summary. Only reports that verify count."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np

from bench.errors import StreamproofError
from bench.explain.ablate.effects import figure_effects
from bench.explain.ablate.outcome import Ablation, FigureEffects, RunPart
from bench.explain.compare.side import Side, read_side
from bench.report import folder_files as files
from bench.stats.quantiles import Sample, quantile

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from bench.explain.ablate.plan import AblationPlan
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
    sides: dict[tuple[int, str], tuple[Path, Side]] = {}
    why: dict[int, str] = {}
    for position, planned in enumerate(plan.order, start=1):
        where = planned.folder(position)
        found = [(path, read_side(path, trusted)) for path in reports_of(folder / where)]
        good = [(path, side) for path, side in found if side.report.valid and not side.report.partial]
        if good:
            sides[planned.block, planned.configuration] = good[-1]
        else:
            seen = "invalid or partial" if found else "not run yet"
            why.setdefault(planned.block, f"block {planned.block}: {planned.configuration} is {seen}")
    _refuse_changes(sides)
    blocks = [block for block in range(1, plan.blocks + 1) if block not in why]
    counted = {key: side for key, (_, side) in sides.items() if key[0] in blocks}
    return Ablation(
        target=plan.target.target,
        base=plan.base.target,
        title=plan.target.title,
        not_real=tuple(dict.fromkeys(words for side in counted.values() for words in side.report.not_real)),
        factors=tuple((factor.slug, factor.name, factor.keys) for factor in plan.factors),
        blocks=len(blocks),
        left_out=tuple(text for _, text in sorted(why.items())),
        complete=not why,
        runs=tuple(
            RunPart(
                block=block,
                configuration=name,
                report=path.relative_to(folder).as_posix(),
                attestation_sha256=files.file_sha256(path / files.ATTESTATION),
            )
            for (block, name), (path, _) in sorted(sides.items())
            if block in blocks
        ),
        figures=tuple(_figures(plan, blocks, counted)),
    )


def _refuse_changes(sides: Mapping[tuple[int, str], tuple[Path, Side]]) -> None:
    """All runs of one configuration must be repeats: the same recipe, packages, checkpoint and workload."""
    seen: dict[str, tuple[str, Path]] = {}
    for (_, name), (path, side) in sorted(sides.items()):
        fingerprint, other = seen.setdefault(name, (side.report.fingerprint, path))
        if fingerprint != side.report.fingerprint:
            raise StreamproofError(
                f"{path} and {other} are both {name}, and have different fingerprints.",
                remedy="Something was changed while the ablation ran (just compare tells what): begin a new one.",
            )


def _figures(plan: AblationPlan, blocks: list[int], sides: Mapping[tuple[int, str], Side]) -> Iterator[FigureEffects]:
    for index, point in enumerate(plan.target.load.ladder):
        for q in QUANTILES:
            seconds = {
                each.name: [_figure(sides[block, each.name], index, q) for block in blocks]
                for each in plan.configurations
            }
            yield figure_effects(plan, point.label, q, seconds)


def _figure(side: Side, index: int, q: float) -> float:
    """A percentile of E2E: +infinity among the failures, NaN with too few requests for one."""
    found = quantile(Sample.of(np.concatenate(side.latencies((index,), "e2e"))), q)
    return math.nan if found is None else found.value
