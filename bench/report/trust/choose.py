"""With what a report is signed: this user's key, or keyless in the name of an identity."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from bench.report import keys
from bench.report.trust import keyless
from bench.report.trust.instance import instance_file
from bench.report.trust.means import Means

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from bench.report.keys import Attester


def can_sign(means: Means) -> None:
    """Returns when it looks as if one could sign so, before hours of measurement.

    Raises:
        StreamproofError: says what is missing.
    """
    if means is Means.KEYLESS:
        keyless.can_sign()


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
