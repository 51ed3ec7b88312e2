import hashlib
import io
import tracemalloc
import zlib
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler

import pytest
import requests

from bench.errors import StreamproofError, UsageError
from bench.report.intake import download as downloading
from bench.report.intake.download import REDIRECTS_LIMIT, download, shown
from tests.engine.web import Answer, Page, serving

CONTENT = b"a report, packed" * 100_000


def fetched(url: str, *, most: int = 10**8) -> tuple[bytes, str, list[tuple[int, int | None]]]:
    sink, told = io.BytesIO(), list[tuple[int, int | None]]()
    digest = download(url, sink, most=most, tell=lambda done, announced: told.append((done, announced)))
    return sink.getvalue(), digest, told


def raw_answer(
    lines: list[bytes], body: bytes, *, status: bytes = b"200 OK"
) -> Callable[[BaseHTTPRequestHandler], Page]:
    """An answer of these bytes; the page that the handler then sends lands behind it, where nobody reads."""

    def answer(handler: BaseHTTPRequestHandler) -> Page:
        handler.wfile.write(b"\r\n".join([b"HTTP/1.1 " + status, *lines, b"", b""]) + body)
        handler.wfile.flush()
        handler.close_connection = True
        raise ConnectionAbortedError

    return answer


def redirect(to: str) -> Callable[[BaseHTTPRequestHandler], Page]:
    def answer(handler: BaseHTTPRequestHandler) -> Page:
        handler.send_response_only(302)
        handler.send_header("Location", to)
        handler.send_header("Content-Length", "0")
        handler.end_headers()
        handler.close_connection = True
        raise ConnectionAbortedError

    return answer


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """A handler that ends its own connection says so by an exception; nobody needs to read that."""
    monkeypatch.setattr("socketserver.BaseServer.handle_error", lambda *_: None)


def test_a_file_comes_as_it_is_and_is_counted() -> None:
    with serving({"/r.zip": (200, "application/zip", CONTENT)}) as base:
        content, digest, told = fetched(f"{base}/r.zip")
    assert content == CONTENT
    assert digest == hashlib.sha256(CONTENT).hexdigest()
    assert told[0] == (0, len(CONTENT))
    assert told[-1] == (len(CONTENT), len(CONTENT))
    assert len(told) > 3


@pytest.mark.parametrize(
    "url",
    [
        "http://example.org/r.zip",
        "http://169.254.169.254/latest/meta-data",
        "http://localhost.example.org/r.zip",
        "ftp://127.0.0.1/r.zip",
        "file:///etc/passwd",
        "https:///r.zip",
        "https://user:secret@example.org/r.zip",
        "http://127.0.0.1:99999999/",
        "https://[::1/r.zip",
    ],
)
def test_nothing_is_fetched_from_anywhere_else(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests.Session, "send", None)
    with pytest.raises(UsageError) as caught:
        fetched(url)
    assert "secret" not in str(caught.value)


def test_redirects_are_followed_on_this_machine_and_nowhere_without_tls() -> None:
    pages: dict[str, Answer] = {
        "/r.zip": (200, "application/zip", CONTENT),
        "/near": redirect("/r.zip"),
        "/round": redirect("/round"),
        "/out": redirect("http://example.org/r.zip"),
        "/file": redirect("file:///etc/passwd"),
        "/strange": redirect("http://[::1"),
    }
    with serving(pages) as base:
        assert fetched(f"{base}/near")[0] == CONTENT
        with pytest.raises(StreamproofError, match=f"more than {REDIRECTS_LIMIT} redirects"):
            fetched(f"{base}/round")
        for way in ("out", "file"):
            with pytest.raises(StreamproofError, match="only https is") as caught:
                fetched(f"{base}/{way}")
            assert not isinstance(caught.value, UsageError)
        with pytest.raises(StreamproofError, match="that is no address"):
            fetched(f"{base}/strange")


def test_the_body_of_a_redirect_is_not_read() -> None:
    """`requests` would read all of it into memory, unpacked, before it even looks where it leads."""
    bomb = zlib.compress(bytes(50_000_000), wbits=31)
    lines = [b"Location: /r.zip", b"Content-Encoding: gzip", b"Content-Length: %d" % len(bomb)]
    pages: dict[str, Answer] = {
        "/r.zip": (200, "application/zip", CONTENT),
        "/near": raw_answer(lines, bomb, status=b"302 Found"),
    }
    with serving(pages) as base:
        fetched(f"{base}/r.zip")  # what the first connection needs once
        tracemalloc.start()
        assert fetched(f"{base}/near")[0] == CONTENT
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert most < 20_000_000


