import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.engine.pins import REPOSITORY
from bench.errors import Exit
from bench.report import folder_files as files
from tests.engine.web import serving
from tests.report.factories import healthy_observations, healthy_records, make_started
from tests.report.folders import Signed, signed
from tests.report.intake.zips import Member, zip_of


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Signed:
    records = healthy_records([0.5] * 100)
    return signed(tmp_path_factory.mktemp("honest"), records, [make_started(), *healthy_observations(records)])


@pytest.fixture(scope="module")
def archive(honest: Signed, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """As a release has it."""
    attestation = files.file_sha256(honest.path / files.ATTESTATION)[:12]
    name = f"streamproof-{honest.report.target}-{honest.report.fingerprint[:12]}-{attestation}"
    packed = shutil.make_archive(
        str(tmp_path_factory.mktemp("packed") / name), "zip", honest.path.parent, honest.path.name
    )
    return Path(packed)


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Of a user who has no key yet, and whose temporary folder is known."""
    (tmp_path / "tmp").mkdir()
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "XDG_CONFIG_HOME": str(tmp_path / "config"),
        "TMPDIR": str(tmp_path / "tmp"),
        "COLUMNS": "200",
    }


def verify(environment: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "bench", "verify", *arguments],
        check=False,
        capture_output=True,
        text=True,
        env=environment,
        cwd=REPOSITORY,
    )


@pytest.fixture
def address(archive: Path) -> Iterator[str]:
    with serving({f"/{archive.name}": (200, "application/zip", archive.read_bytes())}) as base:
        yield f"{base}/{archive.name}"


def test_a_report_is_verified_from_its_address(
    honest: Signed, archive: Path, address: str, environment: dict[str, str], tmp_path: Path
) -> None:
    key = str(honest.path / files.SIGNER)
    done = verify(environment, address, "--key", key)
    assert done.returncode == Exit.OK, done.stdout + done.stderr
    assert f"VERIFIED  {honest.report.title}" in done.stdout
    assert files.file_sha256(archive) in done.stderr
    pinned = verify(environment, address, "--key", key, "--sha256", files.file_sha256(archive), "--json")
    assert pinned.returncode == Exit.OK
    assert json.loads(pinned.stdout)["folder"] == address
    assert pinned.stderr == ""
    assert list((tmp_path / "tmp").iterdir()) == []


def test_an_archive_here_is_verified_and_kept(
    honest: Signed, archive: Path, environment: dict[str, str], tmp_path: Path
) -> None:
    kept = tmp_path / "kept"
    done = verify(environment, str(archive), "--key", str(honest.path / files.SIGNER), "--keep", str(kept))
    assert done.returncode == Exit.OK, done.stdout + done.stderr
    assert f"its files are in {kept}" in done.stderr
    assert {path.name for path in kept.iterdir()} == {path.name for path in honest.path.iterdir()}


def test_without_its_key_it_is_refused_as_a_folder_would_be(
    archive: Path, environment: dict[str, str], tmp_path: Path
) -> None:
    done = verify(environment, str(archive))
    assert done.returncode == Exit.FAILURE
    assert f"REFUSED: {archive}" in done.stdout
    assert "signed by a key that is not trusted here" in done.stdout
    assert list((tmp_path / "tmp").iterdir()) == []


def test_a_hostile_archive_is_refused_in_text_and_in_json(environment: dict[str, str], tmp_path: Path) -> None:
    hostile = tmp_path / "r.zip"
    hostile.write_bytes(zip_of([Member(b"\x1b]0;owned\x07/../../report.json", b"{}")]))
    done = verify(environment, str(hostile))
    assert done.returncode == Exit.FAILURE
    assert 'leaves the folder by ".."' in done.stdout
    assert "\x1b" not in done.stdout + done.stderr
    assert done.stdout.count("passed") == 0
    found = json.loads(verify(environment, str(hostile), "--json").stdout)
    assert (found["verified"], found["passed"], found["folder"]) == (False, [], str(hostile))
    assert found["findings"][0]["file"] == "\\x1b]0;owned\\x07/../../report.json"


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["http://example.org/r.zip"], "only https is"),
        (["r.zip", "--max-size", "many"], "is no size"),
        (["r.zip", "--sha256", "abc"], "is no SHA-256"),
    ],
)
def test_wrong_usage_says_what_is_right(environment: dict[str, str], arguments: list[str], reason: str) -> None:
    done = verify(environment, *arguments)
    assert done.returncode == Exit.USAGE
    assert reason in done.stderr
    assert "Traceback" not in done.stderr


def test_nothing_is_left_when_it_is_told_to_end(environment: dict[str, str], tmp_path: Path) -> None:
    """The server names a length and sends a part of it; SIGTERM comes while the rest is waited for."""
    import socket  # noqa: PLC0415  a server that says less than it should

    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        waiting = subprocess.Popen(
            [sys.executable, "-m", "bench", "verify", f"http://127.0.0.1:{port}/r.zip"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            cwd=REPOSITORY,
        )
        connection, _ = server.accept()
        with connection:
            connection.recv(1 << 16)
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\nPK")
            assert [path.name for path in (tmp_path / "tmp").glob("streamproof-verify-*/archive")] == ["archive"]
            waiting.send_signal(signal.SIGTERM)
            _, said = waiting.communicate()
    assert waiting.returncode == Exit.INTERRUPTED, said
    assert list((tmp_path / "tmp").iterdir()) == []
