"""`just build` from the words of its command line: what needs no Docker, and what is told."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from bench.cli import app
from bench.engine.pins import load_pins
from bench.errors import StreamproofError, UsageError
from bench.images.build import BuiltImage
from bench.images.command import Wishes, _tell_comparison, build_image
from bench.images.definition import image_definition
from bench.images.reproducible import Comparison

DIGEST = "sha256:" + "0" * 64
NOWHERE = "unix:///nowhere/docker.sock"


def run(*words: str) -> str:
    answer = CliRunner().invoke(app, ["build", *words], catch_exceptions=False)
    assert answer.exit_code == 0
    return answer.stdout


def test_the_list_needs_no_docker_and_names_every_target(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", NOWHERE)
    shown = run("--list")
    for name in load_pins().targets:
        assert f"{name} " in shown
        assert image_definition(name).sha256[:12] in shown


def test_the_list_as_data() -> None:
    listed = {entry["target"]: entry for entry in json.loads(run("--list", "--json"))}
    assert listed.keys() == load_pins().targets.keys()
    cpu = image_definition("cpu")
    assert (listed["cpu"]["tag"], listed["cpu"]["base"]) == (cpu.tag, cpu.base.reference)
    assert listed["b200-nvfp4"]["carries"]["flashinfer-cubin"] == "0.6.14"


@pytest.mark.parametrize(
    ("target", "wishes", "message"),
    [
        (None, Wishes(), "no image is named"),
        ("h100", Wishes(), "no target that has an image"),
        ("cpu", Wishes(base_image="python:3.12"), "REFERENCE@sha256"),
        ("cpu", Wishes(base_python="3.11"), "describe the base that --base-image names"),
        ("cpu", Wishes(base_glibc=31), "describe the base that --base-image names"),
        ("cpu", Wishes(base_image=f"x@{DIGEST}", base_python="three"), "no version of Python"),
        ("cpu", Wishes(caches=Path("/nowhere")), "is no folder"),
    ],
)
def test_wrong_words_are_told_before_docker_is_asked(
    target: str | None, wishes: Wishes, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", NOWHERE)
    with pytest.raises(UsageError, match=message) as caught:
        build_image(target, wishes)
    assert caught.value.remedy


def test_without_docker_the_error_says_what_can_be_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", NOWHERE)
    with pytest.raises(StreamproofError, match="Docker is not") as caught:
        build_image("cpu", Wishes())
    assert "just build --list" in caught.value.remedy


def image(*layers: str) -> BuiltImage:
    return BuiltImage(
        id=DIGEST,
        reference="streamproof/bench:012345678901",
        target="bench",
        definition_sha256="0" * 64,
        labels={},
        base_digest=DIGEST,
        repo_digests=(),
        layers=layers,
        size=1,
        cached=False,
    )


class TestComparison:
    def test_the_same(self, capsys: pytest.CaptureFixture[str]) -> None:
        compared = Comparison(image=image("a", "b"), second_layers=("a", "b"), differing=())
        assert compared.same
        _tell_comparison(compared, Console(), as_json=False)
        assert "reproducible: two builds" in capsys.readouterr().out

    def test_what_differs_is_named_and_counted(self, capsys: pytest.CaptureFixture[str]) -> None:
        lines = tuple(f"layer 2: f{number}: content" for number in range(40))
        compared = Comparison(image=image("a", "b"), second_layers=("a", "c"), differing=lines)
        assert not compared.same
        _tell_comparison(compared, Console(), as_json=False)
        told = capsys.readouterr().out
        assert "not reproducible" in told
        assert "f29: content" in told
        assert "f30: content" not in told
        assert "and 10 more" in told

    def test_as_data(self, capsys: pytest.CaptureFixture[str]) -> None:
        compared = Comparison(image=image("a"), second_layers=("b",), differing=("layer 1: f: content",))
        _tell_comparison(compared, Console(), as_json=True)
        told = json.loads(capsys.readouterr().out)
        assert told["same"] is False
        assert told["differing"] == ["layer 1: f: content"]
