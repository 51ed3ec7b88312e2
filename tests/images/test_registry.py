"""Against a real registry with token authentication, and against servers that are none."""

from __future__ import annotations

import base64
import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from bench.errors import UsageError
from bench.images.registry import INDEXES, Found, Registries
from bench.images.registry_auth import Credentials
from bench.images.registry_http import NotAskedError, NotThereError
from bench.images.registry_reference import Reference, parse_reference
from tests.images.registry_server import PASSWORD, USER, Registry, Reply, Web, as_json, digest, running_registry, web

LABELS = {"org.opencontainers.image.version": "0.26.0"}


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    with running_registry(tmp_path_factory.mktemp("registry")) as running:
        yield running


def ask(address: str, name: str, credentials: Credentials | None = None) -> Found:
    with Registries(lambda _: credentials) as registries:
        return registries.resolve(parse_reference(f"{address}/{name}"))


def test_an_index_its_amd64_manifest_and_what_the_image_says(registry: Registry) -> None:
    index, manifest = registry.push("public/vllm:v1", env=["VLLM_BUILD_COMMIT=abc", "EMPTY="], labels=LABELS)
    found = ask(registry.address, "public/vllm:v1")
    assert (found.index, found.linux_amd64) == (index, manifest)
    assert found.platform == "linux/amd64"
    assert found.labels == LABELS
    assert found.env == {"PATH": "/bin", "VLLM_BUILD_COMMIT": "abc", "EMPTY": ""}


def test_an_image_without_an_index(registry: Registry) -> None:
    manifest = registry.push_manifest("public/single:v1")
    found = ask(registry.address, "public/single:v1")
    assert (found.index, found.linux_amd64, found.platform) == (manifest, manifest, "linux/amd64")


def test_an_index_without_our_platform(registry: Registry) -> None:
    index, _ = registry.push("public/arm:v1", listed=("arm64",))
    found = ask(registry.address, "public/arm:v1")
    assert (found.index, found.linux_amd64, found.labels) == (index, None, {})