def test_an_address_elsewhere_that_leads_to_this_machine_is_not_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(_: requests.Session, request: requests.PreparedRequest, **_options: object) -> requests.Response:
        assert request.url == "https://example.org/r.zip"
        found = requests.Response()
        found.status_code, found.url, found.raw = 302, request.url, io.BytesIO()
        found.headers["Location"] = "http://127.0.0.1:8000/admin"
        return found

    monkeypatch.setattr(requests.Session, "send", answer)
    with pytest.raises(StreamproofError, match=r"leads to http://127\.0\.0\.1:8000/admin, which is this machine"):
        fetched("https://example.org/r.zip")


def test_a_file_that_is_too_large_is_not_fetched_whether_it_says_so_or_not() -> None:
    endless = raw_answer([b"Connection: close"], CONTENT)
    with serving({"/r.zip": (200, "application/zip", CONTENT), "/silent": endless}) as base:
        with pytest.raises(
            StreamproofError, match=r"has 1,600,000 bytes; at most 1,000,000 bytes are fetched"
        ) as caught:
            fetched(f"{base}/r.zip", most=1_000_000)
        assert "--max-size" in caught.value.remedy
        with pytest.raises(StreamproofError, match="has more; at most 1,000,000"):
            fetched(f"{base}/silent", most=1_000_000)
        assert fetched(f"{base}/silent")[0] == CONTENT


def test_what_is_packed_on_the_way_is_refused() -> None:
    """An answer of a kilobyte could unpack to a gigabyte."""
    bomb = zlib.compress(bytes(10_000_000), wbits=31)
    lines = [b"Content-Encoding: gzip", b"Content-Length: %d" % len(bomb)]
    with (
        serving({"/r.zip": raw_answer(lines, bomb)}) as base,
        pytest.raises(StreamproofError, match="packed on the way"),
    ):
        fetched(f"{base}/r.zip")


def test_a_file_that_is_cut_off_is_said_to_be() -> None:
    with (
        serving({"/r.zip": raw_answer([b"Content-Length: 1000"], b"x" * 10)}) as base,
        pytest.raises(StreamproofError, match="cannot be fetched"),
    ):
        fetched(f"{base}/r.zip")


def test_a_server_that_never_ends_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(downloading, "WHOLE_TIMEOUT_S", -1.0)
    with (
        serving({"/r.zip": (200, "application/zip", CONTENT)}) as base,
        pytest.raises(StreamproofError, match="takes more than an hour"),
    ):
        fetched(f"{base}/r.zip")


@pytest.mark.parametrize(("status", "remedy"), [(404, "needs a login"), (403, "not for everybody"), (500, "network")])
def test_an_answer_that_is_no_file_is_named(status: int, remedy: str) -> None:
    with (
        serving({"/r.zip": (status, "text/html", b"<h1>no</h1>")}) as base,
        pytest.raises(StreamproofError, match=f"/r.zip answers with status {status}") as caught,
    ):
        fetched(f"{base}/r.zip")
    assert remedy in caught.value.remedy


def test_a_machine_that_does_not_answer_is_named() -> None:
    with serving({}) as base:
        pass
    with pytest.raises(StreamproofError, match=r"cannot be fetched: .*Connection refused") as caught:
        fetched(f"{base}/r.zip")
    assert "HTTPS_PROXY" in caught.value.remedy


def test_no_login_of_the_user_is_sent(tmp_path: object, monkeypatch: pytest.MonkeyPatch) -> None:
    netrc = f"{tmp_path}/netrc"
    with open(netrc, "w", encoding="ascii") as file:  # noqa: PTH123  a path that requests reads
        file.write("machine 127.0.0.1 login me password secret\n")
    monkeypatch.setenv("NETRC", netrc)
    seen: list[str | None] = []

    def answer(handler: BaseHTTPRequestHandler) -> Page:
        seen.append(handler.headers.get("Authorization"))
        return 200, "application/zip", CONTENT

    with serving({"/r.zip": answer}) as base:
        fetched(f"{base}/r.zip")
    assert seen == [None]


def test_what_may_be_secret_in_an_address_is_not_printed() -> None:
    assert shown("https://me:secret@example.org/r.zip?token=secret#x") == "https://example.org/r.zip?..."
    assert shown("https://example.org/\x1b[2Jr.zip") == "https://example.org/\\x1b[2Jr.zip"
