"""For which time a signer is trusted, and what that says about a signature of a given time.

Two kinds of time of signing are told apart. With a local key it is the signer's own word: whoever holds the key can put
any date. With a keyless signature an authority and a public log vouch for it, to within the ten minutes or so that the
certificate was valid.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, Literal, TypeAlias

Reason: TypeAlias = Literal["compromised", "superseded", "ceased"]
"""Why trust was withdrawn, after RFC 5280, section 5.3.1: keyCompromise, superseded, cessationOfOperation. Somebody
else may use a compromised key; the others only stopped being used."""


@dataclass(frozen=True, slots=True)
class Revocation:
    """Trust that was withdrawn.

    Attributes:
        at: from this moment on, UTC.
        reason: see above.
        why: for people.
    """

    at: datetime
    reason: Reason
    why: str

    def __str__(self) -> str:
        return f"{self.reason}, {self.why}" if self.why else self.reason


@dataclass(frozen=True, slots=True)
class Signed:
    """When a signature was made.

    Attributes:
        first, last: it was made between them; the same moment where the signer says it.
        attested: others than the signer vouch for it.
    """

    first: datetime
    last: datetime
    attested: bool

    def __str__(self) -> str:
        if self.first == self.last:
            return moment(self.first)
        first, last = self.first.astimezone(UTC), self.last.astimezone(UTC)
        return f"{first:%Y-%m-%d}, between {first:%H:%M:%S} and {last:%H:%M:%S} UTC"


@dataclass(frozen=True, slots=True)
class Judgement:
    """Whether a signature counts.

    Attributes:
        refused: why not; empty when it counts.
        notes: what should be known of one that counts.
    """

    refused: str = ""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Validity:
    """For which time a signer is trusted.

    Attributes:
        not_before: from this moment on; None from ever.
        not_after: up to this moment, itself left out; None for ever.
        revoked: None where it is not.
    """

    not_before: datetime | None = None
    not_after: datetime | None = None
    revoked: Revocation | None = None

    @property
    def limited(self) -> bool:
        """Whether a signature needs a time to be judged."""
        return self != ALWAYS

    @property
    def compromised(self) -> bool:
        """Whether somebody else may use the signer's key."""
        return self.revoked is not None and self.revoked.reason == "compromised"

    @property
    def lenience(self) -> int:
        """Of several entries for one signer, the one where this is least counts: withdrawn trust before any other."""
        if self.revoked is not None:
            return 0 if self.compromised else 1
        return 2 if self.limited else 3

    def judge(self, signed: Signed | None, now: datetime) -> Judgement:
        """Says whether a signature counts.

        Args:
            signed: when it was made; None where nobody says.
            now: an aware time.
        """
        if not self.limited:
            return Judgement()
        if self.revoked is not None and self.compromised and not (signed and signed.attested):
            return Judgement(
                f"the signer's key was revoked on {day(self.revoked.at)} ({self.revoked}): whoever has it can put any "
                "date on a signature, so none of it counts"
            )
        if signed is None:
            return Judgement("it says no time of signing, and its signer is trusted for a limited time only")
        refused = self._refused(signed)
        return Judgement(refused) if refused else Judgement(notes=self._notes(signed, now))

    def _refused(self, signed: Signed) -> str:
        when = f"{'it was' if signed.attested else 'it says that it was'} signed on {signed}"
        if self.not_before is not None and signed.first < self.not_before:
            return f"{when}; its signer is trusted from {day(self.not_before)} on"
        if self.not_after is not None and signed.last >= self.not_after:
            return f"the signer's key had expired: {when}; it is trusted until {last_day(self.not_after)}"
        if self.revoked is not None and signed.last >= self.revoked.at:
            return f"the signer's key had been revoked on {day(self.revoked.at)} ({self.revoked}): {when}"
        return ""

    def _notes(self, signed: Signed, now: datetime) -> tuple[str, ...]:
        word = "" if signed.attested else BACKDATED
        if self.revoked is not None and self.revoked.at <= now:
            what = f"The signer's key was revoked on {day(self.revoked.at)} ({self.revoked})"
        elif self.not_after is not None and self.not_after <= now:
            what = f"The signer's key expired after {last_day(self.not_after)}"
        else:
            return ()
        return (f"{what}; this was signed before.{word}",)


ALWAYS: Final = Validity()
"""Trusted for ever, from ever."""

BACKDATED: Final = " That time is the signer's own word: whoever holds the key today could have put it."


def day(when: datetime) -> str:
    """A date for people, UTC."""
    return f"{when.astimezone(UTC):%Y-%m-%d}"


def last_day(end: datetime) -> str:
    """The day of the last moment before `end`, UTC."""
    return day(end - timedelta(microseconds=1))


def moment(when: datetime) -> str:
    """A time for people, UTC."""
    return f"{when.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
