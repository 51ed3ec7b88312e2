"""Measured starts to set beside a plan: reports of the same engine on the same card, or one that is named."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bench.errors import StreamproofError
from bench.explain.preflight.start_log import StartFacts, start_facts
from bench.explain.report_folder import read_report
from bench.report import folder_files as files
from bench.report.folder_evidence import parse_recipe
from quantize.checkpoint import REPOSITORY

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from bench.report.model import Report
    from recipes.schema import Recipe

_FOLDERS: Final = (REPOSITORY / "reports", REPOSITORY / "evidence")
_FIRST_LOG: Final = "engine-0.log"
_MOST_REPORTS: Final = 200
"""Report folders that are looked into, newest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """One measured start.

    Attributes:
        where: the folder or file, for people.
        facts: what its log said.
        hit_rate: of all its points together, as the engine counted; None where it is no report, or does not say.
        means: mean E2E in seconds by the label of the point.
    """

    where: str
    facts: StartFacts
    hit_rate: float | None = None
    means: Mapping[str, float] = field(default_factory=dict)


def past_of(recipe: Recipe, named: Path | None = None) -> Past | None:
    """The newest measured start that this plan can be compared with; None where there is none.

    Args:
        recipe: of the plan. A report fits when its engine, checkpoint and hardware are the same.
        named: a report's folder, or a log: it is taken as it is.

    Raises:
        StreamproofError: what was named cannot be read.
    """
    if named is not None and named.is_dir():
        return _of_report(named, read_report(named))
    if named is not None:
        return Past(where=_short(named), facts=start_facts(named))
    for folder in _newest(_FOLDERS):
        if (folder / _FIRST_LOG).is_file() and _same_engine(folder, recipe):
            try:
                return _of_report(folder, read_report(folder))
            except StreamproofError:
                continue  # damaged, or of another version: no comparison, and no reason to stop
    return None


def _of_report(folder: Path, report: Report) -> Past:
    caches = [p.prefix_cache for p in report.points if p.prefix_cache.measured_hit_tokens is not None]
    prompts = sum(cache.prompt_tokens for cache in caches)
    return Past(
        where=_short(folder),
        facts=start_facts(folder / _FIRST_LOG),
        hit_rate=sum(cache.measured_hit_tokens or 0 for cache in caches) / prompts if prompts else None,
        means={point.label: point.e2e.mean for point in report.points if point.e2e.mean is not None},
    )


def _newest(roots: Iterable[Path]) -> Iterator[Path]:
    found = [path.parent for root in roots for path in root.glob(f"*/*/{files.RECIPE}")]
    yield from sorted(found, key=lambda folder: folder.name, reverse=True)[:_MOST_REPORTS]


def _same_engine(folder: Path, recipe: Recipe) -> bool:
    try:
        other = parse_recipe((folder / files.RECIPE).read_bytes())
    except (StreamproofError, OSError):
        return False  # an older or damaged report is no comparison, and no reason to stop
    return (other.engine, other.checkpoint.name, other.hardware) == (
        recipe.engine,
        recipe.checkpoint.name,
        recipe.hardware,
    )


def _short(path: Path) -> str:
    absolute = path.resolve()
    return str(absolute.relative_to(REPOSITORY)) if absolute.is_relative_to(REPOSITORY) else str(path)
