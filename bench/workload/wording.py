"""Templates of sentences: read from `text/*.toml`, filled with facts."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import random
    from collections.abc import Iterable, Mapping, Sequence

_SLOT: Final = re.compile(r"\{(\w+)\}")
_MARK: Final = "!"
_MARKED: Final = 100
"""The weight of the mark: more than any number of facts."""
_FILES: Final = files("bench.workload") / "text"


@dataclass(frozen=True, slots=True)
class Sentence:
    """One finished sentence.

    Attributes:
        text: as it is spoken or written.
        weight: how much it matters. Where there is no room for everything, the heaviest are kept: what is marked with
            "!" in the templates, then what carries most facts.
    """

    text: str
    weight: int


@cache
def table(name: str) -> dict[str, Any]:
    """The content of `text/<name>.toml`."""
    return tomllib.loads((_FILES / f"{name}.toml").read_text(encoding="utf-8"))


@cache
def raw(name: str) -> str:
    """The content of `text/<name>`."""
    return (_FILES / name).read_text(encoding="utf-8")


def filled(template: str, facts: Mapping[str, str]) -> Sentence:
    """`template` without its mark, its `{slots}` replaced, and its first letter made upper case.

    Raises:
        KeyError: a slot has no fact.
    """
    plain = template.removeprefix(_MARK)
    text = plain.format_map(facts)
    weight = len(_SLOT.findall(plain)) + (_MARKED if plain != template else 0)
    return Sentence(text[0].upper() + text[1:], weight)


def spoken(slots: Iterable[str], facts: Mapping[str, str], rng: random.Random) -> list[Sentence]:
    """One sentence per slot, each in one of its "|"-separated wordings."""
    return [one_of(slot, facts, rng) for slot in slots]


def one_of(slot: str, facts: Mapping[str, str], rng: random.Random) -> Sentence:
    """The slot in one of its "|"-separated wordings."""
    mark = _MARK if slot.startswith(_MARK) else ""
    return filled(mark + rng.choice(slot.removeprefix(_MARK).split("|")), facts)


def shuffled(items: Sequence[Any], rng: random.Random) -> list[Any]:
    """The items in a random order."""
    return rng.sample(items, len(items))
