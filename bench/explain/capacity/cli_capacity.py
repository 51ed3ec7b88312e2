"""`just capacity`: its options and its help."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bench.explain.search import options
from bench.explain.slo.parse import parse_slo
from recipes.load import load_recipe


def capacity(
    target: options.Target,
    overrides: options.Overrides = None,
    *,
    slo: Annotated[
        list[str] | None,
        typer.Option(
            metavar="WHAT:SHARE:LIMIT",
            help="The limit: `e2e:p95:1s`, `ttft:p95:500ms`, `tpot:p99:20ms`, `goodput:99%:e2e<1s,ttft<300ms`. May be "
            "given several times.",
            show_default="e2e:p95:1s",
        ),
    ] = None,
    lowest: Annotated[
        int | None,
        typer.Option("--from", min=1, help="Fewest streams; by default the search begins where the ladder does."),
    ] = None,
    highest: Annotated[
        int | None, typer.Option("--to", min=1, help="Most streams; by default 8 times the most of the ladder.")
    ] = None,
    step: Annotated[int, typer.Option(min=1, help="Streams between two neighbours.")] = 1,
    replicates: options.Replicates = 5,
    points: options.Points = 60,
    base_url: options.BaseUrl = None,
    model: options.Model = None,
    engine: options.Engine = None,
    image: options.Image = None,
    ray: options.Ray = None,
    reports: options.Reports = Path("reports"),
    quiet: options.Quiet = False,
    as_json: options.AsJson = False,
) -> None:
    """Find the most streams that hold a latency limit, on one engine start, and leave a signed report.

    Doubles the streams until the limit breaks, bisects, then measures the last count that seems to hold and the first
    that does not in turns, on new prompts, until both are certified. All certificates together are right with 95 %.
    Several limits are searched one after the other on the same engine start. Each point lasts `load.ramp_s` +
    `load.steady_s`; a percentile near its limit needs many requests.

    Exit codes: 0 for every limit a count is certified to hold; 3 for one none is; 4 the measurement is invalid; 1 the
    engine died or nothing could be started; 2 wrong usage; 130 interrupted: what was settled is in a partial report.
    """
    from bench.cli import parse_overrides  # noqa: PLC0415  it registers this command
    from bench.explain.capacity.ask import questions  # noqa: PLC0415  the heavy part: loaded for this command only
    from bench.explain.search.begin import run_search  # noqa: PLC0415
    from bench.repro import Wishes  # noqa: PLC0415

    limits = [parse_slo(text) for text in slo or ("e2e:p95:1s",)]
    recipe = load_recipe(target, parse_overrides(overrides))
    asked = questions(recipe, limits, lowest=lowest, highest=highest, step=step, looks=replicates, most_points=points)
    wishes = Wishes(engine=engine, image=image, base_url=base_url, model=model)
    code = run_search(recipe, asked, reports=reports, wishes=wishes, ray=ray, quiet=quiet, as_json=as_json)
    raise typer.Exit(code)
