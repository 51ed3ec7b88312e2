"""Files on their way to GitHub, over loopback and with PyGithub: what fails, and what is done about it."""

from __future__ import annotations

import hashlib
import logging
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from bench.errors import StreamproofError
from bench.release.client import Client
from bench.release.notes import Asset
from bench.release.place import Place
from bench.release.upload import ConflictError, Shelf
from tests.release.github_server import AT_ONCE, REPOSITORY, TOKEN, Fault, GitHub

UPLOAD = r"/assets\?name="
NAME = "streamproof-a-1-2.zip"


@pytest.fixture(params=["github.com", "enterprise", "without digests"])
def server(request: pytest.FixtureRequest, github: GitHub) -> GitHub:
    github.enterprise = request.param != "github.com"
    github.digests = request.param != "without digests"
    github.release("v1")
    return github


@pytest.fixture
def client(server: GitHub) -> Iterator[Client]:
    with Client(Place(REPOSITORY, server.api), TOKEN, AT_ONCE) as client:
        yield client


@pytest.fixture
def shelf(client: Client) -> Shelf:
    return Shelf(client, client.repository().get_release("v1"))


@pytest.fixture
def asset(tmp_path: Path) -> Asset:
    path = tmp_path / NAME
    path.write_bytes(b"a report" * 40_000)
    return Asset(path, hashlib.sha256(path.read_bytes()).hexdigest(), "application/zip")


class Told(list[int]):
    def __call__(self, done: int) -> None:
        self.append(done)


def stored(server: GitHub) -> dict[str, bytes]:
    (release,) = server.releases.values()
    assert all(each.state == "uploaded" for each in release.assets)
    return {each.name: each.content for each in release.assets}


def put(shelf: Shelf, asset: Asset) -> None:
    shelf.put(asset, Told())


def test_a_file_arrives_is_looked_at_again_and_progress_is_told(server: GitHub, shelf: Shelf, asset: Asset) -> None:
    told = Told()
    shelf.put(asset, told)
    assert stored(server) == {NAME: asset.path.read_bytes()}
    sent, back = told[: told.index(asset.size) + 1], told[told.index(asset.size) + 1 :]
    assert sent == sorted(sent)
    assert len(set(sent)) > 10
    assert back[-1] == asset.size
    assert len(server.stored_asked) == 1
    assert shelf.action(asset, shelf.found()[NAME], replace=True, tell=told) == "leave alone"


