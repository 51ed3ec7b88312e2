"""Run every tool against the same reference server, one after the other, round after round."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, TypeAlias

from bench.engine.child_env import child_environment
from bench.engine.pins import REPOSITORY
from bench.errors import StreamproofError
from bench.peers import cost
from bench.peers.compare import NothingToCompareError, Truths, compare
from bench.peers.environments import Place
from bench.peers.load import Load
from bench.peers.row import Row, figures
from bench.peers.tool import Job, Tool, UnreadableError
from tests.truth.process import running

TOKENIZER: Final = REPOSITORY / "quantize" / "toy" / "checkpoint"
"""Its tokenizer.json makes the prompts: a folder in the checkout, so that no tool asks a hub."""

TIMEOUT_S: Final = 420.0
"""For one start of one tool: the slowest makes its prompts for a minute and a half and keeps 8 of 60 in flight."""

Ensure: TypeAlias = Callable[[Tool], Place]


def places(tools: Sequence[Tool], ensure: Ensure) -> dict[str, Place | str]:
    """Where each tool runs, by its name; the error's message for a tool that could not be installed."""
    found: dict[str, Place | str] = {}
    for tool in tools:
        try:
            found[tool.name] = ensure(tool)
        except StreamproofError as error:
            found[tool.name] = error.message
    return found


def rounds(
    tools: Sequence[Tool],
    where: Mapping[str, Place | str],
    loads: Sequence[Load],
    *,
    count: int,
    server_core: int | None,
) -> Iterator[Row]:
    """Every tool with every load, `count` times over: A B C, A B C, so that what the host does befalls them all.

    Args:
        tools: in the order to run them.
        where: see `places`.
        loads: in the order to run them.
        count: rounds.
        server_core: CPU core of the reference server; None lets it run anywhere.

    Yields:
        a row as soon as it is known.
    """
    for number in range(1, count + 1):
        for load in loads:
            for tool in tools:
                yield one(tool, where[tool.name], load, number, server_core=server_core)


def one(tool: Tool, place: Place | str, load: Load, number: int, *, server_core: int | None) -> Row:
    """One start of one tool, against a server of its own; `place` is an error's message where there is none."""
    row = Row(
        tool=tool.name,
        version="" if isinstance(place, str) else place.version,
        load=load.name,
        round=number,
        asked=None if load.faulty else load.in_flight,  # a client may well wait after a failure
        note=tool.note,
    )
    if (reason := tool.cannot(load)) is not None:
        return replace(row, cannot=reason)
    if isinstance(place, str):
        return replace(row, error=f"not installed: {place}")
    with tempfile.TemporaryDirectory(prefix="peers-") as name:
        folder, log = Path(name), Path(name) / "log.txt"
        (folder / "out").mkdir()
        with running(load.script, folder=folder, core=server_core) as server:
            job = Job(
                load=load,
                base_url=server.base_url,
                folder=folder / "out",
                python=place.python,
                tokenizer=TOKENIZER,
            )
            command = tool.command(job)
            env = child_environment(tool.env)
            took = cost.run(command, env=env, cwd=REPOSITORY, log=log, timeout_s=TIMEOUT_S)
            truths = server.truth()
        row = replace(
            row,
            command=tuple(_neutral(part, job) for part in command),
            seconds=took.ended_s - took.started_s,
            peak_mb=took.peak_mb,
        )
        try:
            return replace(row, **_figures(tool, job, took, truths))
        except (UnreadableError, NothingToCompareError) as error:
            said = last_line(log)
            return replace(row, error=_neutral(f"{error}; it said: {said}" if said else str(error), job))


def _figures(tool: Tool, job: Job, took: cost.Cost, truths: Truths) -> dict[str, Any]:
    if took.timed_out:
        raise UnreadableError(f"it was ended after {TIMEOUT_S:g} s")
    if took.exit_code:
        raise UnreadableError(f"it ended with status {took.exit_code}")
    counted = tool.read(job)
    return figures(counted, compare(counted, truths), took, len(truths))


def last_line(log: Path) -> str:
    """The last line of a log that says something, at most 300 characters of it."""
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines()]
    return next((line for line in reversed(lines) if any(map(str.isalnum, line))), "")[:300]


def _neutral(text: str, job: Job) -> str:
    """The text without what is this host's, or this start's, alone."""
    names = {
        str(job.folder): "OUT",
        str(job.python.parent): "ENV/bin",
        str(REPOSITORY): ".",
        job.base_url: "SERVER",
    }
    for found, name in names.items():
        text = text.replace(found, name)
    return text