def test_what_docker_login_stored_is_used(registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    index, _ = registry.push("private/vllm:v1")
    stored = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
    (tmp_path / "config.json").write_text(json.dumps({"auths": {registry.address: {"auth": stored}}}))
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    with Registries() as registries:
        assert registries.resolve(parse_reference(f"{registry.address}/private/vllm:v1")).index == index


@pytest.mark.parametrize(
    ("credentials", "words"),
    [(None, "does not show us private/vllm"), (Credentials(USER, "wrong"), "refuses the stored login")],
)
def test_no_login_and_a_wrong_one(registry: Registry, credentials: Credentials | None, words: str) -> None:
    registry.push("private/vllm:v1")
    with pytest.raises(NotAskedError, match=words) as caught:
        ask(registry.address, "private/vllm:v1", credentials)
    assert f"docker login {registry.address}" in caught.value.remedy
    assert "wrong" not in str(caught.value)


@pytest.mark.parametrize("content", ["{", '{"auths": {"docker.io": {"auth": "no base64!"}}}', '{"credsStore": "gone"}'])
def test_a_docker_configuration_that_is_broken_is_none(
    registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str
) -> None:
    index, _ = registry.push("public/vllm:v1")
    (tmp_path / "config.json").write_text(content)
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    with Registries() as registries:
        assert registries.resolve(parse_reference(f"{registry.address}/public/vllm:v1")).index == index


@pytest.mark.parametrize("name", ["public/vllm:v2", "public/never-pushed:v1"])
def test_a_tag_that_is_not_there(registry: Registry, name: str) -> None:
    registry.push("public/vllm:v1")
    with pytest.raises(NotThereError, match=name.split(":")[1]):
        ask(registry.address, name)


def test_whether_a_digest_is_still_there(registry: Registry) -> None:
    old, _ = registry.push("public/moves:v1")
    new, _ = registry.push("public/moves:v1", labels=LABELS)
    reference = parse_reference(f"{registry.address}/public/moves:v1")
    with Registries() as registries:
        assert registries.resolve(reference).index == new
        assert registries.has(reference, old)
    registry.delete("public/moves", old)
    with Registries() as registries:
        assert not registries.has(reference, old)


def test_nobody_listens_and_nobody_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{closed.getsockname()[1]}"
        with Registries(lambda _: None) as registries:
            with pytest.raises(NotAskedError, match=r"cannot be reached: .*refused") as first:
                registries.resolve(parse_reference(f"{address}/a:v1"))
            monkeypatch.setattr("requests.Session.get", None)
            with pytest.raises(NotAskedError) as second:
                registries.resolve(parse_reference(f"{address}/b:v1"))
    assert second.value is first.value
    assert "network" in first.value.remedy


@pytest.mark.parametrize(
    ("after", "words"), [("37", "after 37 s"), ("Mon, 30 Nov 2026 05:00:00 GMT", "05:00:00"), ("", "later")]
)
def test_a_rate_limit_is_told_and_kept(after: str, words: str) -> None:
    headers = {"Retry-After": after} if after else {}
    with web(lambda *_: Reply(429, b"{}", headers)) as server, Registries(lambda _: None) as registries:
        for name in ("a", "b"):
            with pytest.raises(NotAskedError, match="limits how often") as caught:
                registries.resolve(parse_reference(f"{server.address}/{name}:v1"))
            assert words in caught.value.remedy
        assert len(server.asked) == 1


def manifest(**changes: object) -> Reply:
    """A server's answer to every question: an index, or something like it."""
    platform = {"os": "linux", "architecture": "amd64"}
    index = {"manifests": [{"digest": f"sha256:{'0' * 64}", "platform": platform}], **changes}
    return Reply(200, as_json(index), {"Content-Type": INDEXES[0]})


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (Reply(200, b"<html>Log in to the hotel's network", {"Content-Type": "text/html"}), "text/html"),
        (Reply(200, b"", {}), "no media type"),
        (Reply(200, b"[1]", {"Content-Type": INDEXES[0]}), "no JSON object"),
        (Reply(200, b"{" * 10, {"Content-Type": INDEXES[0]}), "no JSON object"),
        (manifest(), "digest is not"),
        (manifest(manifests=[{"platform": {"os": "linux", "architecture": "amd64"}}]), "has no digest"),
        (Reply(200, b"x" * (5 << 20), {"Content-Type": INDEXES[0]}), "more than 4,194,304 bytes"),
        (Reply(200, b"{}", {"Docker-Content-Digest": f"sha256:{'1' * 64}"}), "digest is not"),
        (Reply(401, b"", {}), "the challenge ''"),
        (Reply(401, b"", {"WWW-Authenticate": 'Bearer realm="file:///etc/passwd"'}), "the challenge"),
        (Reply(401, b"", {"WWW-Authenticate": 'Basic realm="x"'}), "wants a login"),
        (Reply(500, b"", {}), "status 500"),
        (Reply(302, b"", {"Location": "http://127.0.0.1:1/"}), "cannot be reached"),
    ],
)
def test_a_server_that_is_no_registry(reply: Reply, words: str) -> None:
    with web(lambda *_: reply) as server, pytest.raises(NotAskedError, match=words) as caught:
        ask(server.address, "a:v1")
    assert server.address in caught.value.message
    assert caught.value.remedy


def scripted(answers: dict[str, Reply]) -> Callable[[str, dict[str, str]], Reply]:
    return lambda path, _: next(reply for end, reply in answers.items() if path.split("?")[0].endswith(end))


def test_an_index_of_odd_entries_has_no_image_for_us() -> None:
    with web(lambda *_: manifest(manifests=["x", {}, {"platform": None}])) as server:
        assert ask(server.address, "a:v1").linux_amd64 is None


def test_nothing_is_asked_twice() -> None:
    config = as_json({"os": "linux", "architecture": "amd64", "config": {"Env": None, "Labels": None}})
    inner = as_json({"config": {"digest": digest(config)}})
    listed = [{"digest": digest(inner), "platform": {"os": "linux", "architecture": "amd64"}}]
    answers = {
        "/v1": manifest(manifests=listed),
        "/v2": manifest(manifests=listed, annotations={}),
        digest(inner): Reply(200, inner, {}),
        digest(config): Reply(200, config, {}),
    }
    with web(scripted(answers)) as server, Registries(lambda _: None) as registries:
        for tag in ("v1", "v2", "v1"):
            assert registries.resolve(parse_reference(f"{server.address}/a:{tag}")).linux_amd64 == digest(inner)
        assert len(server.asked) == 4


