"""`just frontier`: its options and its help."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bench.errors import UsageError
from bench.explain.search import options
from bench.explain.slo.parse import parse_slo
from recipes.load import load_recipe


def frontier(
    target: options.Target,
    overrides: options.Overrides = None,
    *,
    vary: Annotated[
        str,
        typer.Option(
            metavar="KEY[=LOW..HIGH]",
            help="The assumption, e.g. `load.turn_gap.mean_s=2..16` (also called `workload.turn_gap`). Without a "
            "range: from a quarter to four times the recipe's value. Numbers that need an engine start for each value "
            "are named and not searched.",
        ),
    ] = "load.turn_gap.mean_s",
    values: Annotated[int, typer.Option(min=2, max=1000, help="How many values to tell apart.")] = 17,
    slo: Annotated[
        str | None, typer.Option(metavar="WHAT:SHARE:LIMIT", help="A limit to ask about instead of the claims.")
    ] = None,
    streams: Annotated[
        int | None, typer.Option(min=1, help="With --slo: open streams; by default the most of the ladder.")
    ] = None,
    claim: Annotated[
        list[str] | None, typer.Option(metavar="ID", help="Ask about this claim only; may be given several times.")
    ] = None,
    replicates: options.Replicates = 5,
    points: options.Points = 40,
    base_url: options.BaseUrl = None,
    model: options.Model = None,
    engine: options.Engine = None,
    image: options.Image = None,
    ray: options.Ray = None,
    reports: options.Reports = Path("reports"),
    quiet: options.Quiet = False,
    as_json: options.AsJson = False,
) -> None:
    """Find over which values of an assumption the claims hold, and leave a signed report.

    "Reproduced" means little without the turn gap: the article does not give it, and it moves the result more than any
    flag. For each claim the values are bisected on one engine start, then the two on both sides of the boundary are
    measured in turns until both are certified. Of each claim all certificates together are right with 95 %.

    Exit codes: 0 every claim holds for some value; 3 one holds for none; 4 the measurement is invalid; 1 the engine
    died or nothing could be started; 2 wrong usage; 130 interrupted: what was settled is in a partial report.
    """
    from bench.cli import parse_overrides  # noqa: PLC0415  it registers this command
    from bench.explain.frontier.ask import questions  # noqa: PLC0415  the heavy part: loaded for this command only
    from bench.explain.frontier.vary import TURN_GAP, parse_vary  # noqa: PLC0415
    from bench.explain.search.begin import run_search  # noqa: PLC0415
    from bench.repro import Wishes  # noqa: PLC0415

    limit = None if slo is None else parse_slo(slo)
    recipe = load_recipe(target, parse_overrides(overrides))
    over = parse_vary(vary, recipe, values=values)
    if over.needs_a_start:
        raise UsageError(
            f"--vary {vary}: each value of {over.key} needs another engine start, and a frontier is searched on one",
            remedy=f"Vary {TURN_GAP}, or run the values one by one: just repro {target} --set {over.key}=VALUE",
        )
    asked = questions(
        recipe,
        over.values,
        slo=limit,
        streams=streams,
        claim_ids=tuple(claim or ()),
        looks=replicates,
        most_points=points,
    )
    wishes = Wishes(engine=engine, image=image, base_url=base_url, model=model)
    code = run_search(recipe, asked, reports=reports, wishes=wishes, ray=ray, quiet=quiet, as_json=as_json)
    raise typer.Exit(code)
