"""What is no log of vLLM, and what is made to hurt."""

from __future__ import annotations

import gzip
import io
import os
import random
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bench.explain.doctor.examine import Verdict, examine
from bench.explain.doctor.knowledge import knowledge
from bench.explain.doctor.reader import MOST_STARTS, LogReader
from bench.explain.doctor.source import PIECE, STDIN, pieces
from tests.explain.doctor import scenes as s

if TYPE_CHECKING:
    from collections.abc import Iterator

OTHERS = {
    "SGLang": [
        "[2026-11-30 03:37:22] server_args=ServerArgs(model_path='m', tp_size=1)",
        "[2026-11-30 03:38:22 TP0] torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.",
        "[2026-11-30 03:38:22 TP0] sglang.srt.managers.scheduler hit an exception",
    ],
    "Text Generation Inference": [
        '{"timestamp":"2026","level":"INFO","fields":{"message":"Args"},"target":"text_generation_launcher"}',
        "2026-11-30T03:37:22.1Z  INFO text_generation_launcher: Default `max_batch_prefill_tokens`",
    ],
    "TensorRT-LLM": ["[TensorRT-LLM][INFO] Engine version 1.1 found", "[TRT-LLM] [W] Logger level already set"],
    "llama.cpp": ["llama_model_loader: loaded meta data with 33 key-value pairs", "main: llama-server starts"],
    "nginx": [
        '192.0.2.7 - - [30/Nov/2026:03:37:22 +0000] "POST /v1/chat/completions HTTP/1.1" 200 512 "-" "python"',
        "2026/11/30 03:37:22 [error] 29#29: *1 upstream timed out while reading response header from upstream",
    ],
}


@pytest.mark.parametrize("server", OTHERS)
def test_the_log_of_another_server_is_called_so(server: str) -> None:
    log = s.read(OTHERS[server])
    assert log.verdict is Verdict.NO_LOG
    assert server in log.problem
    assert log.advice


def test_a_proxy_in_the_same_log_does_not_hide_the_engine() -> None:
    mixed = [f"nginx-1  | {line}" for line in OTHERS["nginx"]] + [f"vllm-1  | {line}" for line in s.start()]
    assert s.read(mixed).verdict is Verdict.HEALTHY


@pytest.mark.parametrize("data", [b"", b"\n\r\n\n", b"\x00" * 100, b"   \n"])
def test_an_empty_log_is_called_empty(data: bytes) -> None:
    log = s.read(data)
    assert (log.verdict, log.problem) == (Verdict.NO_LOG, "The log is empty.")


def test_any_other_text_is_no_log_of_vllm() -> None:
    build = ["[7/400] Building CUDA object /home/user/vllm/v1/x.o", "FAILED: vllm/model_executor/y.o"]
    assert s.read(build).verdict is Verdict.NO_LOG
    log = s.read(["Dear diary,", "the weather was fine.", "RuntimeError: none of our business"])
    assert (log.verdict, log.problem) == (Verdict.NO_LOG, "No line of this log is vLLM's.")


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"\x28\xb5\x2f\xfd rest", "zstd"),
        (b"\xfd7zXZ\x00 rest", "xz"),
        (b"PK\x03\x04 rest", "zip"),
        ("﻿log".encode("utf-16"), "UTF-16"),
        (b"x" * 257 + b"ustar" + b"\x00" * 200, "tar"),
        (b"\x7fELF" + b"\x00\x01" * 3000, "not text"),
        (b"\x1f\x8b\x08 no gzip", "damaged gzip"),
        (gzip.compress(b"\x28\xb5\x2f\xfd rest", mtime=0), "zstd"),  # no time: two workers must name it alike
    ],
)
def test_what_is_no_text_is_refused_with_a_command(tmp_path: Path, data: bytes, says: str) -> None:
    path = tmp_path / "log"
    path.write_bytes(data)
    log = examine(path)
    assert log.verdict is Verdict.NO_LOG
    assert says in log.problem
    assert log.advice


def test_a_folder_and_a_missing_file_are_refused(tmp_path: Path) -> None:
    assert "is a folder" in examine(tmp_path).problem
    assert "cannot be read" in examine(tmp_path / "none.log").problem


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_a_file_without_permission_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.touch(mode=0o000)
    assert "Permission denied" in examine(path).problem


