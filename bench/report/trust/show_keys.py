"""`just keys list`: everybody whom this checkout and this user trust, for which time, and why no longer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from bench.report.keys import key_id, parse_public, read_small
from bench.report.trust.validity import day, last_day

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path

    from bench.report.keys import Trust
    from bench.report.trust.allow_list import AllowList
    from bench.report.trust.validity import Validity


@dataclass(frozen=True, slots=True)
class Line:
    """One signer.

    Attributes:
        name: id of a key, or an identity with its issuer.
        origin: where the trust comes from.
        whose: for people; empty where nobody says.
        validity: for which time.
    """

    name: str
    origin: str
    whose: str
    validity: Validity

    def state(self, now: datetime) -> str:
        """In words: trusted or not, since when, until when."""
        limits = self.validity
        if limits.revoked is not None:
            none = "nothing it signed counts" if limits.compromised else "what it signed before still counts"
            return f"revoked on {day(limits.revoked.at)} ({limits.revoked}); {none}"
        if limits.not_before is not None and now < limits.not_before:
            return f"trusted from {day(limits.not_before)} on"
        if limits.not_after is not None and now >= limits.not_after:
            return f"expired after {last_day(limits.not_after)}; what it signed before still counts"
        return "trusted" if limits.not_after is None else f"trusted until {last_day(limits.not_after)}"


def lines(trust: Trust, allow_list: Path, listed: AllowList) -> list[Line]:
    """Every signer, keys first.

    Args:
        trust: who is trusted.
        allow_list: folder of the checkout.
        listed: what its `trust.toml` says.
    """
    named = {_id_in(allow_list / entry.file): entry.whose for entry in listed.keys}
    people = {(entry.identity, entry.issuer): entry.whose for entry in listed.identities}
    found = [
        Line(key.key_id, key.origin, named.get(key.key_id, ""), key.validity)
        for key in (*trust.values(), *trust.compromised.values())
    ]
    found += [
        Line(
            f"{each.identity}, says {each.issuer}",
            each.origin,
            people.get((each.identity, each.issuer), ""),
            each.validity,
        )
        for each in trust.identities
    ]
    return found


def _id_in(path: Path) -> str:
    return key_id(parse_public(read_small(path), str(path)))


def as_data(found: list[Line], now: datetime) -> list[dict[str, str]]:
    """For scripts."""
    return [{"name": line.name, "origin": line.origin, "whose": line.whose, "state": line.state(now)} for line in found]


def table(found: list[Line], now: datetime) -> Table:
    """For people; what stands in files is plain text and no markup."""
    shown = Table(box=None, pad_edge=False)
    for heading in ("signer", "from", "whose", "now"):
        shown.add_column(heading, overflow="fold")
    for line in found:
        shown.add_row(Text(line.name), Text(line.origin), Text(line.whose), Text(line.state(now)))
    return shown
