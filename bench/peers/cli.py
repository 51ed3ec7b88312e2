"""The command: reads its options, runs, shows, writes."""

from __future__ import annotations

import datetime as dt
import os
import sys
from collections.abc import Iterable, Iterator
from dataclasses import asdict, replace
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, Final

import orjson
import typer
from rich.console import Console

from bench.errors import Exit, UsageError
from bench.observe.host import describe_host
from bench.peers import environments, goals, limit, table
from bench.peers.aiperf import AIPerf
from bench.peers.guidellm import GuideLLM
from bench.peers.inference_perf import InferencePerf
from bench.peers.load import FAULTS, SCRIPT, Load
from bench.peers.ours import Ours
from bench.peers.row import Row
from bench.peers.runner import places, rounds
from bench.peers.tool import Tool
from bench.peers.vllm_bench import VllmBench

TOOLS: Final[dict[str, Tool]] = {
    "ours": Ours(),
    "vllm": VllmBench(),
    "guidellm": GuideLLM(),
    "aiperf": AIPerf(),
    "inference-perf": InferencePerf(),
}

_FILE_WIDTH: Final = 130
"""Of the table in a file or a pipe: its cells in one line each."""

app: Final = typer.Typer(rich_markup_mode="markdown", pretty_exceptions_enable=False, add_completion=False)


@app.command(name="bench-self")
def bench_self(  # noqa: PLR0917  typer's options, given by name
    tool: Annotated[
        list[str] | None,
        typer.Option(help=f"Only this tool; may be given several times. Of: {', '.join(TOOLS)}. All by default."),
    ] = None,
    in_flight: Annotated[
        list[int] | None,
        typer.Option(help="Closed loop with so many requests always in flight; may be given several times.", min=1),
    ] = None,
    streams: Annotated[
        list[int] | None,
        typer.Option(help="So many callers, each silent for 2 s after a reply; may be given several times.", min=1),
    ] = None,
    faulty: Annotated[
        list[int] | None,
        typer.Option(help="As --in-flight, but every eighth request fails: who counts it as what?", min=1),
    ] = None,
    rounds_: Annotated[int, typer.Option("--rounds", help="How often every tool is run with every load.", min=1)] = 2,
    seconds: Annotated[float, typer.Option(help="About how long each load lasts.", min=1.0)] = 15.0,
    find_limit: Annotated[
        bool,
        typer.Option(
            "--find-limit",
            help="Instead: climb a ladder of request rates with each tool until its own E2E error passes 5 ms, or it "
            "does not keep the rate.",
        ),
    ] = False,
    rate: Annotated[
        list[float] | None,
        typer.Option(help="With --find-limit: a step of the ladder, requests per second; several make it.", min=0.1),
    ] = None,
    server_core: Annotated[
        int | None,
        typer.Option(
            help="CPU core of the reference server, by default the last one; -1 lets it run anywhere. The tools may "
            "use all cores."
        ),
    ] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="Also write every row to this file.")] = None,
    markdown_file: Annotated[Path | None, typer.Option("--markdown", help="Also write the table to this file.")] = None,
) -> None:
    """Our client beside every other load generator, against one reference server that knows the truth.

    Each tool is installed in an environment of its own (hash-locked, once) and told to send the same load: prompts of
    10,000 tokens, replies of 100 in 34 chunks, E2E p50 600 and p95 765 ms. What it reports is compared with what the
    server did. Without options: 16 and 60 in flight, 60 streams, and 16 in flight with failures; every tool, two
    rounds, interleaved. A tool that fails, or that cannot do a load, has a row that says so.

    Run it on a quiet host. Exit code 4 if our own client misses one of its goals.
    """
    chosen = [_tool(name) for name in tool or TOOLS]
    console = Console(width=None if sys.stdout.isatty() else _FILE_WIDTH)
    where = places(chosen, lambda one: environments.ensure(one, say=console.print, terminal=console.is_terminal))
    core = _server_core(server_core)
    steps: Iterator[Row | limit.Limit]
    if find_limit:
        ladder = rate or limit.RATES
        steps = chain.from_iterable(
            limit.climb(one, where[one.name], rates=ladder, seconds=seconds, server_core=core) for one in chosen
        )
    else:
        loads = _loads(in_flight, streams, faulty, seconds)
        steps = rounds(chosen, where, loads, count=rounds_, server_core=core)
    rows, limits = _collect(steps, console, json_file)
    missed = [] if find_limit else goals.broken(rows)
    if not find_limit:
        console.print(*table.tables(rows), table.CAPTION, sep="\n", highlight=False)
    if markdown_file is not None:
        made_on = _made_on(1 if find_limit else rounds_, seconds)
        text = limit.markdown(limits, made_on=made_on) if find_limit else table.markdown(rows, made_on, missed)
        markdown_file.parent.mkdir(parents=True, exist_ok=True)
        markdown_file.write_text(text, encoding="utf-8")
    for line in missed:
        console.print(f"MISSED {line}", highlight=False)
    if missed:
        raise typer.Exit(Exit.INVALID)


