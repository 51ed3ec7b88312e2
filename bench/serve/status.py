"""What this server found out about a report, and how: the part that runs in a process of its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from bench.errors import StreamproofError
from bench.explain.ablate import folder as ablation_folder
from bench.report import folder_files as files
from bench.report.apart import Bounds
from bench.report.verify import verify
from bench.report.verify_bounds import CPU_S, MEMORY_BYTES
from bench.serve.hostile import ABLATION_LIMITS, RefusedFileError, read_file

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from bench.report.keys import TrustedKey
    from bench.report.render.verdict import Tone

State: TypeAlias = Literal["waiting", "verified", "refused"]
FINDINGS_TOLD: Final = 3
REASON_LETTERS: Final = 140

VERIFYING: Final = Bounds(memory_bytes=MEMORY_BYTES, cpu_s=round(CPU_S) + 60)
"""Of a report. The verification's own bounds come first, as their reasons are better; a minute is for what is done
before they hold: 2 GiB of files take some seconds."""
VERIFYING_ABLATION: Final = Bounds(memory_bytes=MEMORY_BYTES, cpu_s=3600)
"""Of all reports of an ablation together, each with the bounds of a report."""


@dataclass(frozen=True, slots=True)
class Status:
    """What this server knows of a report.

    Attributes:
        state: "waiting" until it was looked at.
        at: when that was, UTC; empty while it waits.
        by: who signed; empty where it is not verified.
        why: what speaks against it, or was not checked.
    """

    state: State
    at: str = ""
    by: str = ""
    why: tuple[str, ...] = ()

    @property
    def tone(self) -> Tone:
        """Class of the style sheet."""
        tones: dict[State, Tone] = {"waiting": "plain", "verified": "good", "refused": "bad"}
        return tones[self.state]

    @property
    def reason(self) -> str:
        """The first of what speaks against it, short enough for a list; empty where nothing does."""
        if self.state != "refused" or not self.why:
            return ""
        first = self.why[0]
        return first if len(first) <= REASON_LETTERS else f"{first[:REASON_LETTERS]}..."

    @property
    def says(self) -> str:
        """In one line."""
        if self.state == "waiting":
            return "not verified yet by this server"
        return f"{self.state} by this server at {self.at}"


WAITING: Final = Status("waiting")


def refused(*why: str) -> Status:
    """Of what is not verified."""
    return Status("refused", why=why)


def verify_report(path: Path, trusted: Mapping[str, TrustedKey]) -> Status:
    """Verifies a report; when that was, its caller knows."""
    found = verify(path, trusted)
    if not found.verified:
        reasons = [f"{finding.file} {finding.reason}" for finding in found.findings]
        more = len(reasons) - FINDINGS_TOLD
        rest = [f"and {more:,} more"] if more > 0 else []
        return refused(*reasons[:FINDINGS_TOLD], *rest)
    if found.key is None:
        by = ""
    elif found.key.identity is not None:
        by = f"{found.key.identity.name}, says {found.key.identity.issuer} ({found.key.origin})"
    else:
        by = f"key {found.key.key_id[:12]} ({found.key.origin})"
    return Status("verified", by=by, why=found.notes)


def verify_ablation(path: Path, trusted: Mapping[str, TrustedKey]) -> Status:
    """Verifies an ablation with all its reports; when that was, its caller knows."""
    try:
        for name in (*ABLATION_LIMITS, files.ATTESTATION, files.SIGNER):
            read_file(path, name)  # raises where it is a link, no plain file, or too large
        ablation_folder.check(path, trusted)
    except RefusedFileError as error:
        return refused(str(error))
    except StreamproofError as error:
        return refused(error.message)
    return Status("verified", by="a trusted key, as every report of it")