def test_the_token_goes_to_the_api_only_and_into_no_log(  # noqa: PLR0917  fixtures
    server: GitHub,
    shelf: Shelf,
    asset: Asset,
    caplog: pytest.LogCaptureFixture,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login somebody password else\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    with caplog.at_level(logging.DEBUG):
        put(shelf, asset)
    assert all(each.headers["authorization"].endswith(TOKEN) for each in server.asked)
    assert server.stored_asked
    assert not any(TOKEN in str(each.headers) or "authorization" in each.headers for each in server.stored_asked)
    assert "/releases/" in caplog.text
    assert TOKEN not in caplog.text


@pytest.mark.parametrize("status", [500, 502, 503])
@pytest.mark.parametrize("does", ["nothing", "half", "whole"])
def test_after_a_server_error_what_is_there_decides(
    server: GitHub, shelf: Shelf, asset: Asset, status: int, does: str
) -> None:
    server.faults.append(Fault("POST", UPLOAD, status, does=does))
    put(shelf, asset)
    assert stored(server) == {NAME: asset.path.read_bytes()}
    posts = [path for method, path in server.writes() if method == "POST"]
    assert len(posts) == (1 if does == "whole" else 2)
    deleted = [method for method, _ in server.writes() if method == "DELETE"]
    assert len(deleted) == (1 if does == "half" else 0)


def test_a_connection_that_is_cut_is_no_end(server: GitHub, shelf: Shelf, asset: Asset) -> None:
    server.faults.append(Fault("POST", UPLOAD, 0, does="half"))
    put(shelf, asset)
    assert stored(server) == {NAME: asset.path.read_bytes()}


def test_an_upload_host_that_says_nothing_is_not_waited_for_for_ever(github: GitHub, asset: Asset) -> None:
    github.release("v1")
    github.faults.append(Fault("POST", UPLOAD, 0, does="silence"))
    once = replace(AT_ONCE, attempts=1, timeout_s=1)
    with Client(Place(REPOSITORY, github.api), TOKEN, once) as client:
        shelf = Shelf(client, client.repository().get_release("v1"))
        with pytest.raises(StreamproofError, match="no answer in time"):
            put(shelf, asset)


def test_errors_without_end_are_told(server: GitHub, shelf: Shelf, asset: Asset) -> None:
    server.faults.append(Fault("POST", UPLOAD, 502, "Bad Gateway", times=99))
    with pytest.raises(StreamproofError, match="answers 502: Bad Gateway") as failed:
        put(shelf, asset)
    assert "Run the same command again" in failed.value.remedy
    assert len([path for method, path in server.writes() if method == "POST"]) == AT_ONCE.attempts
    server.faults.clear()
    put(shelf, asset)
    assert stored(server) == {NAME: asset.path.read_bytes()}


@pytest.mark.parametrize(
    "fault",
    [
        (403, "You have exceeded a secondary rate limit. Please wait a few minutes before you try again.", {}),
        (403, "API rate limit exceeded for user ID 1.", {"X-RateLimit-Reset": "1", "X-RateLimit-Remaining": "0"}),
        (403, "slow down", {"Retry-After": "0"}),
        (429, "too many", {"Retry-After": "0"}),
    ],
)
@pytest.mark.parametrize("method", ["POST", "GET"])
def test_a_rate_limit_is_waited_for(
    server: GitHub, shelf: Shelf, asset: Asset, fault: tuple[int, str, dict[str, str]], method: str
) -> None:
    server.faults.append(Fault(method, "/assets", *fault))
    put(shelf, asset)
    assert stored(server) == {NAME: asset.path.read_bytes()}
    assert server.faults[0].times == 0


def test_a_limit_that_lasts_too_long_is_told_with_its_end(server: GitHub, shelf: Shelf, asset: Asset) -> None:
    message = "API rate limit exceeded for user ID 1."
    server.faults.append(Fault("POST", UPLOAD, 403, message, {"X-RateLimit-Reset": "4102444800"}, times=99))
    with pytest.raises(StreamproofError, match="answers 403: API rate limit exceeded") as failed:
        put(shelf, asset)
    assert "The limit ends at 2100-01-01 00:00:00 UTC" in failed.value.remedy
    assert len(server.writes()) == 1


def test_content_that_changes_on_the_way_is_removed_and_told(server: GitHub, shelf: Shelf, asset: Asset) -> None:
    server.damage = lambda content: content[:-1] + b"X"
    with pytest.raises(StreamproofError, match="arrived damaged") as failed:
        put(shelf, asset)
    assert hashlib.sha256(asset.path.read_bytes()[:-1] + b"X").hexdigest() in failed.value.message
    assert stored(server) == {}
    server.damage = bytes
    put(shelf, asset)
    assert stored(server) == {NAME: asset.path.read_bytes()}


def test_content_that_is_damaged_once_is_sent_again(server: GitHub, shelf: Shelf, asset: Asset) -> None:
    def once(content: bytes) -> bytes:
        server.damage = bytes
        return content[:-1]

    server.damage = once
    put(shelf, asset)
    assert stored(server) == {NAME: asset.path.read_bytes()}


def test_a_digest_that_is_right_is_not_believed(github: GitHub, asset: Asset) -> None:
    """What comes back is compared as well: a storage can fail behind an API that is right."""
    release = github.release("v1")
    with Client(Place(REPOSITORY, github.api), TOKEN, AT_ONCE) as client:
        shelf = Shelf(client, client.repository().get_release("v1"))
        right = github.stored
        github.stored = lambda target, headers: type(right(target, headers))(200, b"other")  # type: ignore[method-assign]
        with pytest.raises(StreamproofError, match="comes back with the SHA-256"):
            put(shelf, asset)
    assert release.assets == []


def test_pygithub_by_itself_follows_to_no_storage_but_githubs(server: GitHub, shelf: Shelf, asset: Asset) -> None:
    """Why `Client.download` exists. When this fails, look whether it still has to."""
    put(shelf, asset)
    with pytest.raises(AssertionError, match="localhost"):
        shelf.found()[NAME].download_asset(chunk_size=1000)
    assert len(server.stored_asked) == 1


def test_the_name_that_somebody_else_took_meanwhile_is_a_conflict(server: GitHub, shelf: Shelf, asset: Asset) -> None:
    (release,) = server.releases.values()
    server.add(release, NAME, b"theirs")
    with pytest.raises(ConflictError, match=re.escape(NAME)):
        put(shelf, asset)
    assert stored(server) == {NAME: b"theirs"}


@pytest.mark.parametrize(
    ("length", "state", "actions"),
    [
        (None, "", ("upload", "upload")),
        (5, "uploaded", ("conflict", "replace")),
        (320_000, "uploaded", ("conflict", "replace")),
        (0, "starter", ("complete", "complete")),
    ],
)
def test_what_has_to_be_done(  # noqa: PLR0917  fixtures and parameters
    server: GitHub, shelf: Shelf, asset: Asset, length: int | None, state: str, actions: tuple[str, str]
) -> None:
    (release,) = server.releases.values()
    assert asset.size == 320_000
    if length is not None:
        server.add(release, NAME, b"x" * length, state=state)
    there = shelf.found().get(NAME)
    assert tuple(shelf.action(asset, there, replace=replace, tell=Told()) for replace in (False, True)) == actions


def test_what_is_there_is_found_on_every_page(server: GitHub, shelf: Shelf) -> None:
    server.page = 2
    (release,) = server.releases.values()
    for number in range(7):
        server.add(release, f"{number}.zip", b"x")
    assert sorted(shelf.found()) == [f"{number}.zip" for number in range(7)]


def test_an_asset_that_is_gone_already_is_removed(server: GitHub, shelf: Shelf) -> None:
    (release,) = server.releases.values()
    server.add(release, NAME, b"x")
    there = shelf.found()[NAME]
    release.assets.clear()
    shelf.remove(there)


def test_the_upload_address_of_a_hostile_api_gets_no_token(server: GitHub, client: Client, asset: Asset) -> None:
    release = client.repository().get_release("v1")
    shelf = Shelf(client, release)
    release._upload_url = release._makeStringAttribute("gopher://elsewhere.example/{?name,label}")
    with pytest.raises(StreamproofError, match="no token goes there"):
        put(shelf, asset)
    assert server.writes() == []
