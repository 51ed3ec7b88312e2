from __future__ import annotations

import asyncio
import re
import socket
import ssl
import threading
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from bench.errors import StreamproofError, UsageError
from bench.load.clock import RunClock
from bench.load.connection import Call, Connection
from bench.load.http import Client
from bench.load.reply import Exchange, ReplyReader
from bench.records import Outcome
from tests.truth.faults import FAULTS, WHOLE
from tests.truth.workload import turn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from bench.workload.turn import Turn
    from tests.truth.process import TruthServer


def exchange(base_url: str, *turns: Turn, timeout_s: float = 20.0, api_key: str | None = None) -> list[Exchange]:
    """Send the turns one after the other, through one client."""

    async def main() -> list[Exchange]:
        clock = RunClock.start()
        async with Client(base_url, clock=clock, request_timeout_s=timeout_s, api_key=api_key) as client:
            return [await client.exchange(one, clock.now()) for one in turns]

    return asyncio.run(main())


def truth_of(server: TruthServer, tag: str) -> dict[str, Any]:
    (found,) = (entry for entry in server.truth() if entry["tag"] == tag)
    return found


@pytest.mark.parametrize("api", ["chat", "completions"])
@pytest.mark.parametrize("name", WHOLE)
def test_every_form_of_a_whole_reply(truth: TruthServer, name: str, api: str) -> None:
    behaviour = WHOLE[name]
    if api == "completions":
        behaviour = {**behaviour, "field": "content"}
    tag = f"{api}: {name}"
    (result,) = exchange(truth.base_url, turn(tag, output_tokens=7, api=api, cached_tokens=16, **behaviour))
    told = truth_of(truth, tag)
    assert (result.outcome, result.error, result.status) == (Outcome.OK, "", 200)
    assert (result.prompt_tokens, result.completion_tokens, result.cached_tokens) == (50, 7, 16)
    assert len(result.chunk_s) == (7 if name == "one write" else len(told["chunk_s"]))
    assert result.chunk_s[0] == result.first_token_s
    assert result.chunk_s[-1] == result.last_token_s
    times = [result.sent_s, result.headers_s, *result.chunk_s, result.done_s]
    assert times == sorted(times, key=lambda value: value or 0.0)


@pytest.mark.parametrize("name", FAULTS)
def test_every_fault_is_what_it_was_scripted_to_be(truth: TruthServer, name: str) -> None:
    behaviour, outcome = FAULTS[name]
    faulty, after = exchange(truth.base_url, turn(name, **behaviour), turn("after"))
    assert faulty.outcome is outcome, faulty.error
    assert faulty.error
    assert after.outcome is Outcome.OK  # a fault spoils no other request


@pytest.mark.parametrize(
    ("behaviour", "error"),
    [
        ({"usage": "wrong"}, "3 tokens, asked for 4"),
        (
            {"fault": "cut", "fault_after": 2},
            "ConnectionResetError: [Errno 104] Connection reset by peer: in the middle of the reply",
        ),
        ({"fault": "close", "fault_after": 2}, "the server closed the connection in the middle of the reply"),
        ({"fault": "no_response"}, "the server closed the connection before a response"),
        (
            {"fault": "html"},
            "the reply is 'text/html; charset=utf-8', not text/event-stream: Welcome This is not an API.",
        ),
        ({"fault": "error_event"}, "scripted engine error"),
        ({"status": 503, "retry_after_s": 2}, "503 (Retry-After: 2) scripted status 503"),
    ],
    ids=str,
)
def test_errors_say_what_was_wrong(truth: TruthServer, behaviour: dict[str, Any], error: str) -> None:
    (result,) = exchange(truth.base_url, turn("said", **behaviour))
    assert result.error == error


@pytest.mark.parametrize("asked", [3, 5])
def test_a_finished_reply_of_another_length_than_asked(truth: TruthServer, asked: int) -> None:
    (result,) = exchange(truth.base_url, replace(turn("short"), output_tokens=asked))
    assert (result.outcome, result.error) == (Outcome.SHORT, f"4 tokens, asked for {asked}")


