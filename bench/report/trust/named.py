"""An identity that somebody names on the command line."""

from __future__ import annotations

from pydantic import ValidationError

from bench.errors import UsageError
from bench.report.keys import TrustedIdentity
from bench.report.trust.allow_list import IdentityEntry


def named_identity(identity: str | None, issuer: str | None) -> tuple[TrustedIdentity, ...]:
    """The identity of `--identity` and `--issuer`; none where neither is given.

    Raises:
        UsageError: one without the other, or none that a certificate could have.
    """
    if identity is None and issuer is None:
        return ()
    if identity is None or issuer is None:
        raise UsageError(
            "--identity and --issuer belong together: a name proves nothing without who vouches for it.",
            remedy="E.g. --issuer https://token.actions.githubusercontent.com for a workflow of GitHub Actions.",
        )
    try:
        entry = IdentityEntry(identity=identity, issuer=issuer, whose="the command line")
    except ValidationError as error:
        which = str(error.errors(include_url=False)[0]["loc"][0])
        remedy = "A whole name, or the URL of a workflow with a * at the end, after an @ and something more."
        raise UsageError(
            f"--{which}: no certificate has this, or it would fit too many.",
            remedy=remedy if which == "identity" else "It begins with https://.",
        ) from error
    return (TrustedIdentity(entry.identity, entry.issuer, "--identity"),)
