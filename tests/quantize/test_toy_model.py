"""The toy's modules and its training, in the environment that has torch."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from bench.engine.environment import ensure_environment
from bench.engine.pins import REPOSITORY
from quantize.toy.documents import write_documents
from quantize.toy.layout import CHECKPOINT, CORPUS, MANIFEST, TOKENIZER, TOKENIZER_TEXT
from quantize.toy.prepare import read_tokenizer_text
from quantize.toy.provenance import differences

pytestmark = [pytest.mark.engine, pytest.mark.thorough]
REPORT = Path(__file__).with_name("toy_model_report.py")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    corpus = tmp_path_factory.mktemp("toy")
    write_documents(corpus / CORPUS, read_tokenizer_text(CHECKPOINT / TOKENIZER_TEXT), limit_bytes=1_000_000)
    for name in (TOKENIZER, TOKENIZER_TEXT):
        (corpus / name).write_bytes((CHECKPOINT / name).read_bytes())
    (corpus / MANIFEST).write_text('{"documents": 1}', encoding="utf-8")
    return corpus


@pytest.fixture(scope="module")
def report(folder: Path) -> dict[str, Any]:
    environment = ensure_environment("engine-cpu", say=print)
    done = subprocess.run(
        [environment.python, REPORT, folder, folder],
        env={**os.environ, **environment.env, "PYTHONPATH": str(REPOSITORY), "OMP_WAIT_POLICY": "passive"},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    content: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return content


def test_drafting_from_all_anchors_at_once_equals_drafting_as_the_engine_does(report: dict[str, Any]) -> None:
    assert report["draft_error"] < 1e-4


def test_running_all_experts_equals_running_the_chosen_ones(report: dict[str, Any]) -> None:
    assert report["experts_error"] < 1e-5


def test_tensors_have_the_promised_names_and_shapes(report: dict[str, Any]) -> None:
    assert report["names_as_promised"]


def test_every_parameter_learns(report: dict[str, Any]) -> None:
    assert report["untouched"] == []


def test_training_is_a_function_of_its_seed(report: dict[str, Any]) -> None:
    first, again, other = report["digests"]
    assert first == again
    assert first != other


def test_training_leaves_a_whole_checkpoint(report: dict[str, Any], folder: Path) -> None:
    assert report["digests"]
    assert differences(folder / "a") == []
    written = {path.name for path in (folder / "a").iterdir()}
    assert written == {path.name for path in CHECKPOINT.iterdir()}
    provenance = json.loads((folder / "a" / "PROVENANCE.json").read_text(encoding="utf-8"))
    assert provenance["corpus"] == {"documents": 1}
    assert provenance["settings"]["steps"] == 2
