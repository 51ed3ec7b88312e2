"""What the client's pod does before it measures."""

import stat
import sys
from pathlib import Path

import pytest

from bench.deploy.client_start import main, place_key, wait_for
from bench.errors import Exit, StreamproofError
from bench.report.keys import PRIVATE_NAME, own_signer
from tests.truth.process import running


class Clock:
    """Time that passes only while somebody waits."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now

    def pause(self, seconds: float) -> None:
        self.now += seconds


def test_it_waits_as_long_as_the_engine_needs(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    wait_for("http://e:1", timeout_s=600, healthy=lambda _: clock.now >= 250, clock=clock, pause=clock.pause)
    assert 250 <= clock.now <= 252
    told = capsys.readouterr().err.splitlines()
    assert [line.rpartition(": ")[2] for line in told] == [
        "0 of at most 600 s",
        "60 of at most 600 s",
        "120 of at most 600 s",
    ]


def test_an_engine_that_never_answers_is_told_with_a_remedy() -> None:
    clock = Clock()
    with pytest.raises(StreamproofError, match="no engine answers at http://e:1 after 600 s") as error:
        wait_for("http://e:1", timeout_s=600, healthy=lambda _: False, clock=clock, pause=clock.pause)
    assert "kubectl" in error.value.remedy
    assert 700 <= clock.now <= 702


def test_the_secrets_key_becomes_the_clients_own(tmp_path: Path) -> None:
    mine = own_signer(tmp_path / "mine")
    secret = tmp_path / "secret"
    secret.write_bytes((tmp_path / "mine" / PRIVATE_NAME).read_bytes())
    secret.chmod(0o440)  # as Kubernetes mounts it, and as the client would refuse it
    assert place_key(secret, tmp_path / "home" / "keys")
    placed = tmp_path / "home" / "keys" / PRIVATE_NAME
    assert stat.S_IMODE(placed.stat().st_mode) == 0o600
    assert own_signer(tmp_path / "home" / "keys").key_id == mine.key_id
    assert place_key(secret, tmp_path / "home" / "keys")  # a pod that is started again
    assert not place_key(tmp_path / "none", tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_as_a_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    no_key = ["--key", str(tmp_path / "none")]
    with running({}, folder=tmp_path) as server:
        assert main([server.base_url, "--timeout-s", "60", *no_key]) == Exit.OK
    assert "one of this job alone" in capsys.readouterr().err
    assert main([server.base_url, "--timeout-s", "0", *no_key]) == Exit.FAILURE
    assert "no engine answers" in capsys.readouterr().err
    assert main(["localhost", "--timeout-s", "0", *no_key]) == Exit.USAGE
    assert "no address of a server" in capsys.readouterr().err


def test_a_home_that_cannot_be_written_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "config").write_text("in the way")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    assert main(["http://127.0.0.1:9", "--timeout-s", "0", "--key", sys.executable]) == Exit.FAILURE
    assert "the signing key cannot be put in place" in capsys.readouterr().err