def test_tokenizers_that_disagree(truth: TruthServer) -> None:
    (result,) = exchange(truth.base_url, replace(turn("mismatch"), prompt_tokens=51))
    assert result.outcome is Outcome.PROMPT_MISMATCH
    assert result.error == "the server counted 50 prompt tokens, we 51"


def test_an_unknown_model_and_an_unknown_path(truth: TruthServer) -> None:
    one = turn("unknown")
    model, path = exchange(
        truth.base_url,
        replace(one, body=one.body.replace(b'"model":"truth"', b'"model":"other"')),
        replace(one, path="/v2/chat"),
    )
    assert (model.outcome, model.error) == (Outcome.HTTP_ERROR, "404 The model `other` does not exist.")
    assert (path.outcome, path.error) == (Outcome.HTTP_ERROR, "404 Not Found")


def test_a_huge_line_with_an_echoed_prompt_is_read(truth: TruthServer) -> None:
    """Clients that read line by line with a limit fail here (an echo of 10,000 tokens, and one of a megabyte)."""
    for tokens in (10_000, 300_000):
        (result,) = exchange(truth.base_url, turn("echo", prompt_tokens=tokens, echo_prompt=True))
        assert (result.outcome, result.error) == (Outcome.OK, "")


def test_a_reply_that_hangs_times_out_and_the_server_sees_the_client_leave(truth: TruthServer) -> None:
    hanging, after = exchange(
        truth.base_url, turn("hang", fault="hang", fault_after=2), turn("after hang"), timeout_s=0.3
    )
    assert (hanging.outcome, hanging.error) == (Outcome.TIMEOUT, "no complete reply within 0.3 s")
    assert len(hanging.chunk_s) == 2
    assert after.outcome is Outcome.OK
    assert truth_of(truth, "hang")["ended"] == "client"


def test_no_server() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        (result,) = exchange(f"http://127.0.0.1:{port}", turn())
    assert result.outcome is Outcome.CONNECT
    assert result.error.startswith(f"no connection to 127.0.0.1:{port}: ConnectionRefusedError")
    assert result.sent_s is None


def test_connections_are_kept_and_used_again(truth: TruthServer) -> None:
    exchange(truth.base_url, turn("kept 1"), turn("kept 2", status=503), turn("kept 3"))
    assert [truth_of(truth, f"kept {number}")["reused"] for number in (1, 3)] == [False, True]


def test_a_kept_connection_that_the_server_closed_costs_one_more_connection_and_no_failure(truth: TruthServer) -> None:
    """The server answers once on each connection, and closes it without a byte when it is used again."""

    async def main() -> tuple[list[Exchange], int]:
        clock = RunClock.start()
        async with Client(truth.base_url, clock=clock, request_timeout_s=20) as client:
            turns = [turn(f"dead {number}", fault="dead_keepalive") for number in range(3)]
            return [await client.exchange(one, clock.now()) for one in turns], client.resent

    results, resent = asyncio.run(main())
    assert [result.outcome for result in results] == [Outcome.OK] * 3
    assert resent == 2
    for result in results[1:]:
        assert result.sent_s is not None
        assert result.headers_s is not None
        assert result.sent_s < result.headers_s  # the first attempt is when it was sent: the lost time counts
    ended = sorted(entry["ended"] for entry in truth.truth() if entry["tag"].startswith("dead "))
    assert ended == ["complete"] * 3 + ["cut"] * 2


def test_a_fresh_connection_that_is_closed_is_not_tried_again(truth: TruthServer) -> None:
    before = len(truth.truth())
    (result,) = exchange(truth.base_url, turn("closed", fault="no_response"))
    assert result.outcome is Outcome.CUT
    assert len(truth.truth()) == before + 1


