from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path

import pydantic
import pytest

from bench.engine.pins import REPOSITORY
from bench.observe.environment import Environment, describe_environment
from bench.observe.packages import installed_packages, packages_sha256


def git(repository: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=n", "-c", "user.email=e@example.org"]
    command = ["git", "-C", str(repository), *identity, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    path = tmp_path / "checkout"
    path.mkdir()
    git(path, "init", "--quiet")
    (path / "file").write_text("one")
    git(path, "add", "file")
    git(path, "commit", "--quiet", "--message", "first")
    return path


def test_it_survives_its_own_file() -> None:
    environment = describe_environment(REPOSITORY)
    assert Environment.model_validate_json(environment.model_dump_json()) == environment


def test_the_commit_and_whether_anything_differs_from_it(repository: Path) -> None:
    client = describe_environment(repository).client
    assert (client.commit, client.dirty) == (git(repository, "rev-parse", "HEAD"), False)
    (repository / "new").touch()
    assert describe_environment(repository).client.dirty is True


def test_outside_of_a_checkout_there_is_no_commit(tmp_path: Path, repository: Path) -> None:
    inside = repository / "somebody" / "else"
    inside.mkdir(parents=True)
    for folder in (tmp_path, inside, tmp_path / "absent"):
        client = describe_environment(folder).client
        assert (client.commit, client.dirty) == (None, None)


def test_a_host_without_git(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/absent")
    assert describe_environment(repository).client.commit is None


def test_only_variables_that_matter_and_are_no_secret_are_kept(repository: Path) -> None:
    variables = {"CUDA_VISIBLE_DEVICES": "1", "HF_TOKEN": "hf_secret", "STREAMPROOF_API_KEY": "sk-secret", "HOME": "/h"}
    environment = describe_environment(repository, {**variables, "NCCL_NVLS_ENABLE": "0"})
    assert environment.variables == {"CUDA_VISIBLE_DEVICES": "1", "NCCL_NVLS_ENABLE": "0"}
    assert "secret" not in environment.model_dump_json()


def test_the_clients_packages_and_their_hash(repository: Path) -> None:
    client = describe_environment(repository).client
    assert client.packages["pydantic"] == pydantic.VERSION
    assert list(client.packages) == sorted(client.packages)
    assert client.packages_sha256 == packages_sha256(client.packages)
    assert client.python.startswith("CPython 3.")


def test_the_hash_is_over_the_sorted_list() -> None:
    text = b"a==2\nb-c==1.0\n"
    assert packages_sha256({"b-c": "1.0", "a": "2"}) == hashlib.sha256(text).hexdigest()


def test_packages_of_a_folder_are_named_as_the_index_names_them(tmp_path: Path) -> None:
    for name, version in (("Ruamel.YAML", "0.18"), ("typing_extensions", "4.1")):
        info = tmp_path / f"{name}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    assert installed_packages(tmp_path) == {"ruamel-yaml": "0.18", "typing-extensions": "4.1"}
