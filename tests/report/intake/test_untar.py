import gzip
import io
import tarfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.report.intake import untar as untarring
from bench.report.intake.untar import untar
from bench.report.verify_files import LIMITS, RefusedError

FILES = {"report.json": b"{}\n", "report.md": b"# x\n", "engine-0.log": b"line\n" * 1000, "requests.parquet": b""}


def entry(name: str, size: int = 0, **changes: object) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.size = size
    for key, value in changes.items():
        setattr(info, key, value)
    return info


def tar_of(*members: tuple[tarfile.TarInfo, bytes], kind: int = tarfile.PAX_FORMAT) -> bytes:
    sink = io.BytesIO()
    with tarfile.open(fileobj=sink, mode="w", format=kind) as tar:
        for info, content in members:
            tar.addfile(info, io.BytesIO(content))
    return sink.getvalue()


def one(name: str, content: bytes = b"x", **changes: object) -> bytes:
    return tar_of((entry(name, len(content), **changes), content))


def run(raw: bytes, folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    untar(io.BytesIO(raw), "r.tar", folder, gzipped=raw.startswith(b"\x1f\x8b"))


def refusal(raw: bytes, folder: Path) -> tuple[str, str]:
    with pytest.raises(RefusedError) as caught:
        run(raw, folder)
    (finding,) = caught.value.findings
    return finding.file, finding.reason


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzipped"])
@pytest.mark.parametrize("kind", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
@pytest.mark.parametrize("within", ["", "20261130T110000Z-0123456789ab/", "./x/"])
def test_what_python_writes_is_unpacked(tmp_path: Path, pack: Callable[[bytes], bytes], kind: int, within: str) -> None:
    folder = [(entry(within.rstrip("/"), type=tarfile.DIRTYPE), b"")] if within else []
    files = [(entry(within + name, len(content)), content) for name, content in FILES.items()]
    run(pack(tar_of(*folder, *files, kind=kind)), tmp_path / "out")
    assert {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()} == FILES


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("../report.json", 'leaves the folder by ".."'),
        ("/etc/cron.d/report.json", "is an absolute path"),
        ("a/b/report.json", "lies deeper than one folder"),
        ("a\\report.json", "has a backslash"),
        ("run.sh", "no report has a file of this name"),
        ("x" * 300 + "/report.json", "lies in a folder whose name no report has"),
        ("\x1b[2J/report.json", "lies in a folder whose name no report has"),
    ],
)
def test_a_name_that_no_report_has_is_refused_and_nothing_is_written(tmp_path: Path, name: str, reason: str) -> None:
    file, found = refusal(one(name), tmp_path / "out")
    assert found.startswith(reason)
    assert file.isprintable()
    assert list((tmp_path / "out").iterdir()) == []
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"type": tarfile.SYMTYPE, "linkname": "/etc/passwd"}, "is a symbolic link"),
        ({"type": tarfile.LNKTYPE, "linkname": "../secret"}, "is a hard link"),
        ({"type": tarfile.CHRTYPE}, "is a device or a pipe"),
        ({"type": tarfile.BLKTYPE}, "is a device or a pipe"),
        ({"type": tarfile.FIFOTYPE}, "is a device or a pipe"),
        ({"type": b"Z"}, "is of a kind that no report has"),
    ],
)
def test_links_and_devices_are_refused(tmp_path: Path, changes: dict[str, object], reason: str) -> None:
    assert refusal(one("report.json", b"", **changes), tmp_path)[1].startswith(reason)


def test_a_sparse_file_that_claims_a_terabyte_is_refused(tmp_path: Path) -> None:
    headers = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.realsize": str(1 << 40)}
    raw = one("engine-0.log", b"0\n".ljust(512, b"\0"), pax_headers=headers)
    assert refusal(raw, tmp_path)[1] == "is a sparse file; a report holds plain files only"


