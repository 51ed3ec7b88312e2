import hashlib
import os
import zipfile
from pathlib import Path

from bench.release.archive import pack, stem_of
from bench.report import folder_files as files
from bench.report.intake.place import Wishes, brought
from tests.release.conftest import Reports


def small_folder(folder: Path) -> Path:
    folder.mkdir()
    for name in ("requests.parquet", "report.json", "engine-0.log"):
        (folder / name).write_bytes(name.encode() * 1000)
    return folder


def test_the_bytes_are_the_same_everywhere(tmp_path: Path) -> None:
    """The hash was made once. It must not change with Python, with zlib, or with the order of a folder."""
    pack(small_folder(tmp_path / "folder"), tmp_path / "streamproof-x-1-2.zip")
    content = (tmp_path / "streamproof-x-1-2.zip").read_bytes()
    assert len(content) == 39_436
    assert hashlib.sha256(content).hexdigest() == "d6fcbd840138e7b3944c1a9905620da1d4398ad6858cdb1b12079c08a36d626a"


def test_times_modes_and_owners_of_the_folder_do_not_count(tmp_path: Path) -> None:
    first, second = small_folder(tmp_path / "a"), small_folder(tmp_path / "b")
    for path in second.iterdir():
        path.chmod(0o600)
        os.utime(path, (10**9, 10**9))
    (tmp_path / "1").mkdir()
    (tmp_path / "2").mkdir()
    pack(first, tmp_path / "1" / "report.zip")
    pack(second, tmp_path / "2" / "report.zip")
    assert (tmp_path / "1" / "report.zip").read_bytes() == (tmp_path / "2" / "report.zip").read_bytes()


def test_it_holds_one_folder_named_as_itself_and_verifies_from_there(reports: Reports, tmp_path: Path) -> None:
    stem = stem_of(reports.now.report, (reports.now.path / files.ATTESTATION).read_bytes())
    pack(reports.now.path, tmp_path / f"{stem}.zip")
    with zipfile.ZipFile(tmp_path / f"{stem}.zip") as archive:
        names = archive.namelist()
    assert names == sorted(names)
    assert names == [f"{stem}/{name}" for name in sorted(path.name for path in reports.now.path.iterdir())]
    with brought(str(tmp_path / f"{stem}.zip"), Wishes(), lambda _done, _of: None) as report:
        assert {path.name: path.read_bytes() for path in report.folder.iterdir()} == {
            path.name: path.read_bytes() for path in reports.now.path.iterdir()
        }


def test_the_name_tells_target_fingerprint_and_signature(reports: Reports) -> None:
    report = reports.now.report
    signature = hashlib.sha256(b"signed once").hexdigest()[:12]
    assert stem_of(report, b"signed once") == f"streamproof-test-h200-{report.fingerprint[:12]}-{signature}"
    assert stem_of(report, b"signed again") != stem_of(report, b"signed once")
