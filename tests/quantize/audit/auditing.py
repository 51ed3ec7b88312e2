"""What the tests of the audit do with a checkpoint."""

from __future__ import annotations

from pathlib import Path

from quantize.audit.model import Audit, GateName, Verdict
from quantize.audit.run import audit_checkpoint
from tests.quantize.audit.synthetic import Folder


def failing(audit: Audit) -> set[GateName]:
    """The gates that failed."""
    return {gate.name for gate in audit.gates if gate.verdict is Verdict.FAILED}


def audited(folder: Folder, path: Path, source: Path | None = None) -> Audit:
    """Writes and audits a checkpoint."""
    return audit_checkpoint(folder.write(path / "checkpoint"), source=source, processes=1)


def offence(audit: Audit, name: GateName) -> str:
    """The first offender of a gate with its reason."""
    first = audit.gate(name).offenders[0]
    return f"{first.name} {first.reason}"
