import io
import shutil
import struct
import tracemalloc
import zipfile
import zlib
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.report.intake import members as intake_members
from bench.report.intake.unzip import unzip
from bench.report.verify_files import LIMITS, RefusedError
from tests.report.intake.zips import Member, overlapping, zip_of

FILES = {"report.json": b"{}\n", "report.md": b"# x\n", "engine-0.log": b"line\n" * 1000, "requests.parquet": b""}


def unpacked(raw: bytes, folder: Path) -> dict[str, bytes]:
    folder.mkdir(exist_ok=True)
    unzip(io.BytesIO(raw), "r.zip", folder)
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def refusal(raw: bytes, folder: Path) -> tuple[str, str]:
    folder.mkdir(exist_ok=True)
    with pytest.raises(RefusedError) as caught:
        unzip(io.BytesIO(raw), "r.zip", folder)
    (finding,) = caught.value.findings
    return finding.file, finding.reason


@pytest.mark.parametrize("within", ["", "20261130T110000Z-0123456789ab/"])
@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_what_python_writes_is_unpacked(tmp_path: Path, within: str, method: int) -> None:
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w", method) as archive:
        if within:
            archive.mkdir(within)
        for name, content in FILES.items():
            archive.writestr(within + name, content)
    assert unpacked(sink.getvalue(), tmp_path / "out") == FILES


