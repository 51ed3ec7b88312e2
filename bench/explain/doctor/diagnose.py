"""From a start to its diagnosis: the entry of the knowledge that fits best, its evidence, its fix for that release."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from bench.explain.doctor.cause import Causes, causes
from bench.explain.doctor.knowledge import Comparison, Entry, Fix, When, filled
from bench.explain.doctor.phrases import Phrase, Value
from bench.explain.doctor.releases import Release, in_range, parse_release
from bench.explain.doctor.start import LONGEST_QUOTE, Quote, Seen, Start

if TYPE_CHECKING:
    from bench.explain.doctor.knowledge import Knowledge, Outcome

_OPERATORS: Final[dict[str, Callable[[Value, Value], bool]]] = {
    "<": lambda a, b: float(a) < float(b),
    "<=": lambda a, b: float(a) <= float(b),
    ">": lambda a, b: float(a) > float(b),
    ">=": lambda a, b: float(a) >= float(b),
    "==": operator.eq,
    "!=": operator.ne,
}
_MOST_EVIDENCE: Final = 8
_ASKED: Final = re.compile(
    r"[Tt]ried to allocate (?P<asked>[\d.]{1,12} ?[KMGT]?i?B)\b|(?P<bytes>\d{6,16}) bytes|"
    r"DefaultCPUAllocator: can't allocate memory: you tried to allocate (?P<cpu>\d{1,16})"
)
_ROOM: Final = re.compile(
    r"total capacity of (?P<total>[\d.]{1,12} \w{2,3}) of which (?P<free>[\d.]{1,12} \w{2,3}) is free"
)


@dataclass(frozen=True)
class Remedy:
    """One thing to do.

    Attributes:
        say: in words.
        run: commands or flags, values of the log filled in.
        fix: the knowledge's own, with the releases that it is for.
    """

    say: str
    run: tuple[str, ...]
    fix: Fix


@dataclass(frozen=True)
class Finding:
    """An entry that this log shows, with the log's values in its texts.

    Attributes:
        entry: the knowledge's entry.
        title: what it is.
        cause: why.
        consequence: what it costs; None for a failure.
        is_not: what it may be mistaken for.
        evidence: the lines that show it, in the order of the log.
        remedies: what to do in this release; in all releases where the log does not name its own.
    """

    entry: Entry
    title: str
    cause: str
    consequence: str | None
    is_not: tuple[str, ...]
    evidence: tuple[Quote, ...]
    remedies: tuple[Remedy, ...]


@dataclass(frozen=True)
class Diagnosis:
    """What is known about one start.

    Attributes:
        number: which start of the log.
        first_line: its first line.
        last_line: its last.
        version: of vLLM, as the log says it; None where it does not.
        outcome: how it ended.
        stage: where it failed, or how far it came.
        reached: the last stage that the log announces before the failure, or at all.
        finding: the cause of a failure, where it is known.
        allocation: what could not be allocated, with the size where the log says it; None where nothing.
        downgrades: what the engine does worse than was asked, in silence.
        notes: what is worth knowing and no fault.
        failure: the failure that is explained, or that is not.
        quotes: the lines to look at where the cause is not known.
        failed_requests: failures that the engine survived while it served.
        values: what the log says of the engine.
        stopped: somebody ended it in good order.
    """

    number: int
    first_line: int
    last_line: int
    version: str | None
    outcome: Outcome
    stage: str
    reached: str
    finding: Finding | None
    allocation: str | None
    downgrades: tuple[Finding, ...]
    notes: tuple[Finding, ...]
    failure: Seen | None
    quotes: tuple[Quote, ...]
    failed_requests: tuple[Seen, ...]
    values: dict[str, Value]
    stopped: bool

    @property
    def failed(self) -> bool:
        """Whether it did not come to serve, or ceased to."""
        return self.outcome != "served" or self.finding is not None


def diagnose(start: Start, known: Knowledge) -> Diagnosis:
    """The diagnosis of a start that was read to its end."""
    found = causes(start, known)
    version = start.values.get("version")
    release = parse_release(str(version)) if version is not None else None
    matcher = _Matcher(start, known, found.outcome, release)
    root, entry = _explain(found, matcher)
    stage = _stage(start, root, entry, known)
    failure = root.failure if root else None
    if root is not None:
        matcher.prefer(root)
    side = tuple(
        finding
        for finding in (matcher.finding(entry, None) for entry in known.entries if entry.kind != "failure")
        if finding is not None
    )
    return Diagnosis(
        number=start.number,
        first_line=start.first_line,
        last_line=start.last_line,
        version=None if version is None else str(version),
        outcome=found.outcome,
        stage=stage,
        reached=(root.stage if root else start.stage).value,
        finding=matcher.finding(entry, root, checked=True) if entry else None,
        allocation=_allocation(failure.text if failure else "", entry, matcher.texts),
        downgrades=tuple(finding for finding in side if finding.entry.kind == "downgrade"),
        notes=tuple(finding for finding in side if finding.entry.kind == "note" and found.outcome == "served"),
        failure=root,
        quotes=_quotes(start, found),
        failed_requests=_failed_requests(start, found),
        values=dict(start.values),
        stopped=start.stopped is not None,
    )


def _explain(found: Causes, matcher: _Matcher) -> tuple[Seen | None, Entry | None]:
    """The failure and the entry that explains it. One that was cut off gives way to a whole one that is known."""
    if found.root is None:
        return None, matcher.best(None)
    entry = matcher.best(found.root)
    if entry is None and not found.root.failure.raised:
        for seen in found.others:
            if (other := matcher.best(seen)) is not None:
                return seen, other
    return found.root, entry


class _Matcher:
    """Decides which entries one start shows."""

    def __init__(self, start: Start, known: Knowledge, outcome: Outcome, release: Release | None) -> None:
        self._start = start
        self._known = known
        self._outcome = outcome
        self._release = release
        self.texts = {name: _number(value) for name, value in start.values.items()}

    def prefer(self, seen: Seen) -> None:
        """Texts take their values from the failure that they explain, where other ranks say other ones."""
        for line in seen.failure.text.split("\n"):
            for reading in self._known.readings:
                self.texts |= {name: _number(value) for name, value in reading.read(line).items()}

    def best(self, seen: Seen | None) -> Entry | None:
        """The failure's entry: the one of the highest precedence, then the one that asks for most."""
        fitting = [
            entry
            for entry in self._known.entries
            if entry.kind == "failure"
            and entry.when is not None
            and entry.when.about_failure == (seen is not None)
            and self._fits(entry, entry.when, seen)
        ]
        if not fitting and seen is not None:
            fitting = [
                entry
                for entry in self._known.entries
                if entry.kind == "failure"
                and entry.when is not None
                and not entry.when.about_failure
                and "failed" in entry.when.outcomes
                and self._fits(entry, entry.when, seen)
            ]
        return max(fitting, key=lambda entry: (entry.precedence, _asks(entry)), default=None)

    def finding(self, entry: Entry, seen: Seen | None, *, checked: bool = False) -> Finding | None:
        """An entry with its evidence and its fix; None where the start does not show it."""
        when = entry.when
        if when is None or not (checked or self._fits(entry, when, seen)):
            return None
        texts = self.texts
        remedies = tuple(
            Remedy(filled(fix.say, texts), tuple(filled(command, texts) for command in fix.run), fix)
            for fix in entry.fix
            if in_range(self._release, fix.since, fix.before)
        )
        return Finding(
            entry,
            title=filled(entry.title, texts),
            cause=filled(entry.cause, texts),
            consequence=None if entry.consequence is None else filled(entry.consequence, texts),
            is_not=tuple(filled(text, texts) for text in entry.is_not),
            evidence=self._evidence(entry, when, seen),
            remedies=remedies,
        )

    def _fits(self, entry: Entry, when: When, seen: Seen | None) -> bool:
        if not in_range(self._release, entry.since, entry.before):
            return False
        if when.outcomes and self._outcome not in when.outcomes:
            return False
        if when.about_failure and (seen is None or not self._fits_failure(when, seen)):
            return False
        if when.stages and not {self._start.stage.value if seen is None else seen.stage.value} & {*when.stages}:
            return False
        return self._fits_lines(when, seen) and all(self._holds(Comparison.parse(text)) for text in when.values)

    def _fits_failure(self, when: When, seen: Seen) -> bool:
        text, functions = seen.failure.text.lower(), set(seen.failure.functions)
        phrases = self._known.phrases
        # A log that was cut off inside its traceback shows where, and not yet what.
        cut_off = not seen.failure.raised and bool(when.frames or when.frames_any)
        return (
            (cut_off or not when.errors or _any_in(phrases(when.errors), text))
            and not _any_in(phrases(when.errors_none), text)
            and functions.issuperset(when.frames)
            and (not when.frames_any or bool(functions.intersection(when.frames_any)))
            and not functions.intersection(when.frames_none)
        )

    def _fits_lines(self, when: When, seen: Seen | None) -> bool:
        lines = self._start.seen
        before = seen.failure.first_line if seen else None
        every = all(any(phrase.text in lines for phrase in self._known.phrases([text])) for text in when.lines)
        some = not when.lines_any or any(phrase.text in lines for phrase in self._known.phrases(when.lines_any))
        none = not any(
            phrase.text in lines and (before is None or lines[phrase.text].line < before)
            for phrase in self._known.phrases(when.lines_none)
        )
        return every and some and none

    def _holds(self, comparison: Comparison) -> bool:
        left = self._start.values.get(comparison.left)
        right = self._start.values.get(comparison.right) if isinstance(comparison.right, str) else comparison.right
        if left is None or right is None:
            return False
        return _OPERATORS[comparison.operator](left, right)

    def _evidence(self, entry: Entry, when: When, seen: Seen | None) -> tuple[Quote, ...]:
        quotes: list[Quote] = []
        if seen is not None:
            quotes += [
                Quote(raised.line, raised.text.split("\n")[0][:LONGEST_QUOTE]) for raised in seen.failure.raised[:3]
            ]
            if not seen.failure.raised:
                quotes.append(Quote(seen.failure.first_line, "a traceback begins here and is cut off"))
        for phrase in self._known.phrases([*when.lines, *when.lines_any, *when.quote]):
            if phrase.text in self._start.seen:
                quotes.append(self._start.seen[phrase.text])
        for name in (name for text in when.values for name in Comparison.parse(text).names):
            if name in self._start.value_quotes:
                quotes.append(self._start.value_quotes[name])
        if entry.kind == "failure" and seen is None and self._start.tail:
            quotes.append(self._start.tail[-1])
        by_line = {quote.line: quote for quote in reversed(quotes)}
        return tuple(sorted(by_line.values(), key=lambda quote: quote.line)[:_MOST_EVIDENCE])