def test_many_at_once_have_no_hidden_limit(truth: TruthServer) -> None:
    """All of them are at the server together: a client with a cap would let some wait where nobody sees it."""
    count = 300

    async def main() -> list[Exchange]:
        clock = RunClock.start()
        async with Client(truth.base_url, clock=clock, request_timeout_s=60) as client:
            now = clock.now()
            turns = [turn(f"many {number}", fault="hang", fault_after=1) for number in range(count)]
            waiting = [asyncio.ensure_future(client.exchange(one, now)) for one in turns]
            while await asyncio.to_thread(truth.counter, "vllm:num_requests_running") < count:
                pass
            for task in waiting:
                task.cancel()
            await asyncio.wait(waiting)
            assert all(task.cancelled() for task in waiting)
            return [await client.exchange(turn("then"), clock.now())]

    (after,) = asyncio.run(main())
    assert after.outcome is Outcome.OK
    ended = [entry for entry in truth.truth() if entry["tag"].startswith("many ")]
    assert max(entry["in_flight"] for entry in ended) == count


@contextmanager
def raw_server(answer: Callable[[socket.socket], None]) -> Iterator[str]:
    """A server of one connection at a time, for what the reference server cannot be made to do."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection:
                    answer(connection)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join()


def request_of(connection: socket.socket) -> bytes:
    """Head and body of one request."""
    data = b""
    while b"\r\n\r\n" not in data:
        data += connection.recv(65536)
    head, _, body = data.partition(b"\r\n\r\n")
    found = re.search(rb"content-length: (\d+)", head)
    assert found is not None
    while len(body) < int(found[1]):
        body += connection.recv(65536)
    return head + b"\r\n\r\n" + body


USAGE = b'{"choices":[],"usage":{"prompt_tokens":50,"completion_tokens":4}}'
CHUNK = b'{"choices":[{"delta":{"content":"x"},"finish_reason":"length"}]}'
STREAM = b"data: " + CHUNK + b"\n\ndata: " + USAGE + b"\n\ndata: [DONE]\n\n"
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n"


def test_a_body_that_ends_with_its_connection_is_whole() -> None:
    def answer(connection: socket.socket) -> None:
        request_of(connection)
        connection.sendall(HEAD + b"\r\n" + STREAM)

    with raw_server(answer) as url:
        (result,) = exchange(url, turn())
    assert (result.outcome, result.error) == (Outcome.OK, "")


def test_a_server_that_closes_every_connection_at_once() -> None:
    with raw_server(lambda _: None) as url:
        results = exchange(url, *(turn() for _ in range(20)))
    assert {result.outcome for result in results} == {Outcome.CUT}


def test_a_connection_that_was_lost_before_it_was_used() -> None:
    async def main() -> Exchange:
        clock = RunClock.start()
        ended: list[Exchange] = []
        async with Client("http://127.0.0.1:9", clock=clock, request_timeout_s=20) as client:
            lost = Connection(client, client.wire, clock, None)
            lost.start(Call(b"", ReplyReader(prompt_tokens=1, output_tokens=1), ended.append))
        return ended[0]

    result = asyncio.run(main())
    assert (result.outcome, result.error) == (Outcome.CUT, "the server closed the connection before it was used")


def test_interim_responses_are_not_the_response() -> None:
    def answer(connection: socket.socket) -> None:
        request_of(connection)
        connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n")
        connection.sendall(HEAD + b"content-length: %d\r\nconnection: close\r\n\r\n" % len(STREAM) + STREAM)

    with raw_server(answer) as url:
        first, second = exchange(url, turn(), turn())
    assert (first.outcome, second.outcome) == (Outcome.OK, Outcome.OK)


def test_bytes_that_nobody_asked_for_end_the_connection_and_spoil_nothing() -> None:
    def answer(connection: socket.socket) -> None:
        request_of(connection)
        unasked = b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\n\r\n"
        # In one piece: in two, the second may come after the next request was sent, and then it is its answer.
        connection.sendall(HEAD + b"content-length: %d\r\n\r\n" % len(STREAM) + STREAM + unasked)
        connection.recv(1)  # until the client closes it

    with raw_server(answer) as url:
        results = exchange(url, turn(), turn())
    assert [result.outcome for result in results] == [Outcome.OK, Outcome.OK]


def test_the_request_is_what_was_prepared_and_carries_the_key() -> None:
    requests: list[bytes] = []

    def answer(connection: socket.socket) -> None:
        requests.append(request_of(connection))
        error = b'{"error": "bad key: k%d-x"}'
        connection.sendall(b"HTTP/1.1 401 Unauthorized\r\ncontent-length: %d\r\n\r\n" % len(error) + error)

    one = turn(prompt_tokens=10_000)
    with raw_server(answer) as url:
        (result,) = exchange(url + "/prefix/v1/", one, api_key="k%d-x")
    head, _, body = requests[0].partition(b"\r\n\r\n")
    lines = head.split(b"\r\n")
    assert lines[0] == b"POST /prefix/v1/chat/completions HTTP/1.1"
    assert b"authorization: Bearer k%d-x" in lines
    assert f"host: {url.removeprefix('http://')}".encode() in lines
    assert body == one.body
    assert (result.status, result.error) == (401, "401 bad key: ***")


def test_tls(tmp_path: Path) -> None:
    certificate = self_signed(tmp_path)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(certificate)

    def answer(connection: socket.socket) -> None:
        try:
            with server.wrap_socket(connection, server_side=True) as secure:
                request_of(secure)
                secure.sendall(HEAD + b"content-length: %d\r\n\r\n" % len(STREAM) + STREAM)
                secure.recv(1)
        except OSError:
            pass  # the client that does not know the certificate hangs up

    async def main(url: str, *, trusted: bool) -> tuple[Exchange, int]:
        clock = RunClock.start()
        client = Client(url, clock=clock, request_timeout_s=20)
        if trusted:
            assert client._ssl is not None
            client._ssl.load_verify_locations(certificate)
        async with client:
            return await client.exchange(turn(), clock.now()), len(client.wire.delays)

    with raw_server(answer) as url:
        port = url.rpartition(":")[2]
        whole, stamps = asyncio.run(main(f"https://localhost:{port}", trusted=True))
        refused, _ = asyncio.run(main(f"https://localhost:{port}", trusted=False))
    assert (whole.outcome, whole.error) == (Outcome.OK, "")
    assert stamps == 0  # the kernel's stamps cannot be had through TLS: the certificate is missing, not zero
    assert refused.outcome is Outcome.CONNECT
    assert "certificate" in refused.error.lower()


def self_signed(folder: Path) -> Path:
    """Certificate and key for localhost, in one PEM file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    path = folder / "localhost.pem"
    path.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        + certificate.public_bytes(serialization.Encoding.PEM)
    )
    return path