def test_what_is_written_to_a_pipe_has_its_sizes_behind_it_and_is_unpacked(tmp_path: Path) -> None:
    class Pipe(io.RawIOBase):
        def __init__(self) -> None:
            self.sink = b""

        def writable(self) -> bool:
            return True

        def write(self, data: bytes) -> int:  # type: ignore[override]  # bytes are all that is written here
            self.sink += bytes(data)
            return len(data)

    pipe = Pipe()
    with zipfile.ZipFile(pipe, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in FILES.items():
            archive.writestr(name, content)
    assert unpacked(pipe.sink, tmp_path / "out") == FILES


def test_a_folder_packed_by_shutil_is_unpacked(tmp_path: Path) -> None:
    (tmp_path / "x" / "report").mkdir(parents=True)
    for name, content in FILES.items():
        (tmp_path / "x" / "report" / name).write_bytes(content)
    packed = shutil.make_archive(str(tmp_path / "packed"), "zip", tmp_path / "x", "report")
    assert unpacked(Path(packed).read_bytes(), tmp_path / "out") == FILES


def test_a_folder_that_was_deflated_is_taken(tmp_path: Path) -> None:
    raw = zip_of([Member(b"a/"), Member(b"a/report.md", b"#")])
    assert unpacked(raw, tmp_path / "out") == {"report.md": b"#"}


@given(st.binary(max_size=5000), st.sampled_from([0, 8]))
def test_every_content_comes_out_as_it_was(content: bytes, method: int) -> None:
    with TemporaryDirectory() as folder:
        unzip(io.BytesIO(zip_of([Member(b"report.md", content, method=method)])), "r.zip", Path(folder))
        assert (Path(folder) / "report.md").read_bytes() == content


NAMES = [
    (b"../report.json", 'leaves the folder by ".."'),
    (b"a/../report.json", 'leaves the folder by ".."'),
    (b"/etc/passwd", "is an absolute path"),
    (b"C:report.json", "is an absolute path"),
    (b"c:/report.json", "is an absolute path"),
    (b"a\\..\\report.json", "has a backslash in its name"),
    (b"report.json\x00.exe", "has a NUL character in its name"),
    (b"a/b/report.json", "lies deeper than one folder"),
    (b"REPORT.json", "only looks like report.json"),
    (b"report.json.", "only looks like report.json"),
    ("\uff52eport.json".encode(), "only looks like report.json"),
    (b"Engine-0.log", "only looks like engine-0.log"),
    (b"run.sh", "no report has a file of this name"),
    (b"inner.zip", "no report has a file of this name"),
    (b"", "no report has a file of this name"),
    (b".", "no report has a file of this name"),
    (b".hidden/report.json", "lies in a folder whose name no report has"),
    ("\x1b[2J\u202e/report.json".encode(), "lies in a folder whose name no report has"),
    (b"a" * 300 + b"/report.json", "lies in a folder whose name no report has"),
    (b"//report.json", "is an absolute path"),
]


@pytest.mark.parametrize(("name", "reason"), NAMES, ids=[repr(name) for name, _ in NAMES])
def test_a_name_that_no_report_has_is_refused_and_nothing_is_written(tmp_path: Path, name: bytes, reason: str) -> None:
    utf8 = {"flags": 0x800}
    file, found = refusal(zip_of([Member(name, b"x", central=utf8, local=utf8)]), tmp_path / "out")
    assert found.startswith(reason)
    assert file.isascii()
    assert file.isprintable()
    assert list((tmp_path / "out").iterdir()) == []
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize(
    ("attributes", "reason"),
    [
        (0o120777 << 16, "is a symbolic link"),
        (0o020666 << 16, "is no plain file"),
        (0o060666 << 16, "is no plain file"),
        (0o010666 << 16, "is no plain file"),
        (0o140666 << 16, "is no plain file"),
    ],
)
def test_links_and_devices_are_refused(tmp_path: Path, attributes: int, reason: str) -> None:
    raw = zip_of([Member(b"report.json", b"/etc/passwd", central={"attributes": attributes})])
    assert refusal(raw, tmp_path)[1].startswith(reason)


TWO = [Member(b"report.json", b"{}"), Member(b"report.md", b"#")]
BOTH = {"flags": 0x1}

STRUCTURE = [
    ([Member(b"a/report.json"), Member(b"a/report.json")], "is in the archive twice"),
    ([Member(b"a/report.json"), Member(b"./a/report.json")], "is in the archive twice"),
    ([Member(b"a/report.json"), Member(b"A/report.md")], "lies elsewhere than the members before it"),
    ([Member(b"report.json"), Member(b"a/report.md")], "which are in no folder"),
    ([Member(b"a/", method=0), Member(b"report.md")], "which are in the folder a"),
    ([Member(b"a/b/", method=0), Member(b"report.md")], "is a folder within a folder"),
    ([Member(b"a/", b"data")], "is a folder that holds data"),
    ([Member(b"report.json", b"{}", central=BOTH, local=BOTH)], "is encrypted"),
    ([Member(b"report.json", b"{}", method=12, packed=b"BZh")], "is packed by method 12"),
    ([Member(b"report.json", b"{}", central={"extra": struct.pack("<HHQ", 1, 8, 2)})], "claims sizes in the form of"),
    ([Member(b"report.json", b"{}", central={"extra": b"\x01"})], "has a damaged header"),
    ([Member(b"report.json", b"{}", local={"name": b"report.html"})], "two headers that say different things"),
    ([Member(b"report.json", b"{}", local={"method": 0})], "two headers that say different things"),
    ([Member(b"report.json", b"{}", local={"flags": 0x800})], "two headers that say different things"),
    ([Member(b"report.json", b"{}", local={"unpacked": 3})], "two headers that claim different sizes"),
    ([Member(b"report.json", b"{}", local={"packed": 1})], "two headers that claim different sizes"),
    ([Member(b"report.json", b"{}", local={"crc": 1})], "two headers that claim different sizes"),
    ([Member(b"report.json", b"{}", central={"offset": 7})], "is not where the archive says"),
    ([Member(b"report.json", b"{}", central={"offset": 1 << 31})], "is not where the archive says"),
    ([Member(b"report.json", b"{}", behind=b"hidden")], "is not followed at once"),
    ([Member(b"report.json", b"{}", central={"crc": 1}, local={"crc": 1})], "is damaged: its checksum"),
    (
        [Member(b"report.json", b"x" * 9, central={"unpacked": 8}, local={"unpacked": 8})],
        "unpacks to more than the 8 bytes that the archive claims",
    ),
    (
        [Member(b"report.json", b"x" * 9, central={"unpacked": 10}, local={"unpacked": 10})],
        "unpacks to 9 bytes; the archive claims 10",
    ),
    (
        [Member(b"report.json", b"{}", packed=zlib.compress(b"{}", wbits=-15) + b"hidden")],
        "does not end where its packed content does",
    ),
    ([Member(b"report.json", b"{}" * 50, packed=zlib.compress(b"{}" * 50, wbits=-15)[:-1])], "does not end where"),
    ([Member(b"report.json", b"{}", packed=b"\xff\xff\xff")], "cannot be read as a ZIP archive"),
]


@pytest.mark.parametrize(("made", "reason"), STRUCTURE, ids=[reason for _, reason in STRUCTURE])
def test_a_member_that_two_programs_could_read_in_two_ways_is_refused(
    tmp_path: Path, made: list[Member], reason: str
) -> None:
    assert reason in refusal(zip_of(made), tmp_path)[1]


def test_something_before_behind_or_between_is_refused(tmp_path: Path) -> None:
    assert "something before its first member" in refusal(zip_of(TWO, before=b"#!/bin/sh\n"), tmp_path)[1]
    assert "does not end as a ZIP archive does" in refusal(zip_of(TWO) + b"x", tmp_path)[1]
    assert "does not end as a ZIP archive does" in refusal(zip_of(TWO, comment=b"hello"), tmp_path)[1]
    assert "does not end as a ZIP archive does" in refusal(zip_of(TWO)[:-5], tmp_path)[1]
    assert "does not end as a ZIP archive does" in refusal(b"PK\x03\x04", tmp_path)[1]
    assert "elsewhere than it says" in refusal(b"x" + zip_of(TWO), tmp_path)[1]
    assert "lists 2 members and says that they are 1" in refusal(zip_of(TWO, entries=1), tmp_path)[1]
    assert list(tmp_path.iterdir()) == []


def test_members_that_share_their_bytes_are_a_bomb(tmp_path: Path) -> None:
    names = [b"engine-%d.log" % number for number in range(500)]
    raw = overlapping(names, b"x" * 1_000_000)
    assert len(raw) < 80_000
    with zipfile.ZipFile(io.BytesIO(raw)) as archive:
        assert sum(info.file_size for info in archive.infolist()) == 500_000_000
    assert refusal(raw, tmp_path)[1].endswith("a bomb")
    few = overlapping(names[:20], b"x" * 1000)  # too small for the ratio: the one header that they share names one
    assert refusal(few, tmp_path) == (
        "engine-1.log",
        "has two headers that say different things: programs would unpack different files",
    )


def test_an_overlap_with_headers_that_agree_is_found_by_its_bytes(tmp_path: Path) -> None:
    """One member's content holds the next one's header and content: Fifield's quoting, in one step."""
    inner = zip_of([Member(b"report.md", b"#", method=0)])[: 30 + len(b"report.md") + 1]
    outer = Member(b"report.json", inner, method=0)
    place = 30 + len(b"report.json")
    lie = Member(b"report.md", b"#", method=0, central={"offset": place})
    raw = zip_of([outer, lie])
    assert refusal(raw, tmp_path)[1] == "shares its bytes with another member: a zip bomb"


def test_a_bomb_is_refused_by_what_it_claims_and_by_what_it_holds(tmp_path: Path) -> None:
    packer = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    piece = b"\0" * 1_000_000
    packed = b"".join(packer.compress(piece) for _ in range(400)) + packer.flush()
    claimed = {"unpacked": 400_000_000, "packed": len(packed), "crc": 0}
    honest_about_it = Member(b"engine-0.log", packed=packed, central=claimed, local=claimed)
    assert "a bomb" in refusal(zip_of([honest_about_it]), tmp_path)[1]
    lie = claimed | {"unpacked": 1000}
    raw = zip_of([Member(b"engine-0.log", packed=packed, central=lie, local=lie)])
    tracemalloc.start()
    assert "unpacks to more than the 1,000 bytes" in refusal(raw, tmp_path / "lie")[1]
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 8_000_000
    assert (tmp_path / "lie" / "engine-0.log").stat().st_size <= 1000


def test_a_file_that_claims_more_than_its_kind_may_be_is_refused_before_it_is_unpacked(tmp_path: Path) -> None:
    claim = {"unpacked": LIMITS["report.md"] + 1}
    raw = zip_of([Member(b"report.md", b"x", central=claim, local=claim)])
    assert refusal(raw, tmp_path) == (
        "report.md",
        "is larger than 1,024 KiB, the most that a file of its kind may be",
    )


def test_all_files_together_have_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intake_members, "TOTAL_LIMIT", 5000)
    logs = [Member(b"engine-%d.log" % number, b"x" * 2000) for number in range(3)]
    assert "and those before it unpack to more than" in refusal(zip_of(logs), tmp_path)[1]