def test_a_file_twice_is_refused(tmp_path: Path) -> None:
    raw = tar_of((entry("report.json", 1), b"a"), (entry("./report.json", 1), b"b"))
    assert refusal(raw, tmp_path) == ("./report.json", "is in the archive twice")


def test_sizes_that_lead_astray_are_refused(tmp_path: Path) -> None:
    back = one("report.json", b"x", pax_headers={"size": "-1024"})
    assert "does not lie behind the members before it" in refusal(back, tmp_path)[1]
    far = one("engine-0.log", b"x", pax_headers={"size": str(1 << 33)})
    assert "does not lie behind the members before it and before the end" in refusal(far, tmp_path)[1]
    much = one("report.md", bytes(LIMITS["report.md"] + 1))
    assert refusal(much, tmp_path)[1].startswith("is larger than 1,024 KiB")


def test_a_header_without_end_is_not_read(tmp_path: Path) -> None:
    raw = one("report.json", b"{}", pax_headers={"comment": "x" * 5_000_000})
    assert "has a header of 5,00" in refusal(raw, tmp_path)[1]


def test_headers_that_follow_each_other_without_end_are_refused(tmp_path: Path) -> None:
    step = entry("././@LongLink", 2, type=tarfile.GNUTYPE_LONGNAME).tobuf(tarfile.GNU_FORMAT) + b"a\0".ljust(512, b"\0")
    assert refusal(step * 3000, tmp_path)[1].startswith("cannot be read as a tar archive: maximum recursion depth")


def test_what_is_behind_the_end_is_refused(tmp_path: Path) -> None:
    assert "behind its end" in refusal(one("report.json") + b"hidden", tmp_path)[1]
    damaged = bytearray(tar_of((entry("report.json", 1), b"a"), (entry("report.md", 1), b"b")))
    damaged[1024 + 148 : 1024 + 156] = b"0" * 8  # the second header's checksum: to `tarfile` that is the end
    assert "behind its end" in refusal(bytes(damaged), tmp_path / "damaged")[1]


def test_a_gzip_bomb_is_refused_while_it_unpacks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bomb = gzip.compress(bytes(200_000_000))
    assert refusal(bomb, tmp_path)[1].endswith("or more: a bomb")
    monkeypatch.setattr(untarring, "TOTAL_LIMIT", 1 << 20)
    assert "the most of a report" in refusal(gzip.compress(bytes(3 << 20)), tmp_path)[1]


# No time in the gzipped one: two workers must name their tests alike.
@pytest.mark.parametrize("raw", [b"", b"\x1f\x8b", b"\x1f\x8b\x08garbage", gzip.compress(one("a"), mtime=0)[:-9]])
def test_what_is_damaged_is_refused(tmp_path: Path, raw: bytes) -> None:
    assert refusal(raw, tmp_path)[1].startswith("cannot be read as a tar archive: ")


def test_what_follows_a_gzipped_tar_is_refused(tmp_path: Path) -> None:
    assert "cannot be read" in refusal(gzip.compress(one("report.json")) + b"hidden", tmp_path)[1]
    assert "behind its end" in refusal(gzip.compress(one("report.json")) + gzip.compress(b"hidden"), tmp_path / "b")[1]


def test_too_many_members_are_refused(tmp_path: Path) -> None:
    raw = tar_of(*((entry("a", type=tarfile.DIRTYPE), b"") for _ in range(1100)))
    assert "is one of more than 1,025 members" in refusal(raw, tmp_path)[1]


@given(st.data())
def test_a_changed_byte_never_ends_in_anything_but_a_refusal(data: st.DataObject) -> None:
    raw = bytearray(tar_of((entry("report.json", 1), b"a"), (entry("r" * 150 + "/report.md", 1), b"b")))
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(0, 4095))] = data.draw(st.integers(0, 255))
    with TemporaryDirectory() as name:
        with suppress(RefusedError):
            run(bytes(raw), Path(name) / "out")
        assert [path.name for path in Path(name).iterdir()] == ["out"]
