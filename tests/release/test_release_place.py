import subprocess
from pathlib import Path

import pytest

from bench.errors import StreamproofError, UsageError
from bench.release.place import PUBLIC_API, Place, place_of, token_of
from tests.release.github_server import TOKEN


def checkout(folder: Path, remote: str | None) -> Path:
    subprocess.run(["git", "init", "-q", folder], check=True)
    if remote is not None:
        subprocess.run(["git", "-C", folder, "remote", "add", "origin", remote], check=True)
    return folder


def test_an_option_counts_before_the_runners_variables_and_these_before_the_remote(tmp_path: Path) -> None:
    folder = checkout(tmp_path, "https://github.com/from/remote.git")
    environ = {"GITHUB_REPOSITORY": "from/runner", "GITHUB_API_URL": "https://ghe.example/api/v3"}
    assert place_of("from/option", "https://api.github.com/", folder, environ) == Place("from/option", PUBLIC_API)
    assert place_of(None, None, folder, environ) == Place("from/runner", "https://ghe.example/api/v3")
    assert place_of(None, None, folder, {}) == Place("from/remote", PUBLIC_API)


@pytest.mark.parametrize(
    "remote",
    [
        "https://ghe.example/acme/voice.git",
        "https://somebody:secret@ghe.example/acme/voice",
        "git@ghe.example:acme/voice.git",
        "ssh://git@ghe.example:2222/acme/voice.git",
    ],
)
def test_a_remote_counts_only_on_the_same_server(remote: str, tmp_path: Path) -> None:
    folder = checkout(tmp_path, remote)
    assert place_of(None, "https://ghe.example/api/v3", folder, {}).repository == "acme/voice"
    with pytest.raises(UsageError, match=r"which repository of github\.com") as refused:
        place_of(None, None, folder, {})
    assert "--repo" in refused.value.remedy


def test_without_a_remote_or_a_checkout_the_repository_is_asked_for(tmp_path: Path) -> None:
    for folder in (checkout(tmp_path / "a", None), tmp_path):
        with pytest.raises(UsageError, match="which repository"):
            place_of(None, None, folder, {})


@pytest.mark.parametrize("repository", ["acme", "acme/voice/x", "acme/vo ice", "-a/b", "https://github.com/acme/voice"])
def test_what_is_no_repository_is_refused(repository: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is no repository"):
        place_of(repository, None, tmp_path, {})


@pytest.mark.parametrize(
    ("api", "why"),
    [
        ("http://ghe.example/api/v3", "could read the token"),
        ("ghe.example/api/v3", "no address"),
        ("ftp://ghe.example", "no address"),
        ("https://me:secret@ghe.example/api/v3", "no address"),
        ("https://ghe.example/api/v3?x=1", "no address"),
    ],
)
def test_what_is_no_safe_address_is_refused(api: str, why: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=why):
        place_of("acme/voice", api, tmp_path, {})


def test_http_is_for_this_machine_only(tmp_path: Path) -> None:
    for api in ("http://127.0.0.1:8000/api/v3", "http://localhost:8000/api/v3", "http://[::1]:8000/api/v3"):
        assert place_of("acme/voice", api, tmp_path, {}).api == api


def test_a_missing_token_is_told_how_to_get() -> None:
    for environ in ({}, {"GITHUB_TOKEN": " \n"}):
        with pytest.raises(StreamproofError, match="not set") as refused:
            token_of(environ)
        for words in ("fine-grained", "Contents: read and write", "contents: write"):
            assert words in refused.value.remedy


def test_a_token_is_read_and_one_that_is_none_is_never_shown() -> None:
    assert token_of({"GITHUB_TOKEN": f"{TOKEN}\n"}) == TOKEN
    with pytest.raises(StreamproofError) as refused:
        token_of({"GITHUB_TOKEN": f"{TOKEN} {TOKEN}"})
    assert TOKEN not in str(refused.value)
