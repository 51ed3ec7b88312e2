"""The command as its user meets it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from bench.errors import StreamproofError
from quantize.audit.cli import audit
from quantize.audit.model import Audit, audit_json, read_audit
from quantize.audit.run import audit_checkpoint
from tests.quantize.audit.synthetic import Folder

app = typer.Typer()
app.command()(audit)
RUN = CliRunner()


@pytest.fixture
def folder(sound: Folder, tmp_path: Path) -> Path:
    return sound.write(tmp_path / "checkpoint")


@pytest.fixture
def broken(sound: Folder, tmp_path: Path) -> Path:
    damaged = sound.copy()
    for name in damaged.tensors:
        if name.endswith(".input_scale"):
            damaged.tensors[name] = ("F32", np.array(0, np.float32))
    return damaged.write(tmp_path / "broken")


def test_the_table_of_a_sound_checkpoint(folder: Path, source: Path) -> None:
    result = RUN.invoke(app, [str(folder), "--source", str(source)])
    assert result.exit_code == 0
    lines = [line for line in result.output.splitlines() if line[:1].isdigit()]
    assert [line.split()[0] for line in lines] == list("012345678")
    assert sum("passed" in line for line in lines) == 8
    assert "PASSED  checkpoint: an NVFP4 checkpoint of ModelOpt (Qwen3.5-MoE)" in result.output
    assert "not checked: served: no run on the target was given (--served)" in result.output


def test_the_table_names_offenders_and_counts_the_rest(broken: Path, source: Path) -> None:
    result = RUN.invoke(app, [str(broken), "--source", str(source)])
    assert result.exit_code == 3
    assert "input_scale is 0, not a positive number" in " ".join(result.output.split())
    assert "and 31 more" in result.output
    assert "failed: scales" in result.output


def test_json_is_the_audit(broken: Path) -> None:
    result = RUN.invoke(app, [str(broken), "--json"])
    assert result.exit_code == 3
    found = Audit.model_validate_json(result.stdout)
    assert found.failed[0].offending == 37
    assert not found.passed


def test_the_file_can_be_read_back(folder: Path, source: Path, tmp_path: Path) -> None:
    file = tmp_path / "audit.json"
    result = RUN.invoke(app, [str(folder), "--source", str(source), "--json-file", str(file)])
    assert result.exit_code == 0
    assert read_audit(file) == audit_checkpoint(folder, source=source, processes=1)
    assert list(tmp_path.glob("*.partial")) == []


def test_the_same_bytes_give_the_same_file(folder: Path, source: Path) -> None:
    first = audit_json(audit_checkpoint(folder, source=source, processes=1))
    assert first == audit_json(audit_checkpoint(folder, source=source, processes=1))
    assert str(folder.parent).encode() not in first


def test_another_format_is_named_once(source: Path) -> None:
    result = RUN.invoke(app, [str(source)])
    assert result.exit_code == 3
    assert result.output.count("not an NVFP4 checkpoint of ModelOpt") == 1
    assert "NOT AUDITED  source: not an NVFP4 checkpoint" in result.output


@pytest.mark.parametrize("arguments", [[], ["x", "--processes", "0"], ["x", "y"], ["x", "--no-such-option"]])
def test_wrong_usage(arguments: list[str]) -> None:
    assert RUN.invoke(app, arguments).exit_code == 2


@pytest.mark.parametrize("option", ["--source", "--served"])
def test_what_is_not_there_is_an_error_with_a_remedy(option: str, folder: Path) -> None:
    result = RUN.invoke(app, [str(folder), option, "/nowhere"])
    assert isinstance(result.exception, StreamproofError)
    assert result.exception.exit_code == 1
    assert result.exception.remedy


def test_a_file_that_cannot_be_written_is_an_error(folder: Path) -> None:
    result = RUN.invoke(app, [str(folder), "--json-file", "/nowhere/audit.json"])
    assert isinstance(result.exception, StreamproofError)


@pytest.mark.parametrize("change", [{"passed": True}, {"complete": True}, {"gates": []}, {"more": 1}])
def test_an_edited_audit_is_refused(change: dict[str, object], broken: Path, tmp_path: Path) -> None:
    found = json.loads(audit_json(audit_checkpoint(broken, processes=1)))
    (tmp_path / "audit.json").write_text(json.dumps(found | change))
    with pytest.raises(StreamproofError, match="is no audit"):
        read_audit(tmp_path / "audit.json")


@pytest.mark.parametrize("content", ["", "{", '{"a": NaN}', "[]"])
def test_a_file_that_is_no_audit_is_refused(content: str, tmp_path: Path) -> None:
    (tmp_path / "audit.json").write_text(content)
    with pytest.raises(StreamproofError, match="is no audit"):
        read_audit(tmp_path / "audit.json")
    with pytest.raises(StreamproofError, match="cannot be read"):
        read_audit(tmp_path / "nothing.json")
