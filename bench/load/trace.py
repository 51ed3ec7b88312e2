"""A recorded trace: who asked, when, and how long the prompt was.

A trace is JSONL, one request a line: {"time": 12.25, "agent": "booking", "tokens": 10240}. `time` is in seconds, never
decreasing; the first line's time is the beginning. `tokens` is the length of the prompt. The texts of the callers are
never in a trace.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from bench.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from recipes.schema import Point, Recipe


class TraceLine(BaseModel):
    """One request of a trace.

    Attributes:
        time: seconds.
        agent: name of the agent.
        tokens: length of the prompt.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    time: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    agent: str
    tokens: Annotated[int, Field(gt=0)]


def read_trace(path: Path, *, sha256: str | None = None) -> list[TraceLine]:
    """The lines of a trace, times counted from the first one's.

    Args:
        path: of the file.
        sha256: that it must have, where it was read before.

    Raises:
        UsageError: the file cannot be read, is empty or is another one, or a line is no request; the line is named by
            its number.
    """
    raw = _bytes(path)
    if sha256 is not None and _sha256(raw) != sha256:
        raise UsageError(
            f"the trace {path} has changed: its SHA-256 is {_sha256(raw)}, the recipe's trace_sha256 is {sha256}",
            remedy="Give the file that the recipe means, or remove trace_sha256 from the recipe.",
        )
    lines: list[TraceLine] = []
    for number, text in enumerate(raw.splitlines(), start=1):
        where = f"{path}, line {number}"
        remedy = 'Each line is a request, such as {"time": 12.25, "agent": "booking", "tokens": 10240}.'
        try:
            line = TraceLine.model_validate_json(text)
        except ValidationError as error:
            first = error.errors()[0]
            key = ".".join(str(part) for part in first["loc"])
            raise UsageError(f"{where}: {key + ': ' if key else ''}{first['msg']}", remedy=remedy) from None
        if lines and line.time < lines[-1].time:
            raise UsageError(
                f"{where}: time {line.time:g} is before the line above ({lines[-1].time:g})",
                remedy="Sort the trace by time.",
            )
        lines.append(line)
    if not lines:
        raise UsageError(f"the trace {path} is empty", remedy="Give a file with one request a line.")
    begin = lines[0].time
    return [line.model_copy(update={"time": line.time - begin}) for line in lines]


def with_traces_pinned(recipe: Recipe) -> Recipe:
    """The recipe with the hash of every trace that it names, each read and found to be one, before anything starts.

    Raises:
        UsageError: see `read_trace`; also a line whose agent the workload does not have.
    """
    pinned = {
        point.trace: _pinned(point, recipe.workload.agents) for point in recipe.load.ladder if point.trace is not None
    }
    if not pinned:
        return recipe
    ladder = [pinned.get(point.trace or "", point) for point in recipe.load.ladder]
    claims = [
        claim.model_copy(update={"point": pinned.get(claim.point.trace or "", claim.point)}) for claim in recipe.claims
    ]
    return recipe.model_copy(
        update={"load": recipe.load.model_copy(update={"ladder": ladder}), "claims": claims},
    )


def _pinned(point: Point, agents: Sequence[str]) -> Point:
    path = Path(point.trace or "")
    for number, line in enumerate(read_trace(path, sha256=point.trace_sha256), start=1):
        if line.agent not in agents:
            raise UsageError(
                f"{path}, line {number}: the workload has no turn of the agent {line.agent!r}",
                remedy=f"Name agents of the recipe: {', '.join(agents)}.",
            )
    return point.model_copy(update={"trace_sha256": _sha256(_bytes(path))})


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageError(
            f"the trace {path} cannot be read: {error.strerror}", remedy="Give the path of a JSONL file."
        ) from None


def _sha256(raw: bytes) -> str:
    return hashlib.sha256(raw).hexdigest()