def _stage(start: Start, root: Seen | None, entry: Entry | None, known: Knowledge) -> str:
    """The entry's stage; else that of the innermost function that is known; else how far the start had come."""
    if entry is not None:
        return entry.stage
    if root is None:
        return start.stage.value
    by_frame = [known.frame_stages[name] for name in root.failure.functions if name in known.frame_stages]
    if by_frame:
        return by_frame[-1]
    return "runtime-crash" if root.ready else root.stage.value


def _allocation(text: str, entry: Entry | None, values: dict[str, str]) -> str | None:
    """What was to be allocated and how much of it, as far as entry and exception say."""
    parts = [filled(entry.allocation, values)] if entry and entry.allocation else []
    if asked := _ASKED.search(text):
        size = asked["asked"] or f"{asked['bytes'] or asked['cpu']} bytes"
        parts.append(f"{size} asked for")
    if room := _ROOM.search(text):
        parts.append(f"{room['free']} of {room['total']} free")
    return "; ".join(parts) or None


def _quotes(start: Start, found: Causes) -> tuple[Quote, ...]:
    """Where to look: how far it came, what failed, how it ended."""
    quotes = [start.stage_quote] if start.stage_quote else []
    texts = {found.root.failure.text} if found.root else set()
    others = [seen for seen in found.others if seen.failure.text not in texts]
    for seen in [found.root, *others[:2]] if found.root else found.echoes[:2]:
        if seen is not None:
            quotes += [Quote(raised.line, raised.text[:LONGEST_QUOTE]) for raised in seen.failure.raised[:2]]
    if found.root is None or not found.root.failure.raised:
        quotes += list(start.tail)[-3:]
    by_line = {quote.line: quote for quote in reversed(quotes)}
    return tuple(sorted(by_line.values(), key=lambda quote: quote.line))


def _failed_requests(start: Start, found: Causes) -> tuple[Seen, ...]:
    """Failures while it served that it lived through; not what is said while it ends."""
    end = start.stopped.line if start.stopped else start.last_line + 1
    return tuple(
        seen
        for seen in found.survived
        if seen.ready and seen.failure.first_line < end and seen.failure.level in ("", "ERROR", "CRITICAL")
    )


def _asks(entry: Entry) -> int:
    when = entry.when or When()
    return sum(bool(getattr(when, name)) for name in type(when).model_fields if name != "quote")


def _any_in(phrases: tuple[Phrase, ...], text: str) -> bool:
    return any(phrase.is_in(text) for phrase in phrases)


def _number(value: Value) -> str:
    return value if isinstance(value, str) else f"{value:g}" if abs(value) < 1e6 else f"{value:.0f}"
