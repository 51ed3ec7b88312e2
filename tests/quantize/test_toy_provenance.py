"""The provenance beside a checkpoint: what it holds, and that a change of any file is found."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from quantize.toy import provenance
from quantize.toy.provenance import PROVENANCE, TrainingRecord, differences, file_digest, write_provenance

if TYPE_CHECKING:
    from pathlib import Path

RECORD = TrainingRecord(
    command="python -m quantize.toy.train",
    settings={"seed": 1},
    device="CPU, 2 threads",
    seconds=1.5,
    corpus={"documents": 3},
    result={"final_loss": {"decoder": 1.0}},
)


@pytest.fixture
def checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(provenance, "version", lambda name: f"{name}-1.0")  # torch is not in this environment
    (tmp_path / "model.safetensors").write_bytes(b"weights")
    (tmp_path / "config.json").write_bytes(b"{}")
    write_provenance(tmp_path, RECORD)
    return tmp_path


def test_holds_the_record_the_versions_and_every_file(checkpoint: Path) -> None:
    written = json.loads((checkpoint / PROVENANCE).read_text(encoding="utf-8"))
    assert written["command"] == "python -m quantize.toy.train"
    assert written["result"] == {"final_loss": {"decoder": 1.0}}
    assert written["libraries"]["torch"] == "torch-1.0"
    assert written["files"]["model.safetensors"] == {
        "bytes": 7,
        "sha256": file_digest(checkpoint / "model.safetensors"),
    }
    assert set(written["files"]) == {"model.safetensors", "config.json"}


def test_digest_is_sha256_of_the_bytes(tmp_path: Path) -> None:
    path = tmp_path / "abc"
    path.write_bytes(b"abc")  # FIPS 180-2, appendix B.1
    assert file_digest(path) == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


def test_nothing_differs_after_writing(checkpoint: Path) -> None:
    assert differences(checkpoint) == []


def test_changed_missing_and_added_files_are_named(checkpoint: Path) -> None:
    (checkpoint / "model.safetensors").write_bytes(b"Weights")
    (checkpoint / "config.json").unlink()
    (checkpoint / "extra.bin").write_bytes(b"")
    assert differences(checkpoint) == [
        "config.json: listed, not there",
        "extra.bin: there, not listed",
        "model.safetensors: its SHA-256 is not the listed one",
    ]