def test_the_kernel_certifies_the_stamps(truth: TruthServer) -> None:
    """The kernel begins to stamp shortly after it is first asked to, so the first reads may have none."""

    async def main() -> list[float]:
        clock = RunClock.start()
        async with Client(truth.base_url, clock=clock, request_timeout_s=20) as client:
            for _ in range(100):
                await client.exchange(turn("stamps"), clock.now())
                if client.wire.delays:
                    break
            return list(client.wire.delays)

    delays = asyncio.run(main())
    assert delays
    assert min(delays) >= 0


@pytest.mark.parametrize(
    "url",
    [
        "",
        "127.0.0.1:8000",
        "ftp://host",
        "http://",
        "http://host:port",
        "http://u:p@host",
        "http://host?x=1",
        "http://[::1",
    ],
)
def test_what_is_no_base_url(url: str) -> None:
    with pytest.raises(UsageError) as caught:
        Client(url, clock=RunClock.start(), request_timeout_s=1)
    assert caught.value.remedy
    assert "u:p" not in str(caught.value)


@pytest.mark.parametrize("key", ["", "sk-xyz\n", " sk-xyz", "sk-xyzé"])
def test_what_is_no_key_is_not_repeated(key: str) -> None:
    with pytest.raises(UsageError) as caught:
        Client("http://host", clock=RunClock.start(), request_timeout_s=1, api_key=key)
    assert "sk-xyz" not in str(caught.value)


def test_a_host_that_nobody_knows() -> None:
    with pytest.raises(StreamproofError, match=r"the host 'no-such-host.invalid' of the base URL cannot be found"):
        exchange("http://no-such-host.invalid", turn())
