"""A report's graphs: what was used, and which list would have served these steps better."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from bench.errors import StreamproofError, UsageError
from bench.explain.graphs.cost import capture_seconds
from bench.explain.graphs.coverage import DEFAULT_INTERVAL_S, Coverage, Window, coverage_of
from bench.explain.graphs.optimum import Suggestion, apply, best_lists, enough
from bench.explain.preflight.captures import Captures, captures_of
from bench.explain.preflight.settings import Settings, settings_of
from bench.explain.preflight.start_log import StartFacts, start_facts
from bench.explain.report_folder import read_report, read_signed
from bench.observe.observations import GraphTable
from bench.report import folder_files as files
from bench.report.folder_evidence import parse_observations, parse_recipe

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from recipes.schema import Recipe

MISS_TOKENS: Final = 1024.0
"""What a step without a graph costs beside its work, in padded tokens. An assumption: launching the 1,000 kernels of
such a step one by one takes some 10 ms, in which a card computes about so many tokens."""

WASTE: Final = 0.02
"""A list that costs at most this share of all tokens more than the best one is short enough to be suggested."""

MOST: Final = 64
"""Sizes of the longest list that is looked for: the article's has 60."""

_INTERVAL: Final = "VLLM_LOG_STATS_INTERVAL"
_OFTEN: Final = f"--set 'engine.env.{_INTERVAL}=\"2\"'"


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A list of sizes with its costs.

    Attributes:
        list_: what it would do for the observed steps.
        captures: the graphs that the engine would make of it; None where it would refuse the list.
        seconds: that capturing them is expected to take.
        pool_gib: memory that they are expected to take; None where no start was measured.
    """

    list_: Suggestion
    captures: Captures | None
    seconds: float
    pool_gib: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Analysis:
    """What `just graphs` shows.

    Attributes:
        target: of the recipe.
        coverage: what was used.
        now: the captured list, with what it does.
        suggested: the list to take instead.
        others: best lists of other lengths.
        miss_tokens: a step without a graph counts as so many padded tokens.
        capture_source, pool_source: where the costs are from.
    """

    target: str
    coverage: Coverage
    now: Choice
    suggested: Choice
    others: tuple[Choice, ...]
    miss_tokens: float
    capture_source: str
    pool_source: str


def analyse(folder: Path, *, graphs: int | None, miss_tokens: float) -> Analysis:
    """Reads a report and chooses a list for its steps.

    Args:
        folder: of the report.
        graphs: sizes of the list to suggest; None for the shortest that is nearly as good as the best.
        miss_tokens: cost of a step without a graph.

    Raises:
        StreamproofError: no report, one that was changed, or one without such metrics: says which flags to set.
    """
    report = read_report(folder)
    recipe = parse_recipe(read_signed(folder, files.RECIPE))
    seen = parse_observations(read_signed(folder, files.OBSERVATIONS))
    windows = [
        Window(run=window.run, start_s=window.start_s, end_s=window.end_s)
        for point in report.points
        for window in point.runs
    ]
    tables = [observation for observation in seen if isinstance(observation, GraphTable)]
    coverage = coverage_of(tables, windows, interval_of(recipe))
    if coverage is None:
        raise _no_metrics(recipe, tables, external=report.engine_kind == "external")
    log = folder / files.engine_log(0)
    facts = start_facts(log) if log.is_file() else StartFacts()
    return _chosen(recipe, coverage, facts, graphs=graphs, miss_tokens=miss_tokens)


def interval_of(recipe: Recipe) -> float:
    """Seconds between two tables."""
    text = recipe.engine.env.get(_INTERVAL)
    try:
        interval = DEFAULT_INTERVAL_S if text is None else float(text)
    except ValueError:
        interval = 0.0
    if not 0 < interval < float("inf"):
        raise UsageError(f"engine.env.{_INTERVAL} is {text!r}.", remedy="It is a number of seconds.")
    return interval


def _chosen(
    recipe: Recipe, coverage: Coverage, facts: StartFacts, *, graphs: int | None, miss_tokens: float
) -> Analysis:
    settings = settings_of(recipe)
    step = settings.draft_tokens + 1 if settings.release.rounds_captures else 1
    captured = tuple(use.size for use in coverage.sizes)
    lists = best_lists(coverage.histogram, most=max(MOST, graphs or 0), step=step, miss_tokens=miss_tokens)
    suggested = enough(lists, WASTE) if graphs is None else lists[min(graphs, len(lists)) - 1]

    def priced(found: Suggestion) -> Choice:
        return _priced(found, settings, facts)

    others = [found for found in lists if len(found.sizes) in (4, 8, 16, 32, 64) and found is not suggested]
    measured = facts.capture_s is not None and facts.graphs
    return Analysis(
        target=recipe.target,
        coverage=coverage,
        now=priced(apply(captured, coverage.histogram, miss_tokens=miss_tokens)),
        suggested=priced(suggested),
        others=tuple(priced(found) for found in others),
        miss_tokens=miss_tokens,
        capture_source=f"this start: {facts.graphs} graphs in {facts.capture_s:g} s"
        if measured
        else "two H200 starts of the full-size model",
        pool_source=f"this start: {facts.graphs} graphs in {facts.pool_actual:g} GiB"
        if facts.pool_actual is not None and facts.graphs
        else "this start's log does not say",
    )


def _priced(found: Suggestion, settings: Settings, facts: StartFacts) -> Choice:
    captures = None
    if found.sizes and settings.graph_mode != "NONE":
        try:
            captures = captures_of(replace(settings, capture_sizes=found.sizes, max_capture=None))
        except UsageError:
            captures = None  # it would refuse sizes that another engine captured
    graphs = captures.graphs if captures else len(found.sizes)
    pool = None
    if facts.pool_actual is not None and facts.graphs:
        pool = facts.pool_actual * graphs / facts.graphs
    return Choice(
        list_=found,
        captures=captures,
        seconds=capture_seconds(graphs, measured_s=facts.capture_s, measured_graphs=facts.graphs or 0),
        pool_gib=pool,
    )


def _no_metrics(recipe: Recipe, tables: Sequence[GraphTable], *, external: bool) -> StreamproofError:
    if external:
        return UsageError(
            "this report is of somebody else's server: its log, where the metrics are, was not ours to read.",
            remedy="Measure with an engine that streamproof starts.",
        )
    if tables:
        return UsageError(
            f"{len(tables)} tables of CUDA graph use are in this report; none lies in a measured window as a whole.",
            remedy=f"Write them more often ({_OFTEN}), or measure longer (load.steady_s).",
        )
    if recipe.engine.flags.get("cudagraph_metrics") is True:
        return UsageError(
            "the engine of this report was asked for CUDA graph metrics and wrote none.",
            remedy="disable_log_stats keeps them out of the log; otherwise vLLM 0.26.0 writes them with every step.",
        )
    return UsageError(
        "this report has no CUDA graph metrics.",
        remedy=f"Run it again with: just repro {recipe.target} --set engine.flags.cudagraph_metrics=true {_OFTEN}",
    )
