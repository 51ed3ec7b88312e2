"""A report folder from its first file to its signature.

`begin` writes what is known before anything is measured; the run then appends to `requests.jsonl` and
`observations.jsonl`; `finish` makes the report of whatever is there. It needs nothing but the folder, so it also
completes one whose client was killed: such a report is partial, and says so.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from bench.errors import StreamproofError
from bench.observe.observations import Finished, Interrupted
from bench.report import folder_files as files
from bench.report import keys, sign
from bench.report.build import build_report
from bench.report.folder_evidence import environment_json, evidence_of, parse_observations, read_records, recipe_toml
from bench.report.model import Report
from bench.report.render.html import render_page
from bench.report.render.markdown import render_markdown
from bench.report.table import convert
from bench.report.trust import model_signature, test_result
from recipes.fingerprint import fingerprint

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from bench.report.evidence import Evidence
    from bench.report.folder_evidence import Provenance
    from bench.report.keys import Attester
    from recipes.schema import Recipe

KILLED: Final = "the client ended without a word: it was killed, or the machine went down"


def begin(reports: Path, recipe: Recipe, provenance: Provenance, environment: Mapping[str, Any]) -> Path:
    """Makes the folder of a new report, with everything in it that is known before the run.

    Args:
        reports: the folder of all reports.
        recipe: resolved.
        provenance: who measures, when, with what.
        environment: what the machine says of itself; anything that JSON can hold, by any key but "provenance".

    Returns:
        The folder.

    Raises:
        StreamproofError: it is there already, or cannot be written.
    """
    folder = files.folder_of(
        reports, recipe.target, fingerprint(recipe, provenance.pinned), datetime.fromisoformat(provenance.started_at)
    )
    try:
        folder.mkdir(parents=True)
    except OSError as error:
        raise StreamproofError(
            f"cannot make the report's folder {folder}: {error.strerror}",
            remedy="Two runs of a target cannot start within one second; otherwise check permissions and free space.",
        ) from error
    files.write_whole(folder / files.RECIPE, recipe_toml(recipe).encode())
    files.write_whole(folder / files.ENVIRONMENT, environment_json(provenance, environment))
    return folder


def finish(folder: Path, *, signer: Attester | None = None, now: datetime | None = None) -> Report:
    """Makes the report of what lies in the folder, and signs it. What was finished before is made anew.

    Args:
        folder: with at least the two files of `begin`.
        signer: who signs; by default this user's own key, made on first use.
        now: when it is signed; by default now.

    Raises:
        StreamproofError: a file is missing or damaged, or the disk is full. The raw files are kept in any case.
    """
    _sweep(folder)
    _settle_records(folder)
    _settle_observations(folder)
    evidence = evidence_of(
        _read(folder / files.RECIPE),
        _read(folder / files.ENVIRONMENT),
        _read(folder / files.OBSERVATIONS),
        read_records(folder / files.RECORDS),
    )
    report = build_report(evidence)
    for name, content in rendered(report, evidence).items():
        files.write_whole(folder / name, content)
    sign_folder(
        folder, report, test_result.subjects_of(evidence), signer or keys.own_signer(), now or datetime.now(UTC)
    )
    return report


def rendered(report: Report, evidence: Evidence) -> dict[str, bytes]:
    """Every file that follows from the evidence, by name."""
    raw = files.canonical_json(report.model_dump(mode="json"))
    # The pages are drawn from what was written, as whoever verifies them does: keys in the order of the file.
    written = Report.model_validate_json(raw)
    return {
        files.REPORT: raw,
        files.MARKDOWN: render_markdown(written, evidence.observations).encode(),
        files.PAGE: render_page(written, evidence).encode(),
    }


def sign_folder(
    folder: Path, report: Report, subjects: Iterable[test_result.Subject], signer: Attester, now: datetime
) -> None:
    """Signs every file of a finished folder: its test result, then the report with that, then the whole folder.

    Args:
        folder: of the report.
        report: what its `report.json` says.
        subjects: what was tested: `bench.report.trust.test_result.subjects_of`.
        signer: who signs.
        now: an aware time.

    Raises:
        StreamproofError: the folder holds something that no report has, cannot be written, or cannot be signed.
    """
    made_here = {files.SIGNER, *files.SIGNATURES}
    names = sorted(path.name for path in folder.iterdir() if path.name not in made_here)
    foreign = [name for name in names if not files.is_report_file(name)]
    if foreign:
        raise StreamproofError(
            f"{folder} holds what no report has: {', '.join(foreign)}",
            remedy=f"Take it out, then: just finish {folder}",
        )
    digests = {name: files.file_sha256(folder / name) for name in names}

    def write(name: str, content: bytes) -> None:
        files.write_whole(folder / name, content)
        digests[name] = files.sha256(content)

    write(files.TEST_RESULT, signer.attest(test_result.statement(report, subjects, digests)))
    summary = sign.predicate(report, now.astimezone(UTC).isoformat(timespec="seconds"))
    write(files.ATTESTATION, signer.attest(sign.statement(digests, summary)))
    key = keys.public_pem(signer.public)  # of a keyless signer it is known from here on
    write(files.SIGNER, key)
    whole = model_signature.statement(folder.name, digests)
    write(files.MODEL_SIGNATURE, signer.attest(whole, hint=model_signature.hint(key)))


def _sweep(folder: Path) -> None:
    """Removes what a killed writer left under a hidden name."""
    for path in folder.iterdir():
        if files.is_leftover(path.name):
            path.unlink()


def _settle_records(folder: Path) -> None:
    """Turns the lines of the run into Parquet. The lines go only when the Parquet file is in its place."""
    lines, parquet = folder / files.RUNNING_RECORDS, folder / files.RECORDS
    if parquet.exists() and not lines.exists():
        return
    temporary = files.beside(parquet)
    try:
        lines.touch()  # a run that ended before its first request has no record, but a report
        convert(lines, temporary)
        files.put(temporary, parquet)
    except OSError as error:
        raise StreamproofError(
            f"cannot write {parquet}: {error.strerror or error}",
            remedy=f"Nothing is lost: free some space, then run: just finish {folder}",
        ) from error
    finally:
        temporary.unlink(missing_ok=True)
    lines.unlink()


def _settle_observations(folder: Path) -> None:
    """Cuts off a line that was being written when the client was killed, and says so in a line of its own."""
    path = folder / files.OBSERVATIONS
    raw = path.read_bytes() if path.exists() else b""
    whole = raw[: raw.rfind(b"\n") + 1]
    seen = parse_observations(whole)
    if not any(isinstance(observation, Finished | Interrupted) for observation in seen):
        end = Interrupted(
            t=max((observation.t for observation in seen), default=0.0),
            run=max((observation.run for observation in seen), default=0),
            cause="client",
            detail=KILLED,
        )
        whole += end.model_dump_json().encode() + b"\n"
    if whole != raw:
        files.write_whole(path, whole)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise StreamproofError(
            f"cannot read {path}: {error.strerror}", remedy="Name the folder of a run; it has this file from its start."
        ) from error
