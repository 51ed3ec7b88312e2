"""What training reads: documents within limits, a tokenizer trained on part of them, a manifest that names both."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from tokenizers import Tokenizer

from quantize.toy import prepare as module
from quantize.toy.documents import read_documents
from quantize.toy.layout import CHECKPOINT, CORPUS, MANIFEST, TOKENIZER, TOKENIZER_TEXT
from quantize.toy.prepare import main, prepare, read_tokenizer_text
from quantize.toy.provenance import file_digest
from quantize.toy.shape import TOY

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(autouse=True)
def calls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Puts texts of the committed tokenizer in place of the workload's, some too long; returns the seeds asked for."""
    asked: list[int] = []

    def texts(seed: int) -> Iterator[str]:
        asked.append(seed)
        while True:
            for text in read_tokenizer_text(CHECKPOINT / TOKENIZER_TEXT):
                yield text
                yield text * 20

    monkeypatch.setattr(module, "training_text", texts)
    return asked


def test_writes_all_that_training_reads(tmp_path: Path, calls: list[int]) -> None:
    manifest = prepare(tmp_path, seed=7, limit_bytes=1_000_000)
    assert calls == [7]
    documents = list(read_documents(tmp_path / CORPUS))
    assert (tmp_path / CORPUS).stat().st_size <= 1_000_000
    assert max(map(len, documents)) <= 9_000
    assert Tokenizer.from_file(str(tmp_path / TOKENIZER)).get_vocab_size() == TOY.vocab
    assert read_tokenizer_text(tmp_path / TOKENIZER_TEXT) == documents[::24]
    assert json.loads((tmp_path / MANIFEST).read_text(encoding="utf-8")) == manifest
    assert manifest["seed"] == 7
    assert manifest["documents"] == len(documents)
    assert manifest["sha256"] == file_digest(tmp_path / CORPUS)


def test_command_line_writes_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    manifest = prepare(tmp_path / "one", seed=7, limit_bytes=1_000_000)
    main(["--out", str(tmp_path / "two"), "--seed", "7", "--limit-bytes", "1000000"])
    for name in (CORPUS, TOKENIZER, TOKENIZER_TEXT, MANIFEST):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()
    assert str(manifest["sha256"]) in capsys.readouterr().out
