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
_FILES: Final = files("bench.workload") / "text"


@dataclass(frozen=True, slots=True)
class Sentence:
    """One finished sentence.

    Attributes:
        text: as it is spoken or written.
        facts: how many facts were filled in. Where there is no room for everything, what carries facts is kept first.
    """

    text: str
    facts: int


@cache
def table(name: str) -> dict[str, Any]:
    """The content of `text/<name>.toml`."""
    return tomllib.loads((_FILES / f"{name}.toml").read_text(encoding="utf-8"))


@cache
def raw(name: str) -> str:
    """The content of `text/<name>`."""
    return (_FILES / name).read_text(encoding="utf-8")


def filled(template: str, facts: Mapping[str, str]) -> Sentence:
    """`template` with its `{slots}` replaced and its first letter made upper case.

    Raises:
        KeyError: a slot has no fact.
    """
    text = template.format_map(facts)
    return Sentence(text[0].upper() + text[1:], len(_SLOT.findall(template)))


def spoken(slots: Iterable[str], facts: Mapping[str, str], rng: random.Random) -> list[Sentence]:
    """One sentence per slot, each in one of its "|"-separated wordings."""
    return [filled(rng.choice(slot.split("|")), facts) for slot in slots]


def shuffled(items: Sequence[Any], rng: random.Random) -> list[Any]:
    """The items in a random order."""
    return rng.sample(items, len(items))
