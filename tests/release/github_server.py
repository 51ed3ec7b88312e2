"""As much of GitHub on loopback as `attach` meets: the REST API, the upload host, the storage, and the public pages.

Two servers, as there: one for API, uploads and pages, and one for the storage that downloads are sent on to, under
another host name. Answers are those of https://docs.github.com/en/rest/releases (fields that nobody reads left out).
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlsplit

from bench.release.patience import Patience

AT_ONCE = Patience(
    attempts=3,
    backoff_s=0,
    secondary_wait_s=0,
    longest_wait_s=5,
    timeout_s=10,
    between_s=0,
    between_writes_s=0,
)
TOKEN = "ghp_" + "correctHorseBatteryStaple"
REPOSITORY = "acme/voice"


@dataclass
class Asset:
    id: int
    name: str
    content: bytes
    media_type: str
    state: str = "uploaded"


@dataclass
class Release:
    id: int
    tag: str
    draft: bool
    name: str | None = None
    body: str | None = None
    prerelease: bool = False
    assets: list[Asset] = field(default_factory=list)


@dataclass
class Fault:
    """An answer in the place of the real one.

    Attributes:
        method, path: which requests; the path is a pattern.
        status, message, headers: of the answer; status 0 cuts the connection, None gives the real answer after all.
        times: how many requests it meets.
        does: what happens all the same, before the answer: "nothing", the "whole" request, or "half" of an upload.
            With "silence" there is no answer for as long as the server runs. A function is called.
    """

    method: str
    path: str
    status: int | None
    message: str = "trouble"
    headers: dict[str, str] = field(default_factory=dict)
    times: int = 1
    does: str | Callable[[], object] = "nothing"


@dataclass
class Asked:
    method: str
    path: str
    headers: dict[str, str]


@dataclass
class Answer:
    status: int
    content: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)


@dataclass
class GitHub:
    """The state of one repository, and how this GitHub behaves.

    Attributes:
        enterprise: paths of a GitHub Enterprise Server (/api/v3, /api/uploads) instead of github.com's.
        digests: the API tells the SHA-256 of assets.
        page: entries of a list that are given at once.
        damage: what the storage makes of the content of an upload.
    """

    enterprise: bool = False
    digests: bool = True
    page: int = 100
    damage: Callable[[bytes], bytes] = bytes
    releases: dict[int, Release] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)
    asked: list[Asked] = field(default_factory=list)
    stored_asked: list[Asked] = field(default_factory=list)
    web: str = ""
    storage: str = ""
    ended: threading.Event = field(default_factory=threading.Event)
    _ids: int = 0

    @property
    def api(self) -> str:
        return f"{self.web}/api/v3" if self.enterprise else f"{self.web}/rest"

    def release(self, tag: str, **values: Any) -> Release:
        self._ids += 1
        self.releases[self._ids] = Release(self._ids, tag, **({"draft": False} | values))
        return self.releases[self._ids]

    def add(self, release: Release, name: str, content: bytes, **values: Any) -> Asset:
        self._ids += 1
        asset = Asset(self._ids, name, content, **({"media_type": "application/zip"} | values))
        release.assets.append(asset)
        return asset

    def download_url(self, tag: str, name: str) -> str:
        return f"{self.web}/{REPOSITORY}/releases/download/{quote(tag, safe='')}/{name}"

    def writes(self) -> list[tuple[str, str]]:
        """Every request that changes something, in order."""
        return [(each.method, each.path) for each in self.asked if each.method != "GET"]

    def answer(self, method: str, target: str, headers: dict[str, str], content: bytes) -> Answer | None:
        self.asked.append(Asked(method, target, headers))
        for fault in self.faults:
            if fault.method == method and fault.times and re.search(fault.path, target):
                fault.times -= 1
                self._all_the_same(fault, method, target, content)
                if fault.status is None:
                    break
                body = json.dumps({"message": fault.message}).encode()
                return Answer(fault.status, body, fault.headers) if fault.status else None
        parts = urlsplit(target)
        if parts.path.startswith(f"/{REPOSITORY}/releases/download/"):
            return self._public(parts.path)
        if headers.get("authorization", "").split(" ")[-1] != TOKEN:
            return _said(401, "Bad credentials")
        return self._api(method, target, headers, content)

    def _all_the_same(self, fault: Fault, method: str, target: str, content: bytes) -> None:
        if fault.does == "whole":
            self._api(method, target, {}, content)
        elif fault.does == "silence":
            self.ended.wait()
        elif callable(fault.does):
            fault.does()
        elif fault.does == "half":
            found = re.search(r"/releases/(\d+)/assets\?(.*)", target)
            assert found
            self.add(self.releases[int(found[1])], parse_qs(found[2])["name"][0], b"", state="starter")

    def _api(self, method: str, target: str, headers: dict[str, str], content: bytes) -> Answer:
        parts = urlsplit(target)
        prefix = "/api/(?:v3|uploads)" if self.enterprise else "/(?:rest|uploads)"
        found = re.fullmatch(rf"{prefix}/repos/{REPOSITORY}(/.*)?", parts.path)
        if found is None:
            return _said(404, "Not Found")
        path, query = found[1] or "", parse_qs(parts.query)
        data = json.loads(content) if content and "/uploads/" not in parts.path else {}
        routes: tuple[tuple[str, str, Callable[..., Answer]], ...] = (
            ("GET", r"", lambda: _json({"full_name": REPOSITORY, "html_url": f"{self.web}/{REPOSITORY}"})),
            ("GET", r"/releases/tags/(?P<tag>[^/]+)", self._by_tag),
            ("GET", r"/releases", lambda: self._listed([*map(self._release, self.releases.values())], target)),
            ("POST", r"/releases", lambda: self._create(data)),
            ("GET", r"/releases/(?P<number>\d+)", lambda number: _json(self._release(self.releases[int(number)]))),
            ("PATCH", r"/releases/(?P<number>\d+)", lambda number: self._change(int(number), data)),
            ("GET", r"/releases/(?P<number>\d+)/assets", lambda number: self._assets(int(number), target)),
            (
                "POST",
                r"/releases/(?P<number>\d+)/assets",
                lambda number: self._upload(int(number), query["name"][0], headers, content),
            ),
            ("GET", r"/releases/assets/(?P<number>\d+)", lambda number: self._get(int(number), headers)),
            ("DELETE", r"/releases/assets/(?P<number>\d+)", lambda number: self._delete(int(number))),
        )
        for verb, pattern, act in routes:
            matched = re.fullmatch(pattern, path)
            if verb == method and matched:
                return act(**matched.groupdict())
        return _said(404, "Not Found")

    def _by_tag(self, tag: str) -> Answer:
        published = [each for each in self.releases.values() if each.tag == unquote(tag) and not each.draft]
        return _json(self._release(published[0])) if published else _said(404, "Not Found")

    def _create(self, data: dict[str, Any]) -> Answer:
        values = {key: data[key] for key in ("draft", "name", "body", "prerelease")}
        return _json(self._release(self.release(data["tag_name"], **values)), 201)

    def _change(self, number: int, data: dict[str, Any]) -> Answer:
        release = self.releases[number]
        for key in ("draft", "name", "body", "prerelease"):
            if key in data:
                setattr(release, key, data[key])
        return _json(self._release(release))

    def _assets(self, number: int, target: str) -> Answer:
        return self._listed([self._asset(each, self.releases[number]) for each in self.releases[number].assets], target)

    def _upload(self, number: int, name: str, headers: dict[str, str], content: bytes) -> Answer:
        release = self.releases[number]
        if any(each.name == name for each in release.assets):
            errors = [{"resource": "ReleaseAsset", "code": "already_exists", "field": "name"}]
            return _json({"message": "Validation Failed", "errors": errors}, 422)
        media_type = headers.get("content-type", "application/octet-stream")
        asset = self.add(release, name, self.damage(content), media_type=media_type)
        return _json(self._asset(asset, release), 201)

    def _get(self, number: int, headers: dict[str, str]) -> Answer:
        for release in self.releases.values():
            for asset in release.assets:
                if asset.id == number and headers.get("accept") == "application/octet-stream":
                    return Answer(302, headers={"Location": f"{self.storage}/{number}?signature=abc"})
                if asset.id == number:
                    return _json(self._asset(asset, release))
        return _said(404, "Not Found")

    def _delete(self, number: int) -> Answer:
        for release in self.releases.values():
            for asset in release.assets:
                if asset.id == number:
                    release.assets.remove(asset)
                    return Answer(204)
        return _said(404, "Not Found")

    def _public(self, path: str) -> Answer:
        tag, name = path.split("/")[-2:]
        for release in self.releases.values():
            for asset in release.assets:
                if not release.draft and (release.tag, asset.name) == (unquote(tag), name):
                    return Answer(302, headers={"Location": f"{self.storage}/{asset.id}?signature=abc"})
        return Answer(404, b"Not Found")

    def stored(self, target: str, headers: dict[str, str]) -> Answer:
        """The storage: it knows no token, and whoever sends one has given it away."""
        self.stored_asked.append(Asked("GET", target, headers))
        number = int(urlsplit(target).path.strip("/"))
        content = next(
            asset.content for release in self.releases.values() for asset in release.assets if asset.id == number
        )
        return Answer(200, content, {"Content-Type": "application/octet-stream"})

    def _listed(self, entries: list[dict[str, Any]], target: str) -> Answer:
        parts = urlsplit(target)
        query = parse_qs(parts.query)
        page = int(query.get("page", ["1"])[0])
        size = min(self.page, int(query.get("per_page", ["30"])[0]))
        more = len(entries) > page * size
        next_page = f"{self.web}{parts.path}?per_page={size}&page={page + 1}"
        headers = {"Link": f'<{next_page}>; rel="next"'} if more else {}
        answer = _json(entries[(page - 1) * size : page * size])
        return Answer(answer.status, answer.content, answer.headers | headers)

    def _release(self, release: Release) -> dict[str, Any]:
        uploads = f"{self.web}/api/uploads" if self.enterprise else f"{self.web}/uploads"
        here = f"/repos/{REPOSITORY}/releases/{release.id}"
        page = f"untagged-{release.id}" if release.draft else release.tag
        return {
            "id": release.id,
            "url": f"{self.api}{here}",
            "assets_url": f"{self.api}{here}/assets",
            "upload_url": f"{uploads}{here}/assets{{?name,label}}",
            "html_url": f"{self.web}/{REPOSITORY}/releases/tag/{page}",
            "tag_name": release.tag,
            "name": release.name,
            "body": release.body,
            "draft": release.draft,
            "prerelease": release.prerelease,
        }

    def _asset(self, asset: Asset, release: Release) -> dict[str, Any]:
        told = {
            "id": asset.id,
            "url": f"{self.api}/repos/{REPOSITORY}/releases/assets/{asset.id}",
            "browser_download_url": self.download_url(release.tag, asset.name),
            "name": asset.name,
            "state": asset.state,
            "size": len(asset.content),
            "content_type": asset.media_type,
        }
        digest = f"sha256:{hashlib.sha256(asset.content).hexdigest()}" if asset.state == "uploaded" else None
        return told | ({"digest": digest} if self.digests else {})


def _json(value: object, status: int = 200) -> Answer:
    return Answer(status, json.dumps(value).encode(), {"Content-Type": "application/json; charset=utf-8"})


def _said(status: int, message: str) -> Answer:
    return _json({"message": message, "documentation_url": "https://docs.github.com/rest"}, status)


@contextmanager
def running(github: GitHub) -> Iterator[GitHub]:
    """Serves it until the context ends."""
    with (
        _serving(github.answer) as web,
        _serving(lambda _m, path, headers, _c: github.stored(path, headers)) as storage,
    ):
        github.web = f"http://127.0.0.1:{web}"
        # Another name of the same machine: for a client it is another host, which no token may reach.
        github.storage = f"http://localhost:{storage}"
        try:
            yield github
        finally:
            github.ended.set()


@contextmanager
def _serving(answer: Callable[[str, str, dict[str, str], bytes], Answer | None]) -> Iterator[int]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1  # head and content in one packet: two would wait for each other's acknowledgement

        def _handle(self) -> None:
            content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            headers = {name.lower(): value for name, value in self.headers.items()}
            told = answer(self.command, self.path, headers, content)
            if told is None:
                self.close_connection = True
                return
            self.send_response(told.status)
            for name, value in told.headers.items():
                self.send_header(name, value)
            if told.status != 204:
                self.send_header("Content-Length", str(len(told.content)))
            self.end_headers()
            self.wfile.write(told.content)

        do_GET = do_POST = do_PATCH = do_DELETE = _handle  # noqa: N815  the names that http.server wants

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()