def _tool(name: str) -> Tool:
    try:
        return TOOLS[name]
    except KeyError:
        raise UsageError(f'there is no tool "{name}"', remedy=f"There are: {', '.join(TOOLS)}.") from None


def _loads(
    in_flight: list[int] | None, streams: list[int] | None, faulty: list[int] | None, seconds: float
) -> list[Load]:
    """The loads, each of about so many seconds of the server's time."""
    if not (in_flight or streams or faulty):
        in_flight, streams, faulty = [16, 60], [60], [16]
    loads = [Load(requests=1, in_flight=count) for count in in_flight or ()]
    loads += [Load(requests=1, streams=count) for count in streams or ()]
    loads += [Load(requests=1, in_flight=count, faulty=True) for count in faulty or ()]
    return [replace(load, requests=max(1, round(seconds / load.seconds))) for load in loads]


def _server_core(asked: int | None) -> int | None:
    """The core that the server keeps: the last usable one, where there is another for the tools."""
    usable = os.sched_getaffinity(0)
    if asked is None:
        return max(usable) if len(usable) > 1 else None
    if asked >= 0 and asked not in usable:
        cores = ", ".join(map(str, sorted(usable)))
        raise UsageError(f"--server-core {asked}: this process may not use that core", remedy=f"It may use: {cores}.")
    return asked if asked >= 0 else None


def _collect(
    steps: Iterable[Row | limit.Limit], console: Console, json_file: Path | None
) -> tuple[list[Row], list[limit.Limit]]:
    """Every step is said in a line, and written, as it is done: an interruption loses none that was."""
    rows: list[Row] = []
    limits: list[limit.Limit] = []
    for step in steps:
        if isinstance(step, Row):
            rows.append(step)
            line = f"round {step.round}, {step.load}: {'  '.join(table.cells([step])[0])}"
        else:
            limits.append(step)
            line = step.text
        console.print(line, highlight=False, soft_wrap=True)
        _write(json_file, rows, limits)
    return rows, limits


def _made_on(count: int, seconds: float) -> str:
    """When, how and on what, for the Markdown."""
    host = describe_host()
    how = f"{count} round{'' if count == 1 else 's'} of about {seconds:g} s a load"
    return (
        f"{dt.datetime.now(dt.UTC):%Y-%m-%d}, {how}, on {host.usable_threads} threads of {host.cpu}, "
        f"Linux {host.kernel}. Prompts of 10,000 tokens, replies of 100 in 34 chunks, E2E p50 600 and p95 765 ms."
    )


def _write(path: Path | None, rows: list[Row], limits: list[limit.Limit]) -> None:
    """Everything so far, with what it was made on."""
    if path is None:
        return
    made: dict[str, Any] = {
        "made": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        "host": describe_host().model_dump(),
        "script": SCRIPT,
        "faults": FAULTS,
        "rows": [asdict(row) for row in rows],
        "limits": [asdict(found) for found in limits],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(orjson.dumps(made, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))
