"""Gate 8: what a run that served the checkpoint on the real engine showed (`served.json` of `quantize.quality`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantize.audit.model import Gate, GateName
from quantize.audit.scene import Findings, not_checked

if TYPE_CHECKING:
    from quantize.quality.served import Served

NO_RUN = "no run on the target was given (--served)"


def served_gate(served: Served | None, audited: str | None) -> Gate:
    """Gate 8.

    Args:
        served: the run; None where none was given.
        audited: identity of the audited folder (`quantize.quality.folder`), to know that it is what was served.
    """
    if served is None:
        return not_checked(GateName.SERVED, NO_RUN)
    findings = Findings(GateName.SERVED)
    if served.checkpoint != audited:
        findings.add("checkpoint", "another one was served: its digest is not that of this folder")
    for check in served.checks:
        if check.outcome == "failed":
            findings.add(check.name, check.detail)
        elif check.outcome == "no information":
            findings.notes.append(f"{check.name}: {check.detail}")
    unchecked = ""
    if served.stand_in is not None:
        unchecked = f"what was served was a stand-in: {served.stand_in}"
    elif served.outcome == "no information":
        unchecked = "the run leaves questions open; see its notes"
    engine = served.engine
    figures = {
        "vLLM": engine.version,
        "quantization": engine.quantization,
        "MoE backend": engine.moe_backend,
        "weights of the model are real": "yes" if served.real else "no",
    }
    return findings.gate(
        f"a run showed what it had to: {served.title}", "the run on the target failed", figures, unchecked=unchecked
    )
