"""`just verify`: prints what a verification came to."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

from rich.console import Console, Group
from rich.padding import Padding
from rich.text import Text

from bench.engine.pins import REPOSITORY
from bench.report import verify_words
from bench.report.folder_files import canonical_json
from bench.report.keys import trusted_keys
from bench.report.render.verdict import headline
from bench.report.verify import STEPS, verify

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from rich.console import RenderableType

    from bench.report.keys import TrustedIdentity
    from bench.report.trust.signatory import Signatory
    from bench.report.trust.validity import Signed
    from bench.report.verify import Verification

ALLOW_LIST: Final = REPOSITORY / "keys"
"""Keys and identities that this checkout trusts, see `bench.report.trust.allow_list`."""


def check_and_show(  # noqa: PLR0913  whom the user trusts, and how they want it told
    folder: Path,
    extra_keys: Sequence[Path],
    *,
    identities: Sequence[TrustedIdentity] = (),
    instance: Path | None = None,
    as_json: bool = False,
    named: str = "",
) -> int:
    """Verifies a report and prints the outcome.

    Args:
        folder: of the report.
        extra_keys: files with public keys that the user trusts.
        identities: that the user trusts.
        instance: the Sigstore instance that vouches for them; None for the one that the environment names.
        as_json: print one JSON object instead of text.
        named: what the user named, where that is not the folder.

    Returns:
        The exit code.

    Raises:
        StreamproofError: a key file that is none.
    """
    trusted = trusted_keys(allow_list=ALLOW_LIST, extra=extra_keys, identities=identities, instance=instance)
    return show(verify(folder, trusted, named=named), as_json=as_json)


def show(found: Verification, *, as_json: bool = False) -> int:
    """Prints an outcome, as text or as one JSON object; returns the exit code."""
    if as_json:
        sys.stdout.write(canonical_json(as_data(found)).decode())
    else:
        Console(highlight=False).print(shown(found))
    return found.exit_code


def as_data(found: Verification) -> dict[str, object]:
    """The outcome for scripts."""
    return {
        "folder": found.folder,
        "verified": found.verified,
        "passed": list(found.passed),
        **_signer_data(found),
        "findings": [
            {"file": finding.file, "reason": finding.reason, "remedy": finding.remedy} for finding in found.findings
        ],
        "notes": list(found.notes),
        "report": None if found.report is None else found.report.model_dump(mode="json", include={"title", "valid"}),
    }


def shown(found: Verification) -> RenderableType:
    """The outcome for people. What comes from the report is plain text: nothing in it is markup."""
    parts: list[RenderableType] = [
        Text.assemble(("  passed  ", "green"), step) if step in found.passed else Text(f"          {step}", "dim")
        for step in STEPS
    ]
    if not found.verified:
        parts += [Text(), Text(f"REFUSED: {found.folder}", "bold red")]
        parts += [Text.assemble(("  ", ""), (finding.file, "bold"), f" {finding.reason}") for finding in found.findings]
        remedies = dict.fromkeys(finding.remedy for finding in found.findings if finding.remedy)
        parts += [Text(f"  {remedy}", "dim") for remedy in remedies]
        return Padding(Group(*parts), (1, 0, 0, 0))
    if found.report is not None and found.key is not None:
        says = headline(found.report)
        parts += [
            Text(),
            Text.assemble(("VERIFIED  ", "bold green"), found.report.title),
            Text(f"  {says.says}"),
            *(Text(f"  {line}", "dim") for line in _signer_lines(found.key, found.signed)),
            Text(f"  fingerprint {found.report.fingerprint}", "dim"),
        ]
    parts += [Text(f"  {note}", "yellow") for note in found.notes]
    parts += [Text(), Text('"Verified" means that')]
    parts += [Text(f"  - {line}") for line in verify_words.MEANS]
    parts += [Text("It does not mean")]
    parts += [Text(f"  - {line}") for line in verify_words.MEANS_NOT]
    return Padding(Group(*parts), (1, 0, 0, 0))


def _signer_data(found: Verification) -> dict[str, object]:
    key, signed = found.key, found.signed
    if key is None:
        return {"key": None, "identity": None, "signed": None}
    identity = None if key.identity is None else {"name": key.identity.name, "issuer": key.identity.issuer}
    when = None
    if signed is not None:
        when = {"from": signed.first.isoformat(), "to": signed.last.isoformat(), "attested": signed.attested}
    return {"key": {"id": key.key_id, "origin": key.origin}, "identity": identity, "signed": when}


def _signer_lines(key: Signatory, signed: Signed | None) -> Iterator[str]:
    """Who signed, when, and what that proves."""
    if key.identity is None:
        yield f"signed by {key.key_id} ({key.origin})"
    else:
        yield f"signed by {key.identity.name}, says {key.identity.issuer} ({key.origin})"
    if signed is not None:
        witness = "as certificate authority and public log attest" if signed.attested else "by the signer's own word"
        yield f"on {signed}, {witness}"
    yield verify_words.KEY_PROVES if key.identity is None else verify_words.IDENTITY_PROVES