def test_standard_input_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    data = (s.STARTS / "h200-gpu-held.log").read_bytes()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    assert examine(STDIN).verdict is Verdict.FAILED


def test_a_gzip_bomb_is_read_in_pieces(tmp_path: Path) -> None:
    path = tmp_path / "bomb.gz"
    path.write_bytes(gzip.compress(b"a" * (32 * PIECE)) + gzip.compress(b"\nsecond member\n"))
    read = list(pieces(path))
    assert max(len(piece) for piece in read) <= PIECE
    assert sum(len(piece) for piece in read) == 32 * PIECE + 15


def test_a_log_that_names_a_new_process_in_every_line_stays_small() -> None:
    reader = LogReader(knowledge())
    for number in range(3000):
        reader.feed(f"(Worker_{number} pid={number}) ERROR 11-29 22:49:18 [a.py:1] ValueError: {number}\n".encode())
    reader.close()
    (start,) = reader.starts
    assert len(start._ladders) <= 129
    assert len(start.failures) <= 120


def test_a_crash_loop_is_shown_by_its_ends() -> None:
    once = "\n".join(s.start("h200-gpu-held")) + "\n"
    log = s.read((once * 40).encode())
    assert log.starts == 40
    assert len(log.diagnoses) == MOST_STARTS
    assert {diagnosis.finding.entry.id for diagnosis in log.diagnoses if diagnosis.finding} == {"gpu-still-held"}
    assert log.diagnoses[-1].number == 40


def hostile_lines() -> Iterator[str]:
    """Lines that a careless pattern would take minutes for."""
    frame = 'File "' + "a/" * 200
    yield from (piece * 2000 for piece in ("(Worker pid=1) ", "Traceback ", "a.", "pid=", "[", "Error: ", " - - ["))
    yield from (piece * 900 for piece in ("version ", "Free memory on ", "max_num_seqs (1) exceeds ", "KeyError "))
    yield from (f"  {frame * 40}", "  File " * 3000, "1," * 8000, "9" * 16000, "'cudagraph_capture_sizes': [" * 500)
    yield from ("Initializing a V1 LLM engine " * 500, "To serve at least one request with the model" * 300)
    yield from ("DeepGEMM warmup" + ":" * 9000, "| " * 8000, "2026-11-30T03:37:22Z " * 700, "{" * 9000, '{"a":' * 3000)
    yield from ("\x1b[" + "0;" * 8000 + "m", "\x1b]0;" + "x" * 9000, "(" * 9000, "INFO 11-30 00:00:00 [" + "x" * 16000)


def test_hostile_lines_take_no_longer_than_others() -> None:
    # No timed assertion: with a pattern that backtracks, this test would not end.
    lines = [line for line in hostile_lines() for _ in range(3)]
    assert s.read(lines).lines == len(lines) + 1


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.one_of(st.binary(max_size=120), st.sampled_from([b"\n", b"\r\n", b"\x1b[31m", b"\x9b", b"\x00"]))))
def test_no_bytes_make_it_fail(data: list[bytes]) -> None:
    s.read(b"".join(data))


@settings(max_examples=25, deadline=None)
@given(st.randoms(use_true_random=False))
def test_a_torn_and_shuffled_log_does_not_make_it_fail(order: random.Random) -> None:
    lines = s.until("Capturing CUDA graphs") + s.died(s.CAPTURING, s.OOM.format(asked="1 GiB"))
    torn = [line[: order.randrange(1, 200)] for line in lines]
    order.shuffle(torn)
    s.read(torn)


def test_quoted_lines_carry_no_control_and_no_markup() -> None:
    evil = (
        "ValueError: \x1b]0;own\x07[red]No available memory for the cache blocks\x1b[2J <script>alert(1)</script>\u202e"
    )
    found = s.diagnosis(s.until("Available KV cache memory") + s.died(s.BUDGET, evil)).finding
    assert found is not None
    text = next(quote.text for quote in found.evidence if "cache blocks" in quote.text)
    assert text == "ValueError: [red]No available memory for the cache blocks <script>alert(1)</script>"
