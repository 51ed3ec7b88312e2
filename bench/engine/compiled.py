"""What an engine has compiled since a moment, as the folders show in which it keeps compiled code.

An engine's log does not tell all of it: DeepGEMM compiles without a word. But all that compiles keeps what it made, so
that it need not make it again, and an engine of ours keeps it where we said (`bench.engine.caches`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final, Protocol, Self, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, model_validator

from bench.engine.cache_walk import newer, plain
from bench.engine.compile_cache import named_caches
from bench.observe.compiled import FILES_LISTED, Cache, CachePath, Count, WhyNot, check_agrees

if TYPE_CHECKING:
    from pathlib import Path

WITHIN_S: Final = 10.0
"""For a look. Nothing is measured meanwhile, but somebody waits."""

NOT_NAMED: Final = "the engine's environment does not name every folder in which it keeps compiled code"

_REASON_LETTERS: Final = 300

WrittenFile: TypeAlias = tuple[Annotated[float, Field(allow_inf_nan=False)], Cache, CachePath]
"""(last written in Unix time, whose, path below its folder)"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Since:
    """What is asked for, in Unix time, seconds.

    Attributes:
        written: files written from this moment on.
        first: those from this moment on are listed before older ones, where there are too many to list.
    """

    written: float
    first: float


class Look(BaseModel):
    """What somebody found who looked, or why nobody could.

    Attributes:
        count: files of compiled code; null where nobody could look.
        files: those that are listed, by time.
        why_not: why nobody could look; null where somebody did.
        replica: whose, from 0; null where there is one engine, or where all of several keep their code in one place.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    count: Count | None = None
    files: Annotated[tuple[WrittenFile, ...], Field(max_length=FILES_LISTED)] = ()
    why_not: WhyNot | None = None
    replica: int | None = None

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        check_agrees(self.count, len(self.files), self.why_not)
        return self


class CompiledCode(Protocol):
    """Where an engine keeps compiled code. Two that are equal are one place."""

    def since(self, moment: Since) -> Look:
        """What was written there.

        Never raises. Takes `WITHIN_S` or little more where a disk hangs, a minute where the Docker Engine does.
        """
        ...


@dataclass(frozen=True)
class FoldersHere:
    """Folders of this host.

    Attributes:
        folders: by whose they are; None where the engine may have others, that are not its own.
    """

    folders: Mapping[str, Path] | None

    @classmethod
    def of(cls, env: Mapping[str, str]) -> FoldersHere:
        """Those that an engine's environment names."""
        return cls(named_caches(env))

    def since(self, moment: Since) -> Look:
        """See `CompiledCode`."""
        if self.folders is None:
            return could_not(NOT_NAMED)
        try:
            count, files = newer(**question(self.folders, moment))
        except OSError as error:
            return could_not(str(error))
        return Look.model_validate({"count": count, "files": files})


def question(folders: Mapping[str, Path], moment: Since) -> dict[str, Any]:
    """What `bench.engine.cache_walk.newer` is asked; may be written as JSON."""
    return {
        "folders": {name: str(folder) for name, folder in folders.items()},
        "since": moment.written,
        "first": moment.first,
        "most": FILES_LISTED,
        "within_s": WITHIN_S,
    }


def could_not(why: str) -> Look:
    """The look of somebody who could not."""
    return Look(why_not=plain(why)[:_REASON_LETTERS])
