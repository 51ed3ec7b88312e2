"""What the engine did beside answering: what its log told and what its caches showed, as one sort of mark."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from bench.observe.observations import EngineEvent

if TYPE_CHECKING:
    from bench.report.seen import Seen


@dataclass(frozen=True, slots=True, kw_only=True)
class FileCompiled:
    """A file of compiled code; everything else as in `bench.observe.observations.EngineEvent`."""

    t: float
    run: int
    line: str
    replica: int | None
    event: Literal["compiled"] = "compiled"
    line_number: None = None


Happening: TypeAlias = EngineEvent | FileCompiled


def happenings(seen: Seen) -> list[Happening]:
    """All of them, by run and time."""
    files = (
        FileCompiled(t=file.t, run=look.run, line=f"{file.cache}: {file.path}", replica=look.replica)
        for looks in seen.compiled.values()
        for look in looks.values()
        for file in look.files
    )
    return sorted((*seen.events, *files), key=lambda happening: (happening.run, happening.t))
