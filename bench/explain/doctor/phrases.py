"""How the knowledge files describe lines: plain words with "*" between them, and places to read a value from.

No regular expression comes from data: a phrase is searched piece by piece, from left to right, which takes time linear
in the line's length whatever the line is; a reading is one fixed text with bounded numbers in it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

Value: TypeAlias = float | str

_SHORTEST_PIECE: Final = 3
"""Letters of a phrase's first piece: shorter ones are in every line."""


@dataclass(frozen=True, slots=True)
class Phrase:
    """Words that a line holds, in this order: "max_num_seqs (*) exceeds available Mamba". Case does not matter.

    Args:
        text: the words; "*" stands for anything between two of them.

    Raises:
        ValueError: it begins with "*" or with too few letters.
    """

    text: str
    pieces: tuple[str, ...] = field(init=False, compare=False)

    def __post_init__(self) -> None:
        pieces = tuple(piece for piece in self.text.lower().split("*") if piece)
        if not pieces or self.text.startswith("*") or len(pieces[0]) < _SHORTEST_PIECE:
            raise ValueError(f"a phrase begins with {_SHORTEST_PIECE} letters or more: {self.text!r}")
        object.__setattr__(self, "pieces", pieces)

    def is_in(self, lowered: str) -> bool:
        """Whether a text, in lower case, holds it."""
        at = 0
        for piece in self.pieces:
            found = lowered.find(piece, at)
            if found < 0:
                return False
            at = found + len(piece)
        return True


_FORMS: Final = {
    "number": r"([-+]?\d{1,15}(?:,\d{3}){0,6}(?:\.\d{1,12})?)",
    "word": r"([\w.+-]{1,80})",
    "largest": r"([\d, ]{1,12000})",
}
_PLACE: Final = re.compile(r"<([a-z][a-z0-9-]*)(?::([a-z]+))?>")
Keep: TypeAlias = Literal["first", "last", "smallest", "largest"]


@dataclass(frozen=True, slots=True)
class Reading:
    """Reads values out of a line: "Setting attention block size to <block-size> tokens".

    `<name>` is a number, `<name:word>` a word, `<name:largest>` the largest of a list of numbers.

    Args:
        text: fixed text with such places; it begins with fixed text.
        only_in: the line must hold this too.
        keep: which one counts where several lines say it (ranks, restarts of a part).

    Raises:
        ValueError: it has no place, or does not begin with fixed text.
    """

    text: str
    only_in: str = ""
    keep: Keep = "last"
    head: str = field(init=False, compare=False)
    names: tuple[str, ...] = field(init=False, compare=False)
    _pattern: re.Pattern[str] = field(init=False, compare=False, repr=False)
    _forms: tuple[str, ...] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        fixed = _PLACE.split(self.text)
        literals, names, forms = fixed[0::3], fixed[1::3], [form or "number" for form in fixed[2::3]]
        unknown = [form for form in forms if form not in _FORMS]
        if not names or unknown or len(literals[0].strip()) < _SHORTEST_PIECE:
            raise ValueError(f"a reading is fixed text with <name>, <name:word> or <name:largest>: {self.text!r}")
        pattern = re.escape(literals[0])
        for form, literal in zip(forms, literals[1:], strict=True):
            pattern += _FORMS[form] + re.escape(literal)
        object.__setattr__(self, "head", literals[0])
        object.__setattr__(self, "names", tuple(names))
        object.__setattr__(self, "_pattern", re.compile(pattern))
        object.__setattr__(self, "_forms", tuple(forms))

    def read(self, message: str) -> dict[str, Value]:
        """The values that this line gives; none where it does not fit."""
        if self.head not in message or self.only_in not in message:
            return {}
        found = self._pattern.search(message)
        if found is None:
            return {}
        return {
            name: value
            for name, form, text in zip(self.names, self._forms, found.groups(), strict=True)
            if (value := _value(form, text)) is not None
        }


def keep(which: Keep, old: Value | None, new: Value) -> Value:
    """The one of two readings that counts."""
    if old is None or which == "last":
        return new
    if which == "first" or isinstance(old, str) or isinstance(new, str):
        return old
    return min(old, new) if which == "smallest" else max(old, new)


def _value(form: str, text: str) -> Value | None:
    if form == "word":
        return text
    if form == "largest":
        numbers = [int(part) for part in text.split(",") if part.strip().isdigit() and len(part) < 16]
        return float(max(numbers)) if numbers else None
    return float(text.replace(",", ""))