def test_a_list_that_is_too_long_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    many = zip_of([Member(b"engine-%d.log" % number, method=0) for number in range(2000)])
    monkeypatch.setattr(zipfile, "ZipFile", None)
    assert "lists 2,000 members" in refusal(many, tmp_path)[1]


def test_zip64_is_refused_before_its_records_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A list that the ordinary end calls short and the ZIP64 end calls long: `zipfile` believes the latter."""
    body = zip_of(TWO)
    end64 = struct.pack("<4sQ2H2I4Q", b"PK\x06\x06", 44, 45, 45, 0, 0, 1 << 40, 1 << 40, 1 << 50, 0)
    locator = struct.pack("<4sIQI", b"PK\x06\x07", 0, len(body) - 22, 1)
    monkeypatch.setattr(zipfile, "ZipFile", None)
    assert "is a ZIP64 archive" in refusal(body[:-22] + end64 + locator + body[-22:], tmp_path)[1]
    assert "is a ZIP64 archive" in refusal(zip_of(TWO, entries=0xFFFF), tmp_path)[1]


@given(st.data())
def test_a_changed_byte_never_ends_in_anything_but_a_refusal(data: st.DataObject) -> None:
    raw = bytearray(zip_of([*TWO, Member(b"engine-0.log", b"line\n" * 50)]))
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    with TemporaryDirectory() as name:
        folder = Path(name) / "out"
        folder.mkdir()
        with suppress(RefusedError):
            unzip(io.BytesIO(bytes(raw)), "r.zip", folder)
        assert [path.name for path in Path(name).iterdir()] == ["out"]
