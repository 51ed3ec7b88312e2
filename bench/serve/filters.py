"""Which entries the list shows: read from the address, written back into the form."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qs, urlencode

if TYPE_CHECKING:
    from collections.abc import Iterable

    from bench.serve.entry import Entry

TEXT_LIMIT: Final = 200
"""Letters of one value of an address; more are cut off."""
VALUES_LIMIT: Final = 100
WITHOUT_RUNS: Final = "all but runs of ablations"
"""The kinds that are shown unless one is chosen: an ablation may have dozens of runs."""


@dataclass(frozen=True, slots=True)
class Filters:
    """What is asked for; empty is everything.

    Attributes:
        kind, target, hardware, validity, verdict: equal to it.
        text: every word of it is in title, target, hardware, place, fingerprint or headline, in any case.
    """

    kind: str = ""
    target: str = ""
    hardware: str = ""
    validity: str = ""
    verdict: str = ""
    text: str = ""

    @classmethod
    def of(cls, query: str) -> Filters:
        """From the part of an address behind the question mark; what it does not know it leaves out."""
        values = parse_query(query)
        return cls(**{field.name: values[field.name][-1].strip() for field in fields(cls) if values.get(field.name)})

    def query(self) -> str:
        """As part of an address; empty where nothing is asked for."""
        return urlencode({field.name: value for field in fields(self) if (value := getattr(self, field.name))})

    def chosen(self, entries: Iterable[Entry]) -> list[Entry]:
        """Those that fit, in their order."""
        return [entry for entry in entries if self._fits(entry)]

    def _fits(self, entry: Entry) -> bool:
        exact = ("target", "hardware", "validity", "verdict")
        if any(wanted and getattr(entry, name) != wanted for name in exact if (wanted := getattr(self, name))):
            return False
        if entry.kind != self.kind if self.kind else entry.kind == "ablation run":
            return False
        words = (entry.title, entry.target, entry.hardware, entry.place, entry.fingerprint, entry.says.says)
        shown = "\n".join(words).casefold()
        return all(word in shown for word in self.text.casefold().split())


def parse_query(query: str) -> dict[str, list[str]]:
    """Names and values of a query, limited in number and length; what is no query has none."""
    try:
        values = parse_qs(query, max_num_fields=VALUES_LIMIT, errors="replace")
    except ValueError:  # more fields than that
        return {}
    return {name: [value[:TEXT_LIMIT] for value in found] for name, found in values.items()}
