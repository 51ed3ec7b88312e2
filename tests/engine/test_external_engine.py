from __future__ import annotations

import json
import socket
import threading
from typing import TYPE_CHECKING

import pytest

from bench.engine.compiled import Since
from bench.engine.discovery import is_healthy, served_models, server_version
from bench.engine.external import ExternalEngine, server_address
from bench.engine.metrics import MetricsPage
from bench.errors import Exit, StreamproofError, UsageError
from bench.servers import Server
from tests.engine.excerpts import page
from tests.engine.web import Answer, Page, serving

if TYPE_CHECKING:
    from http.server import BaseHTTPRequestHandler

    from bench.engine.base import RunningEngine


def models(*names: str) -> Page:
    body = {"object": "list", "data": [{"id": name, "max_model_len": 4096} for name in names]}
    return 200, "application/json", json.dumps(body).encode()


VLLM: dict[str, Answer] = {
    "/v1/models": models("toy"),
    "/version": (200, "application/json", b'{"version":"0.26.0"}'),
    "/metrics": (200, "text/plain; version=0.0.4", page("cpu").encode()),
    "/health": (200, "text/plain", b""),
}


def external(address: str, model: str | None = None, api_key: str | None = None) -> ExternalEngine:
    return ExternalEngine(address, model=model, api_key=api_key, run=1, clock=lambda: 2.5)


def refusal(address: str, model: str | None = None, api_key: str | None = None) -> StreamproofError:
    with pytest.raises(StreamproofError) as caught, external(address, model, api_key):
        pass
    assert caught.value.remedy
    assert "\n" not in caught.value.message
    return caught.value


def test_a_vllm_server_is_described_as_far_as_it_tells() -> None:
    with serving(VLLM) as address, external(f"{address}/v1/") as running:
        interface: RunningEngine = running
        assert (interface.servers, interface.model) == ((Server(address),), "toy")
        assert interface.alive()
        assert interface.events() == []
        assert interface.compiled_since(Since(written=0.0, first=0.0)) == []
        started = interface.started
    assert (started.t, started.run, started.kind_of_engine) == (2.5, 1, "external")
    assert (started.version, started.max_model_len, started.block_size) == ("0.26.0", 4096, 640)
    assert started.prefix_caching is True
    assert (started.ready_s, started.stages, started.argv) == (None, (), None)
    assert (started.packages_sha256, started.cold) == (None, None)


def test_another_server_leaves_what_it_does_not_tell_unknown() -> None:
    body = json.dumps({"data": [{"id": "toy"}]}).encode()
    with serving({"/v1/models": (200, "application/json", body)}) as address, external(address, "toy") as running:
        started = running.started
    assert (started.version, started.max_model_len, started.block_size) == (None, None, None)
    assert started.prefix_caching is None


def test_a_page_for_people_is_no_engine() -> None:
    with serving({"/v1/models": (200, "text/html; charset=utf-8", b"<!doctype html><h1>Hello</h1>")}) as address:
        error = refusal(address)
    assert error.message == f"{address}/v1/models answers with an HTML page: this is no OpenAI-compatible server"
    assert error.exit_code is Exit.USAGE


@pytest.mark.parametrize(
    "answer", [(404, "text/plain", b"not here"), (200, "application/json", b"[]"), (200, "application/json", b"{")]
)
def test_another_service_is_no_engine(answer: Page) -> None:
    with serving({"/v1/models": answer}) as address:
        error = refusal(address)
    assert f"status {answer[0]} and no list of models" in error.message


def test_a_model_that_is_not_there_with_those_that_are() -> None:
    with serving({**VLLM, "/v1/models": models("a", "b")}) as address:
        error = refusal(address, "toy")
    assert error.message == f'{address} does not serve a model called "toy"'
    assert error.remedy == "It serves: a, b."
    assert error.exit_code is Exit.USAGE


def test_several_models_and_no_wish() -> None:
    with serving({**VLLM, "/v1/models": models("a", "b")}) as address:
        assert refusal(address).remedy == "Name one of them: a, b."
        with external(address, "b") as running:
            assert running.model == "b"


def test_no_model_at_all() -> None:
    with serving({**VLLM, "/v1/models": models()}) as address:
        assert refusal(address).remedy == "Name one of them: none."


def test_nothing_answers() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))  # bound, but nobody listens
        address = f"http://127.0.0.1:{probe.getsockname()[1]}"
        error = refusal(address)
        assert not is_healthy(address)
        assert server_version(address) is None
        assert MetricsPage(Server(address)).read() is None
    assert error.message == f"no engine answers at {address}: Connection refused"
    assert error.exit_code is Exit.FAILURE


def test_what_answers_does_not_speak_http() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def greet() -> None:
            connection, _ = server.accept()
            with connection:
                connection.sendall(b"220 mail.example ESMTP\r\n")

        thread = threading.Thread(target=greet)
        thread.start()
        error = refusal(f"http://127.0.0.1:{server.getsockname()[1]}")
        thread.join()
    assert "no engine answers" in error.message


def test_a_key_that_is_missing_wrong_or_right() -> None:
    def guarded(request: BaseHTTPRequestHandler) -> Page:
        right = request.headers["Authorization"] == "Bearer secret"
        return models("toy") if right else (401, "application/json", b'{"error":"Unauthorized"}')

    with serving({**VLLM, "/v1/models": guarded}) as address:
        assert "wants an API key" in refusal(address).message
        wrong = refusal(address, api_key="hidden-key")
        assert "wants another API key" in wrong.message
        assert "hidden-key" not in str(wrong)
        with external(address, api_key="secret") as running:
            assert running.api_key == "secret"
            assert "secret" not in running.started.model_dump_json()


@pytest.mark.parametrize(
    ("typed", "address"),
    [
        ("http://127.0.0.1:8000", "http://127.0.0.1:8000"),
        (" http://Host.example:8000/ ", "http://host.example:8000"),
        ("http://host/v1", "http://host:80"),
        ("https://host/v1/", "https://host:443"),
        ("http://[::1]:8000", "http://[::1]:8000"),
    ],
)
def test_an_address_as_people_type_it(typed: str, address: str) -> None:
    assert server_address(typed) == address


@pytest.mark.parametrize(
    "typed",
    [
        *("", "127.0.0.1:8000", "ftp://host:1", "http://", "http://host:port", "http://host:99999", "http://host/ui"),
        *("http://host/v1?x=1", "http://me:password@host:1"),
    ],
)
def test_what_is_no_address(typed: str) -> None:
    with pytest.raises(UsageError) as caught:
        server_address(typed)
    assert caught.value.remedy
    assert "password@" not in caught.value.message


@pytest.mark.parametrize("body", [b"{}", b'{"version": 3}', b"[1]", b"no json"])
def test_a_version_that_is_none(body: bytes) -> None:
    with serving({"/version": (200, "application/json", body)}) as address:
        assert server_version(address) is None


def test_metrics_that_are_none() -> None:
    with serving({"/metrics": (200, "text/html", b"<html>")}) as address:
        assert MetricsPage(Server(address)).read() is None
    with serving({"/metrics": (200, "text/plain", b"vllm:prompt_tokens_total many")}) as address:
        assert MetricsPage(Server(address)).read() is None
    with serving({"/metrics": (503, "text/plain", b"")}) as address:
        assert MetricsPage(Server(address)).read() is None


def test_models_are_read_with_their_length() -> None:
    with serving(VLLM) as address:
        assert [(model.name, model.max_model_len) for model in served_models(address)] == [("toy", 4096)]
