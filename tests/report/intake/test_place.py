import errno
import hashlib
import io
import os
import tarfile
import tempfile
from pathlib import Path

import pytest

from bench.errors import StreamproofError, UsageError
from bench.report.intake.place import Wishes, brought, parse_sha256
from bench.report.verify_files import RefusedError
from tests.engine.web import serving
from tests.report.intake.zips import Member, zip_of

MEMBERS = [Member(b"r/report.json", b"{}"), Member(b"r/attestation.sigstore.json", b"signed")]
ATTESTATION = hashlib.sha256(b"signed").hexdigest()


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary folders are made: whatever is in it afterwards was left behind."""
    folder = tmp_path / "scratch"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def put(path: Path, content: bytes) -> str:
    path.write_bytes(content)
    return str(path)


def nothing(_done: int, _announced: int | None) -> None:
    pass


def files_of(place: str, **wishes: object) -> dict[str, bytes]:
    with brought(place, Wishes(**wishes), nothing) as report:  # type: ignore[arg-type]  # each test gives the right ones
        return {path.name: path.read_bytes() for path in report.folder.iterdir()}


def refusal(place: str, **wishes: object) -> str:
    with pytest.raises(RefusedError) as caught:
        files_of(place, **wishes)
    (finding,) = caught.value.findings
    return f"{finding.file} {finding.reason}. {finding.remedy}"


def test_a_folder_is_where_it_is(scratch: Path) -> None:
    (scratch / "report.json").write_bytes(b"{}")
    with brought(str(scratch), Wishes(), nothing) as report:
        assert (report.folder, report.sha256) == (scratch, None)
    assert (scratch / "report.json").exists()


def test_an_archive_is_unpacked_and_nothing_of_it_is_left(tmp_path: Path, scratch: Path) -> None:
    raw = zip_of(MEMBERS)
    with brought(put(tmp_path / "r.bin", raw), Wishes(), nothing) as report:
        assert scratch in report.folder.parents
        assert report.sha256 == hashlib.sha256(raw).hexdigest()
        assert {path.name for path in report.folder.iterdir()} == {"report.json", "attestation.sigstore.json"}
    assert list(scratch.iterdir()) == []


def test_an_address_is_fetched_and_nothing_of_it_is_left(scratch: Path) -> None:
    with serving({"/a/r.zip": (200, "application/zip", zip_of(MEMBERS))}) as base:
        assert files_of(f"{base}/a/r.zip")["report.json"] == b"{}"
    assert list(scratch.iterdir()) == []


def test_nothing_is_left_of_what_was_refused_or_interrupted(tmp_path: Path, scratch: Path) -> None:
    hostile = put(tmp_path / "r.zip", zip_of([*MEMBERS, Member(b"../x", b"")]))
    assert 'leaves the folder by ".."' in refusal(hostile)
    assert "leaves the folder" in refusal(hostile, keep=tmp_path / "kept")
    assert not (tmp_path / "kept").exists()
    with pytest.raises(KeyboardInterrupt), brought(put(tmp_path / "r.zip", zip_of(MEMBERS)), Wishes(), nothing):
        raise KeyboardInterrupt
    with serving({"/r.zip": (200, "application/zip", zip_of(MEMBERS))}) as base:

        def interrupt(_done: int, _announced: int | None) -> None:
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt), brought(f"{base}/r.zip", Wishes(), interrupt):
            pass
    assert list(scratch.iterdir()) == []


def test_what_shall_be_kept_is_kept_and_nothing_is_overwritten(tmp_path: Path, scratch: Path) -> None:
    archive, kept = put(tmp_path / "r.zip", zip_of(MEMBERS)), tmp_path / "new" / "kept"
    files_of(archive, keep=kept)
    assert (kept / "report.json").read_bytes() == b"{}"
    with pytest.raises(UsageError, match="is there already"):
        files_of(archive, keep=kept)
    assert list(scratch.iterdir()) == []


def test_a_hash_that_was_given_must_be_the_archives(tmp_path: Path, scratch: Path) -> None:
    raw = zip_of(MEMBERS)
    archive, digest = put(tmp_path / "r.zip", raw), hashlib.sha256(raw).hexdigest()
    assert files_of(archive, sha256=digest)
    other = "0" * 64
    assert f"has the SHA-256 {digest}, not {other}" in refusal(archive, sha256=other)
    with serving({"/r.zip": (200, "application/zip", raw)}) as base:
        assert "has the SHA-256" in refusal(f"{base}/r.zip", sha256=other)
        assert files_of(f"{base}/r.zip", sha256=digest)
    assert list(scratch.iterdir()) == []


def test_a_hash_is_read_in_both_forms() -> None:
    assert parse_sha256("sha256:" + "AB" * 32) == parse_sha256("ab" * 32) == "ab" * 32
    with pytest.raises(UsageError, match="this is no SHA-256"):
        parse_sha256("ab" * 31)


def test_an_archive_that_names_an_attestation_must_hold_it(tmp_path: Path) -> None:
    """Whoever swaps the file behind a link for another signed report is found out by the link itself."""
    name = "streamproof-h200-fp8-{}-{}.zip"
    right = put(tmp_path / name.format("0" * 12, ATTESTATION[:12]), zip_of(MEMBERS))
    assert files_of(right)
    wrong = put(tmp_path / name.format("0" * 12, "f" * 12), zip_of(MEMBERS))
    assert f"after an attestation ffffffffffff..., and holds {ATTESTATION[:12]}...: another report" in refusal(wrong)
    with serving({f"/{Path(wrong).name}?x=1": (200, "application/zip", zip_of(MEMBERS))}) as base:
        assert "another report" in refusal(f"{base}/{Path(wrong).name}?x=1")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"\xfd7zXZ\x00....", "is an xz archive. Only ZIP and tar(.gz) archives are read."),
        (b"\x28\xb5\x2f\xfd....", "is a Zstandard archive"),
        (b"\n<!DOCTYPE html>", "is a page for people, not a file"),
        (b"", "is no archive"),
        (b"\x1f\x8b\x08" + bytes(600), "cannot be read as a tar archive"),
    ],
)
def test_what_is_no_archive_of_ours_is_named(tmp_path: Path, content: bytes, reason: str) -> None:
    assert reason in refusal(put(tmp_path / "r.zip", content))


def test_a_tar_is_known_by_its_content(tmp_path: Path) -> None:
    sink = io.BytesIO()
    with tarfile.open(fileobj=sink, mode="w:gz") as tar:
        info = tarfile.TarInfo("r/report.json")
        info.size = 2
        tar.addfile(info, io.BytesIO(b"{}"))
    assert files_of(put(tmp_path / "r.zip", sink.getvalue())) == {"report.json": b"{}"}


def test_wishes_that_do_not_go_with_a_folder_are_wrong_usage(tmp_path: Path) -> None:
    for wishes in ({"sha256": "0" * 64}, {"keep": tmp_path / "kept"}):
        with pytest.raises(UsageError, match="is no archive"):
            files_of(str(tmp_path), **wishes)


def test_a_large_archive_is_not_read(tmp_path: Path) -> None:
    archive = put(tmp_path / "r.zip", zip_of(MEMBERS))
    with pytest.raises(UsageError, match="at most 100 are unpacked") as caught:
        files_of(archive, most=100)
    assert "--max-size" in caught.value.remedy


def test_a_full_disk_says_what_to_do(tmp_path: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = put(tmp_path / "r.zip", zip_of(MEMBERS))

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("bench.report.intake.place.unzip", full)
    with pytest.raises(StreamproofError, match="No space left on device") as caught:
        files_of(archive)
    assert "TMPDIR" in caught.value.remedy
    assert list(scratch.iterdir()) == []
