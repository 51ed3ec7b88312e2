"""The knowledge files as typed entries.

`knowledge/*.toml` are families of failures; `knowledge/signs/signs.toml` says how to read a log at all: values, death
notices, functions and their stages, other servers.

Everything is checked when it is loaded: a stage, a value or a group that does not exist is an error.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal, TypeAlias, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from bench.engine.stages import Stage
from bench.errors import StreamproofError
from bench.explain.doctor.phrases import Keep, Phrase, Reading
from bench.explain.doctor.releases import parse_release

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

FOLDER: Final = Path(__file__).with_name("knowledge")

OTHER_STAGES: Final = (
    "device-init/container",
    "checkpoint-mismatch",
    "graph-profiling-scratch-KV",
    "runtime-crash",
    "runtime-hang",
    "runtime-correctness",
    "silent-perf",
    "bench-client",
    "request",
)
"""Where things fail besides the stages that a start announces in its log."""

STAGES: Final = frozenset({*(stage.value for stage in Stage), *OTHER_STAGES})

COMPUTED: Final = frozenset(
    {
        "seconds",
        "decode-width",
        "served-requests",
        "busy-reports",
        "stalled-reports",
        "prefix-hit-rate-max",
        "acceptance-max",
        "acceptance-reports",
    }
)
"""Values that no single line gives. See `bench.explain.doctor.start`."""

Kind: TypeAlias = Literal["failure", "downgrade", "note"]
Outcome: TypeAlias = Literal["failed", "unexplained", "unfinished", "served"]
"""How a start ended: a failure with a cause in the log; only echoes of one; the log ends first; requests served."""

Name = Annotated[str, Field(pattern=r"^[a-z0-9]+(?:-[a-z0-9]+)*$")]
Version = Annotated[str, Field(pattern=r"^\d+\.\d+(?:\.\d+)?$")]
Reference = Annotated[str, Field(pattern=r"^(?:[\w.-]+/[\w.-]+#\d+|https://\S+)$")]
Sentence = Annotated[str, Field(min_length=3, max_length=900)]


_Model = TypeVar("_Model", bound=BaseModel)


class _Data(BaseModel):
    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, alias_generator=lambda name: name.replace("_", "-")
    )


class Comparison(_Data):
    """`left operator right`: a value against a number or another value, e.g. "block-size > max-model-len"."""

    left: str
    operator: str
    right: str | float

    @classmethod
    def parse(cls, text: str) -> Comparison:
        """Raises ValueError where the text is no comparison."""
        found = re.fullmatch(r"([a-z][a-z0-9-]*) (<|<=|>|>=|==|!=) (-?\d+(?:\.\d+)?|[a-z][a-z0-9-]*)", text)
        if found is None:
            raise ValueError(f"this is no comparison of a value with a number or another value: {text!r}")
        left, operator, right = found.groups()
        return cls(left=left, operator=operator, right=right if right[0].isalpha() else float(right))

    @property
    def names(self) -> tuple[str, ...]:
        """The values that it needs."""
        return (self.left, self.right) if isinstance(self.right, str) else (self.left,)


class When(_Data):
    """What a log must show. Every field that is given must hold. "@name" in a list of phrases stands for a group.

    Attributes:
        errors: one of these is in the failure's exceptions.
        errors_none: none of these is.
        frames: all these functions are in its traceback.
        frames_any: one of these is.
        frames_none: none of these is.
        lines: all these were seen in this start.
        lines_any: one of these was.
        lines_none: none of these was, before the failure or (without one) at all.
        stages: the start stood at one of these stages when it failed or the log ended.
        values: comparisons that hold. One that needs a value which the log does not give does not hold.
        outcomes: how the start ended.
        quote: no condition: if one of these was seen, it is evidence too.
    """

    errors: list[str] = []
    errors_none: list[str] = []
    frames: list[str] = []
    frames_any: list[str] = []
    frames_none: list[str] = []
    lines: list[str] = []
    lines_any: list[str] = []
    lines_none: list[str] = []
    stages: list[str] = []
    values: list[str] = []
    outcomes: list[Outcome] = []
    quote: list[str] = []

    @property
    def about_failure(self) -> bool:
        """Whether it needs an exception."""
        return bool(self.errors or self.frames or self.frames_any)

    @property
    def phrases(self) -> Iterator[str]:
        """Every phrase or group that it names."""
        for listed in (self.errors, self.errors_none, self.lines, self.lines_any, self.lines_none, self.quote):
            yield from listed


class Fix(_Data):
    """What to do, in some releases or all.

    `{value}` or `{value|words}` in it stands for a value of the log, or for the words where the log does not give it.
    """

    since: Version | None = None
    before: Version | None = None
    say: Sentence
    run: list[str] = []


class Entry(_Data):
    """One thing that goes wrong. See `knowledge/README.md`."""

    id: Name
    kind: Kind
    title: Annotated[str, Field(max_length=120)]
    stage: str
    since: Version | None = None
    before: Version | None = None
    precedence: Annotated[int, Field(ge=0, le=100)] = 50
    allocation: str | None = None
    cause: Sentence
    consequence: Sentence | None = None
    is_not: list[str] = []
    references: Annotated[list[Reference], Field(min_length=1)]
    when: When | None = None
    fix: list[Fix] = []

    @property
    def texts(self) -> tuple[str, ...]:
        """Every text that values of the log are filled into."""
        said = (self.title, self.allocation or "", self.cause, self.consequence or "", *self.is_not)
        return (*said, *(text for fix in self.fix for text in (fix.say, *fix.run)))

    @model_validator(mode="after")
    def _consistent(self) -> Entry:
        if self.stage not in STAGES:
            raise ValueError(f"{self.id}: there is no stage {self.stage!r}")
        if self.kind == "downgrade" and self.consequence is None:
            raise ValueError(f"{self.id}: a downgrade says what its consequence is")
        if self.kind != "note" and not self.fix:
            raise ValueError(f"{self.id}: a {self.kind} has a fix")
        for low, high in ((self.since, self.before), *((fix.since, fix.before) for fix in self.fix)):
            if low and high and (parse_release(low) or (0, 0, 0)) >= (parse_release(high) or (0, 0, 0)):
                raise ValueError(f"{self.id}: no release is {low} or newer and before {high}")
        for stage in self.when.stages if self.when else ():
            if stage not in STAGES:
                raise ValueError(f"{self.id}: there is no stage {stage!r}")
        return self


class _Family(_Data):
    family: Name
    title: str
    entry: list[Entry]


class _Fact(_Data):
    text: str
    only_in: str = ""
    keep: Keep = "last"


class _Frame(_Data):
    function: str
    stage: str

    @model_validator(mode="after")
    def _known(self) -> _Frame:
        if self.stage not in STAGES:
            raise ValueError(f"{self.function}: there is no stage {self.stage!r}")
        return self


class _Server(_Data):
    name: str
    lines: list[str]
    advice: str = ""


class _Signs(_Data):
    """What `signs.toml` holds; see the comments there."""

    fact: list[_Fact]
    groups: dict[str, list[str]]
    frame: list[_Frame]
    server: list[_Server]


@dataclass(frozen=True)
class Server:
    """A server that is not vLLM, and how to know its log."""

    name: str
    phrases: tuple[Phrase, ...]
    advice: str


@dataclass(frozen=True)
class Knowledge:
    """All that the doctor knows.

    Attributes:
        entries: of all families.
        families: title of each family by the entry's id.
        readings: where values stand.
        groups: phrases by group name.
        frame_stages: stage by function name.
        servers: other servers.
    """

    entries: tuple[Entry, ...]
    families: dict[str, str]
    readings: tuple[Reading, ...]
    groups: dict[str, tuple[Phrase, ...]]
    frame_stages: dict[str, str]
    servers: tuple[Server, ...]

    def phrases(self, listed: Iterable[str]) -> tuple[Phrase, ...]:
        """The phrases that a list of phrases and groups means."""
        return tuple(phrase for text in listed for phrase in _resolved(text, self.groups))


@cache
def knowledge(folder: Path = FOLDER) -> Knowledge:
    """Reads the knowledge files.

    Raises:
        StreamproofError: one of them is not valid.
    """
    signs = _read(folder / "signs" / "signs.toml", _Signs)
    families = [_read(path, _Family) for path in sorted(folder.glob("*.toml"))]
    entries = tuple(entry for family in families for entry in family.entry)
    try:
        groups = {name: tuple(Phrase(text) for text in texts) for name, texts in signs.groups.items()}
        readings = tuple(Reading(fact.text, fact.only_in, fact.keep) for fact in signs.fact)
        _check(entries, groups, {*(name for reading in readings for name in reading.names), *COMPUTED})
        servers = tuple(
            Server(server.name, tuple(Phrase(text) for text in server.lines), server.advice) for server in signs.server
        )
    except ValueError as error:
        raise StreamproofError(
            f"the knowledge in {folder} is not valid: {error}", remedy="Compare the file with the one in git."
        ) from error
    return Knowledge(
        entries=entries,
        families={entry.id: family.title for family in families for entry in family.entry},
        readings=readings,
        groups=groups,
        frame_stages={frame.function: frame.stage for frame in signs.frame},
        servers=servers,
    )


def _resolved(text: str, groups: dict[str, tuple[Phrase, ...]]) -> tuple[Phrase, ...]:
    if not text.startswith("@"):
        return (Phrase(text),)
    if text[1:] not in groups:
        raise ValueError(f"there is no group {text}")
    return groups[text[1:]]


def _check(entries: tuple[Entry, ...], groups: dict[str, tuple[Phrase, ...]], values: set[str]) -> None:
    ids = [entry.id for entry in entries]
    if twice := next((name for name in ids if ids.count(name) > 1), None):
        raise ValueError(f"two entries are called {twice}")
    for entry in entries:
        for name in (name for text in entry.texts for name in placeholders(text)):
            if name not in values:
                raise ValueError(f"{entry.id}: no line gives a value {name}")
        if entry.when is None:
            continue
        for text in entry.when.phrases:
            _resolved(text, groups)
        for text in entry.when.values:
            for name in Comparison.parse(text).names:
                if name not in values:
                    raise ValueError(f"{entry.id}: no line gives a value {name}")


_PLACEHOLDER: Final = re.compile(r"\{([a-z][a-z0-9-]*)(?:\|([^{}]*))?\}")


def placeholders(text: str) -> list[str]:
    """Names of the values that a fix uses."""
    return [found[1] for found in _PLACEHOLDER.finditer(text)]


def filled(text: str, values: dict[str, str]) -> str:
    """A fix with the log's values in it."""
    return _PLACEHOLDER.sub(lambda found: values.get(found[1]) or found[2] or f"<{found[1]}>", text)


def _read(path: Path, model: type[_Model]) -> _Model:
    try:
        return model.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
    except (OSError, tomllib.TOMLDecodeError, ValidationError) as error:
        raise StreamproofError(
            f"the doctor's knowledge is not valid: {path}: {error}", remedy="Compare the file with the one in git."
        ) from error
