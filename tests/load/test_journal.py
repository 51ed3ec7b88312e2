from __future__ import annotations

import os
import resource
import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.errors import StreamproofError
from bench.load import journal
from bench.load.journal import Journal
from bench.records import Outcome, RequestRecord

if TYPE_CHECKING:
    from pathlib import Path

RECORD = RequestRecord(
    point=0,
    run=0,
    request=0,
    stream=3,
    conversation=1,
    turn=2,
    agent="booking",
    primed=False,
    intended_s=1.25,
    sent_s=1.2500001,
    headers_s=1.3,
    first_token_s=1.4,
    last_token_s=1.6,
    done_s=1.7,
    chunk_s=(1.4, 1.5, 1.6),
    prompt_tokens_expected=10,
    prompt_tokens=10,
    cached_tokens=None,
    completion_tokens=3,
    requested_tokens=3,
    finish_reason="length",
    status=200,
    outcome=Outcome.OK,
    error="",
    segments=((2**63 - 1, 8), (5, 2)),
)

TIMES = st.floats(allow_nan=False, allow_infinity=False)


@settings(max_examples=30)
@given(
    intended_s=TIMES,
    chunk_s=st.lists(TIMES).map(tuple),
    error=st.text(st.characters(exclude_categories=["Cs"])),
    outcome=st.sampled_from(Outcome),
)
def test_a_record_comes_back_as_it_was(
    tmp_path_factory: pytest.TempPathFactory,
    intended_s: float,
    chunk_s: tuple[float, ...],
    error: str,
    outcome: Outcome,
) -> None:
    record = replace(RECORD, intended_s=intended_s, chunk_s=chunk_s, error=error, outcome=outcome, sent_s=None)
    path = tmp_path_factory.mktemp("journal") / "requests.jsonl"
    with Journal(path) as written:
        written.record(record)
    assert journal.read(path) == journal.Journaled((record,), torn=False)


def test_each_record_is_one_write_of_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writes: list[bytes] = []
    write = os.write

    def counted(fd: int, data: bytes) -> int:
        writes.append(data)
        return write(fd, data)

    monkeypatch.setattr(os, "write", counted)
    with Journal(tmp_path / "requests.jsonl") as written:
        written.record(RECORD)
        written.record(RECORD)
    assert len(writes) == 2
    assert all(line.count(b"\n") == 1 and line.endswith(b"\n") for line in writes)


def test_it_goes_on_where_it_ended(tmp_path: Path) -> None:
    path = tmp_path / "requests.jsonl"
    for number in range(3):
        with Journal(path) as written:
            written.record(replace(RECORD, request=number))
            written.sync()
    assert [record.request for record in journal.read(path).records] == [0, 1, 2]


def test_a_torn_last_line_is_dropped_and_said(tmp_path: Path) -> None:
    path = tmp_path / "requests.jsonl"
    with Journal(path) as written:
        written.record(RECORD)
        written.record(RECORD)
    whole = path.read_bytes()
    for cut in (1, 20):
        path.write_bytes(whole[:-cut])
        assert journal.read(path) == journal.Journaled((RECORD,), torn=True)
    path.write_bytes(b"")
    assert journal.read(path) == journal.Journaled((), torn=False)


@pytest.mark.parametrize("line", [b"{}", b"7", b"nonsense", b'{"outcome": "splendid"}', b""])
def test_a_line_that_is_no_record_is_named(tmp_path: Path, line: bytes) -> None:
    path = tmp_path / "requests.jsonl"
    with Journal(path) as written:
        written.record(RECORD)
        written.line(line + b"\n")
    with pytest.raises(StreamproofError, match=r"requests\.jsonl, line 2: not a request record"):
        journal.read(path)


FULL_DISK = """
import resource, signal, sys
from pathlib import Path
from bench.errors import StreamproofError
from bench.load.journal import Journal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
path, limit = Path(sys.argv[1]), int(sys.argv[2])
with Journal(path) as journal:
    journal.line(b"first\\n")
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
    for line in (b"second\\n", b"third\\n"):
        try:
            journal.line(line)
        except StreamproofError as error:
            print(error.message.rpartition("/")[2])
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    journal.line(b"fourth\\n")
"""


@pytest.mark.parametrize("limit", [6, 9])
def test_a_disk_that_is_full_loses_nothing_and_leaves_no_half_line(tmp_path: Path, limit: int) -> None:
    """A limit of the file's size stands for the disk: at the end of a line, and in the middle of one."""
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[1] == resource.RLIM_INFINITY
    path = tmp_path / "requests.jsonl"
    done = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(path), str(limit)], capture_output=True, text=True, check=True
    )
    message = "requests.jsonl takes no more: File too large. What it holds so far is whole."
    assert done.stdout.splitlines() == [message] * 2
    assert path.read_bytes() == b"first\nfourth\n"


def test_a_file_that_cannot_be_opened(tmp_path: Path) -> None:
    with pytest.raises(StreamproofError, match="cannot be written: No such file") as caught:
        Journal(tmp_path / "no" / "requests.jsonl")
    assert caught.value.remedy


def test_a_disk_that_does_not_take_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: int) -> None:
        raise OSError(5, "Input/output error")

    with Journal(tmp_path / "requests.jsonl") as written:
        monkeypatch.setattr(os, "fsync", refuse)
        with pytest.raises(StreamproofError, match="takes no more: Input/output error"):
            written.sync()
        written.close()
