"""The docker command is found, called, listened to and stopped."""

from __future__ import annotations

import os
import signal
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from bench.errors import StreamproofError
from bench.images.docker_cli import Build, Builder, build_command, find_builder, progress_of, run_build


def program(folder: Path, script: str) -> str:
    folder.mkdir(exist_ok=True)
    path = folder / "docker"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


def a_build(folder: Path, **changes: object) -> Build:
    settings: dict[str, object] = {
        "context": folder,
        "stage": "bench",
        "tag": "streamproof/bench:0",
        "arguments": {"BASE": "x@sha256:0"},
        "labels": {"a": "b c"},
        "address": "unix:///socket",
        "id_file": folder / "id",
    }
    return Build(**{**settings, **changes})  # type: ignore[arg-type]  # a test's own changes


class TestFinding:
    NEITHER = "exit 1"
    BUILT_IN = 'test "$1 $DOCKER_BUILDKIT" = "build 1"'
    PLUGIN = 'test "$1 $2" = "buildx version"'

    def path(self, tmp_path: Path, *scripts: str) -> str:
        folders = [tmp_path / str(number) for number in range(len(scripts))]
        for folder, script in zip(folders, scripts, strict=True):
            program(folder, script)
        return os.pathsep.join(map(str, folders))

    def test_the_first_that_can(self, tmp_path: Path) -> None:
        path = self.path(tmp_path, self.NEITHER, self.BUILT_IN, self.PLUGIN)
        assert find_builder(path) == Builder(program=str(tmp_path / "1/docker"), buildx=False)

    def test_the_plugin_is_preferred_to_what_is_built_in(self, tmp_path: Path) -> None:
        assert find_builder(self.path(tmp_path, "exit 0")).buildx

    def test_none_that_can_is_told_apart_from_none(self, tmp_path: Path) -> None:
        with pytest.raises(StreamproofError, match="buildx plugin is missing") as caught:
            find_builder(self.path(tmp_path, self.NEITHER))
        assert "docker-buildx" in caught.value.remedy
        with pytest.raises(StreamproofError, match="docker command is not there"):
            find_builder(str(tmp_path / "nowhere"))


class TestCommand:
    def test_no_network_no_proxies_one_stage_one_engine(self, tmp_path: Path) -> None:
        command = build_command(Builder(program="docker", buildx=False), a_build(tmp_path))
        line = " ".join(command)
        assert line.startswith(
            "docker --host unix:///socket build --platform linux/amd64 --network none --target bench"
        )
        arguments = [after for word, after in pairwise(command) if word == "--build-arg"]
        assert {"BASE=x@sha256:0", "HTTP_PROXY=", "https_proxy=", "NO_PROXY="} <= set(arguments)
        assert command[command.index("--label") + 1] == "a=b c"
        assert command[-1] == str(tmp_path)
        assert "--no-cache" not in command
        assert "provenance" not in line

    def test_with_buildx_provenance_and_a_bill_of_materials_where_they_can_be_kept(self, tmp_path: Path) -> None:
        builder = Builder(program="docker", buildx=True)
        kept = build_command(builder, a_build(tmp_path, attest=True))
        assert {"--provenance=mode=max", "--sbom=true", "--load"} <= set(kept)
        lost = build_command(builder, a_build(tmp_path))
        assert {"--provenance=false", "--sbom=false", "--load"} <= set(lost)
        assert kept[3:7] == ["buildx", "--builder", "default", "build"]

    def test_a_fresh_one_takes_nothing_from_the_cache(self, tmp_path: Path) -> None:
        assert "--no-cache" in build_command(Builder(program="docker", buildx=False), a_build(tmp_path, fresh=True))


class TestProgress:
    @pytest.mark.parametrize(
        ("line", "told"),
        [
            ("#8 0.513 installing packages", "  installing packages"),
            ("#5 transferring context: 639.13MB 5.1s", "  transferring context: 639.13MB 5.1s"),
            ("#5 transferring context: 2.99GB 27.5s done", None),
            ("#7 [bench 2/2] RUN --mount", "[bench 2/2] RUN --mount"),
            ("#1 [internal] load build definition from Dockerfile", None),
            ("#8 sha256:ab 1.2MB / 3MB 0.1s", None),
            ("#8 DONE 12.2s", None),
            ("#8 ERROR: process did not complete", "  ERROR: process did not complete"),
            ("", None),
            (" > [bench 2/2] RUN:", None),
        ],
    )
    def test_what_is_worth_telling(self, line: str, told: str | None) -> None:
        assert progress_of(line) == told


class TestRunning:
    def test_what_it_says_is_told_and_kept_only_when_it_fails(self, tmp_path: Path) -> None:
        told: list[str] = []
        well = Builder(program=program(tmp_path / "well", "echo '#8 0.1 going on' >&2"), buildx=False)
        assert run_build(well, a_build(tmp_path), say=told.append) == []
        assert told == ["  going on"]
        ill = Builder(program=program(tmp_path / "ill", "echo 'it broke' >&2; exit 3"), buildx=False)
        assert run_build(ill, a_build(tmp_path), say=told.append) == ["it broke"]

    def test_it_fails_in_silence(self, tmp_path: Path) -> None:
        silent = Builder(program=program(tmp_path, "exit 3"), buildx=False)
        assert run_build(silent, a_build(tmp_path), say=print) == ["docker ended with status 3 and said nothing"]

    def test_no_token_of_the_users_is_given_to_it(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("HF_TOKEN", "hf_secret")
        monkeypatch.setenv("HTTPS_PROXY", "http://secret@proxy")
        printing = Builder(program=program(tmp_path, "env >&2; exit 1"), buildx=False)
        said = "\n".join(run_build(printing, a_build(tmp_path), say=lambda _: None))
        assert "DOCKER_BUILDKIT=1" in said
        assert "secret" not in said

    def test_ctrl_c_ends_it_in_good_order(self, tmp_path: Path) -> None:
        program(tmp_path, "")
        (tmp_path / "docker").write_text(
            f"#!{sys.executable}\n"
            "import pathlib, signal, sys\n"
            f"signal.signal(signal.SIGINT, lambda *_: sys.exit(pathlib.Path('{tmp_path}/end').write_text('stopped')))\n"
            "print('#1 0.1 up', file=sys.stderr, flush=True)\n"
            "signal.pause()\n"
        )
        endless = Builder(program=str(tmp_path / "docker"), buildx=False)

        def stop(_: str) -> None:
            signal.raise_signal(signal.SIGINT)

        with pytest.raises(KeyboardInterrupt):
            run_build(endless, a_build(tmp_path), say=stop)
        assert (tmp_path / "end").read_text() == "stopped"
