"""With what a report is signed: this user's key, or keyless in the name of an identity."""

from __future__ import annotations

from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from bench.errors import StreamproofError
from bench.report import keys, verify_show
from bench.report.trust import keyless
from bench.report.trust.instance import instance_file
from bench.report.trust.means import Means
from bench.report.trust.validity import Signed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from bench.report.keys import Attester


def can_sign(means: Means, say: Callable[[str], None]) -> None:
    """Returns when it looks as if one could sign so, before hours of measurement.

    Args:
        means: what shall sign.
        say: takes a line for people, where others will not trust what this key signs today.

    Raises:
        StreamproofError: says what is missing.
    """
    if means is Means.KEYLESS:
        keyless.can_sign()
    elif doubt := _doubt(datetime.now(UTC)):
        say(doubt)


def _doubt(now: datetime) -> str:
    """Why this checkout does not trust what this user's own key signs now; empty where nothing speaks against it."""
    try:
        trust = keys.trusted_keys(allow_list=verify_show.ALLOW_LIST)
    except StreamproofError as error:  # it is for whoever verifies to mend
        return error.message
    for key in (*trust.values(), *trust.compromised.values()):
        if key.origin == keys.OWN and (refused := key.validity.judge(Signed(now, now, attested=False), now).refused):
            return f"What your key signs will be refused: {refused}. Exchange it: just keys rotate"
    return ""


@contextmanager
def attester(means: Means, say: Callable[[str], None]) -> Iterator[Attester]:
    """Whoever signs.

    Args:
        means: what signs.
        say: takes lines for people.

    Raises:
        StreamproofError: there is no usable key, or no identity.
    """
    if means is Means.KEY:
        yield keys.own_signer()
        return
    with keyless.keyless(instance_file(), say) as signer:
        yield signer
