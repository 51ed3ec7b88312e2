"""This user's own key: made, and exchanged for another.

What was one's own key before stays trusted for what it signed while it was: its public half moves to the allow list
`former/` beside the new key. Its private half is deleted; nothing that it signed needs it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from bench.errors import StreamproofError, UsageError
from bench.report import keys
from bench.report.folder_files import write_whole
from bench.report.trust.edit import Limits, add_key, revoke_file

if TYPE_CHECKING:
    from pathlib import Path

    from bench.report.keys import Signer
    from bench.report.trust.validity import Reason


@dataclass(frozen=True, slots=True)
class Rotated:
    """A key that took another one's place.

    Attributes:
        signer: the new key.
        former: id of the one before; None where there was none.
    """

    signer: Signer
    former: str | None


def new(folder: Path) -> Signer:
    """Makes a key where there is none.

    Raises:
        UsageError: there is one.
        StreamproofError: it cannot be made.
    """
    if (folder / keys.PRIVATE_NAME).exists():
        raise UsageError(
            f"there is a key already: {folder / keys.PRIVATE_NAME}",
            remedy="`just keys list` shows it, and `just keys rotate` exchanges it.",
        )
    return keys.own_signer(folder)


def rotate(folder: Path, reason: Reason, why: str, *, now: datetime | None = None) -> Rotated:
    """Makes a new key, and ends the one before.

    Whatever stops it half-way leaves either key in place, never none: the former public half is written first, the
    private one goes last.

    Args:
        folder: where the key lives.
        reason: why it is exchanged. Of a compromised one, nothing that it ever signed is trusted any more.
        why: for people.
        now: the moment from which on the former key is not to be used; by default now.

    Raises:
        StreamproofError: a file cannot be read or written.
    """
    private = folder / keys.PRIVATE_NAME
    if not private.exists():
        return Rotated(keys.own_signer(folder), None)
    before = keys.own_signer(folder)
    # The next full second: times of signing are written without fractions, and none shall look later than it was.
    now = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=1) if now is None else now
    name = f"{before.key_id[:16]}.pem"
    place = folder / keys.FORMER
    try:
        place.mkdir(mode=0o700, exist_ok=True)
        write_whole(place / name, keys.public_pem(before.public))
        add_key(place, name, "yours", Limits())
        revoke_file(place, name, reason=reason, why=why, at=now)
        private.unlink()
    except OSError as error:
        raise StreamproofError(
            f"cannot exchange the key {private}: {error.strerror}", remedy="Mend the permissions of its folder."
        ) from error
    return Rotated(keys.own_signer(folder), before.key_id)