@pytest.mark.parametrize("length", ["", "Content-Length: 9999999999\r\n", "Transfer-Encoding: chunked\r\n"])
def test_the_body_of_a_redirect_is_not_read(length: str) -> None:
    """It comes on and on; who reads all of it, as requests does, has it all in memory."""
    most, sent = 128 << 20, 0

    def lead_astray(target: str) -> None:
        nonlocal sent
        connection, _ = server.accept()
        with connection, suppress(OSError):  # the other side hangs up
            connection.recv(1 << 16)
            connection.sendall(f"HTTP/1.1 302 Found\r\nLocation: {target}\r\n{length}\r\n".encode())
            while sent < most:
                connection.sendall(b"10000\r\n" + bytes(1 << 16) + b"\r\n")
                sent += 1 << 16

    with web(lambda *_: manifest(manifests=[])) as there, socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=lead_astray, args=(f"http://{there.address}/v2/a/manifests/v1",))
        thread.start()
        assert ask(f"127.0.0.1:{server.getsockname()[1]}", "a:v1").linux_amd64 is None
        thread.join()
    assert len(there.asked) == 1
    assert sent < most / 2  # what a connection holds that nobody reads from


def asked_for_a_token(server: Web) -> list[dict[str, str]]:
    return [headers for path, headers in server.asked if path.startswith("/token")]


def test_a_password_goes_to_no_other_host_without_tls() -> None:
    header = {"WWW-Authenticate": 'Bearer realm="http://registry.example.org/token",service="x"'}
    with (
        web(lambda *_: Reply(401, b"", header)) as server,
        pytest.raises(NotAskedError, match="token server without TLS"),
    ):
        ask(server.address, "a:v1", Credentials("me", "secret"))


def test_the_users_netrc_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login me password secret\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    with web(lambda *_: Reply(404, b"")) as server, pytest.raises(NotThereError):
        ask(server.address, "a:v1")
    assert "Authorization" not in server.asked[0][1]


@pytest.mark.parametrize("body", [b"{}", b'{"token": 5}', b"no"])
def test_a_token_server_without_a_token(body: bytes) -> None:
    place: list[str] = []

    def answer(path: str, _: dict[str, str]) -> Reply:
        if path.startswith("/token"):
            return Reply(200, body)
        return Reply(401, b"", {"WWW-Authenticate": f'Bearer realm="http://{place[0]}/token"'})

    with web(answer) as server:
        place.append(server.address)
        with pytest.raises(NotAskedError, match=r"no token|no JSON"):
            ask(server.address, "a/b:v1")
        assert len(asked_for_a_token(server)) == 1
        assert "scope=repository%3Aa%2Fb%3Apull" in server.asked[1][0]


@pytest.mark.parametrize(
    ("text", "registry", "repository", "tag", "host"),
    [
        ("vllm/vllm-openai:v0.26.0", "docker.io", "vllm/vllm-openai", "v0.26.0", "registry-1.docker.io"),
        ("debian:bookworm", "docker.io", "library/debian", "bookworm", "registry-1.docker.io"),
        ("ghcr.io/a/b/c:1", "ghcr.io", "a/b/c", "1", "ghcr.io"),
        ("127.0.0.1:5000/a:1", "127.0.0.1:5000", "a", "1", "127.0.0.1:5000"),
        ("localhost/a:1", "localhost", "a", "1", "localhost"),
    ],
)
def test_references(text: str, registry: str, repository: str, tag: str, host: str) -> None:
    reference = parse_reference(text)
    assert reference == Reference(registry, repository, tag)
    assert reference.host == host


@pytest.mark.parametrize(
    "text", ["", ":", "a", "a:", ":v1", "https://a/b:v1", "a b:v1", "a:v 1", "127.0.0.1:5000/a", "a/../b:1", "-x.y/a:1"]
)
def test_what_is_no_reference_with_a_tag(text: str) -> None:
    with pytest.raises(UsageError, match="is no image with a tag"):
        parse_reference(text)
