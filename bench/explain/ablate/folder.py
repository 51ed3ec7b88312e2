"""The folder of an ablation: its plan, a report folder for each engine start, and the signed summary of them.

plan.json                    what is done, and in which order
runs/NNN-blockB-NAME/...     a signed report each, as `just repro` leaves them
ablation.json, .md, .html    the summary
attestation.sigstore.json    signs plan and summary; the summary holds the digest of each report's attestation
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from pydantic import ValidationError

from bench.errors import StreamproofError, UsageError
from bench.explain.ablate.page import render_markdown, render_page
from bench.explain.ablate.plan import AblationPlan
from bench.explain.ablate.summary import summarize
from bench.report import folder_files as files
from bench.report import keys, sign
from bench.report.verify_bundle import check_attestation
from bench.report.verify_files import RefusedError
from bench.report.verify_json import HostileJsonError, strict_loads

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from bench.explain.ablate.outcome import Ablation
    from bench.report.keys import Signer, TrustedKey

PLAN: Final = "plan.json"
SUMMARY: Final = "ablation.json"
MARKDOWN: Final = "ablation.md"
PAGE: Final = "ablation.html"


def begin(folder: Path, plan: AblationPlan) -> None:
    """Makes the folder of a new ablation.

    Raises:
        StreamproofError: it is there already, or cannot be written.
    """
    try:
        folder.mkdir(parents=True)
    except OSError as error:
        raise StreamproofError(
            f"cannot make the ablation's folder {folder}: {error.strerror}",
            remedy="To go on with one that was interrupted: just ablate --resume FOLDER",
        ) from error
    files.write_whole(folder / PLAN, files.canonical_json(plan.model_dump(mode="json", exclude_none=True)))


def read_plan(folder: Path) -> AblationPlan:
    """The plan of an ablation that was begun.

    Raises:
        UsageError: there is none, or none of this version.
    """
    path = folder / PLAN
    if not path.is_file():
        raise UsageError(f"{folder} holds no {PLAN}.", remedy="Name the folder of an ablation.")
    try:
        return AblationPlan.model_validate_json(path.read_bytes())
    except ValidationError as error:
        where = ".".join(str(part) for part in error.errors()[0]["loc"])
        raise UsageError(
            f"{path} is no plan of this version: {where} is not right.",
            remedy="Use the version of streamproof that made it, or begin anew.",
        ) from error


def finish(folder: Path, trusted: Mapping[str, TrustedKey], *, signer: Signer | None = None) -> Ablation:
    """Makes the summary of the runs that are there, and signs it.

    Args:
        folder: of the ablation.
        trusted: keys by id; the reports must verify with them.
        signer: by default this user's own key.

    Raises:
        StreamproofError: a report is not verified, or the folder cannot be written.
    """
    ablation = summarize(folder, read_plan(folder), trusted)
    raw = files.canonical_json(ablation.model_dump(mode="json"))
    files.write_whole(folder / SUMMARY, raw)
    files.write_whole(folder / MARKDOWN, render_markdown(ablation).encode())
    files.write_whole(folder / PAGE, render_page(ablation).encode())
    signer = signer or keys.own_signer()
    digests = {name: files.file_sha256(folder / name) for name in (PLAN, SUMMARY, MARKDOWN, PAGE)}
    said = {"ablation": ablation.target, "from": ablation.base, "signedAt": datetime.now(UTC).isoformat("T", "seconds")}
    files.write_whole(folder / files.SIGNER, keys.public_pem(signer.public))
    files.write_whole(folder / files.ATTESTATION, sign.bundle(sign.statement(digests, said), signer))
    return ablation


def check(folder: Path, trusted: Mapping[str, TrustedKey]) -> Ablation:
    """Verifies an ablation: signature, digests, every report, and the summary computed again from them.

    Raises:
        UsageError: it holds no plan.
        StreamproofError: says what does not hold.
    """
    plan = read_plan(folder)
    try:
        raw = {name: (folder / name).read_bytes() for name in (files.ATTESTATION, files.SIGNER, PLAN, SUMMARY)}
        attested = check_attestation(raw[files.ATTESTATION], raw[files.SIGNER], trusted)
        stored = strict_loads(raw[SUMMARY])
    except OSError as error:
        raise _refused(folder, f"{error.filename} cannot be read: {error.strerror}") from error
    except RefusedError as error:
        raise _refused(folder, "; ".join(f"{each.file} {each.reason}" for each in error.findings)) from error
    except HostileJsonError as error:
        raise _refused(folder, f"{SUMMARY} cannot be read: {error}") from error
    for name in (PLAN, SUMMARY, MARKDOWN, PAGE):
        path = folder / name
        if not path.is_file() or attested.digests.get(name) != files.file_sha256(path):
            raise _refused(folder, f"{name} is missing, or was changed after it was signed")
    ablation = summarize(folder, plan, trusted)
    if ablation.model_dump(mode="json") != stored:
        raise _refused(folder, f"{SUMMARY} is not what its reports give here", remedy=_ANOTHER)
    return ablation


_ANOTHER: Final = (
    "Unless it was edited, another commit summarized it: of your own, `just ablate --resume` makes it anew."
)


def _refused(folder: Path, why: str, *, remedy: str = "Nothing is concluded from it.") -> StreamproofError:
    return StreamproofError(f"{folder} is not verified: {why}.", remedy=remedy)
