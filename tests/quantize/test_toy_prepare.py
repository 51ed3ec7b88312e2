"""What training reads: documents within limits, a tokenizer trained on part of them, a manifest that names both."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING

import pytest
from tokenizers import Tokenizer

from bench.errors import StreamproofError
from quantize.toy import prepare as module
from quantize.toy.documents import read_documents
from quantize.toy.layout import CHECKPOINT, CORPUS, MANIFEST, TOKENIZER, TOKENIZER_TEXT
from quantize.toy.prepare import main, prepare, read_tokenizer_text, text_commit
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
    # Whoever runs the tests may have changed the workload's text.
    monkeypatch.setattr(module, "text_commit", lambda _: "0123456789" * 4)
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
    assert manifest["workload_commit"] == "0123456789" * 4
    assert manifest["documents"] == len(documents)
    assert manifest["sha256"] == file_digest(tmp_path / CORPUS)


def test_command_line_writes_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    manifest = prepare(tmp_path / "one", seed=7, limit_bytes=1_000_000)
    main(["--out", str(tmp_path / "two"), "--seed", "7", "--limit-bytes", "1000000"])
    for name in (CORPUS, TOKENIZER, TOKENIZER_TEXT, MANIFEST):
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()
    assert str(manifest["sha256"]) in capsys.readouterr().out


def git(folder: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false")
    done = subprocess.run(["git", "-C", folder, *identity, *arguments], capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    git(tmp_path, "init", "-q")
    for name in ("bench/workload/text.toml", "README.md"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("old\n", encoding="utf-8")
        git(tmp_path, "add", name)
        git(tmp_path, "commit", "-q", "-m", name)
    return tmp_path


def test_the_text_has_the_commit_that_last_changed_it(checkout: Path) -> None:
    (checkout / "README.md").write_text("new\n", encoding="utf-8")  # not the workload's text
    assert text_commit(checkout) == git(checkout, "rev-parse", "HEAD~1")


def test_text_that_is_not_committed_is_refused(checkout: Path) -> None:
    (checkout / "bench" / "workload" / "more.toml").write_text("new\n", encoding="utf-8")
    with pytest.raises(StreamproofError, match="not committed") as caught:
        text_commit(checkout)
    assert caught.value.remedy == "Commit them first."


def test_a_folder_without_git_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    with pytest.raises(StreamproofError, match="version of the workload's text is unknown"):
        text_commit(tmp_path)
