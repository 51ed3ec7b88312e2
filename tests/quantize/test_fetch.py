import hashlib
import json
import shutil
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import huggingface_hub.constants
import pytest

from bench.errors import StreamproofError, UsageError
from quantize.checkpoint import TOY
from quantize.hashes import Hashes
from quantize.hub import git_blob
from quantize.stages.fetch import Source, fetch, find
from quantize.stages.stage import Workshop
from quantize.target import Target, load_target

COMMIT = "0123456789abcdef0123456789abcdef01234567"
LARGE = "model.safetensors"


class Hub(BaseHTTPRequestHandler):
    """As much of a hub as taking a repository at a commit needs."""

    folder: Path
    lies: bytes | None = None
    served: list[str]

    def do_GET(self) -> None:
        name = self.path.partition(f"/resolve/{COMMIT}/")[2]
        if self.path.startswith(("/api/models/Qwen/gated", "/Qwen/gated/")):
            self.answer(b"", status=403, headers={"X-Error-Code": "GatedRepo"})
        elif self.path.startswith("/api/models/Qwen/missing"):
            self.answer(b"", status=401, headers={"X-Error-Code": "RepoNotFound"})
        elif self.path.startswith(f"/api/models/Qwen/toy/tree/{COMMIT}"):
            self.answer(json.dumps([self.entry(path) for path in sorted(self.folder.iterdir())]).encode())
        elif self.path.startswith("/api/models/Qwen/toy"):
            siblings = [self.sibling(path) for path in sorted(self.folder.iterdir())]
            self.answer(json.dumps({"id": "Qwen/toy", "sha": COMMIT, "siblings": siblings}).encode())
        elif name and (self.folder / name).is_file():
            if self.command == "GET":
                self.served.append(name)
            raw = (self.folder / name).read_bytes()
            self.answer(raw if self.lies is None or name != LARGE else self.lies * len(raw))
        else:
            self.send_error(404)

    do_HEAD = do_GET  # noqa: N815  the name that the library calls

    def sibling(self, path: Path) -> dict[str, object]:
        found: dict[str, object] = {"rfilename": path.name, "size": path.stat().st_size, "blobId": git_blob(path)}
        if path.name == LARGE:
            sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
            found["lfs"] = {"sha256": sha256, "size": path.stat().st_size, "pointerSize": 1}
        return found

    def entry(self, path: Path) -> dict[str, object]:
        return {"type": "file", "path": path.name, "size": path.stat().st_size, "oid": git_blob(path)}

    def answer(self, body: bytes, *, status: int = 200, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        sent = {"Content-Length": str(len(body)), "X-Repo-Commit": COMMIT, "ETag": f'"{hash(body)}"', **(headers or {})}
        for name, value in sent.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[type[Hub]]:
    (tmp_path / "repository").mkdir()
    for name in ("config.json", "tokenizer.json", LARGE):
        shutil.copy(TOY / name, tmp_path / "repository" / name)
    handler = type("ThisHub", (Hub,), {"folder": tmp_path / "repository", "served": []})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    address = f"http://127.0.0.1:{server.server_port}"
    monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", address)
    template = address + "/{repo_id}/resolve/{revision}/{filename}"
    monkeypatch.setattr(huggingface_hub.constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    yield handler
    server.shutdown()
    thread.join()
    server.server_close()


def target(repository: str = "Qwen/toy", revision: str | None = COMMIT) -> Target:
    overrides = {"source.repository": repository} | ({"source.revision": revision} if revision else {})
    return load_target("tiny", overrides)


def run(wanted: Target, work: Path, *, folder: Path | None = None) -> Source:
    found = find(wanted, folder=folder, work=work)
    shop = Workshop(work, Hashes(work / "hashes.json"))
    return fetch(found, wanted, shop, say=lambda _line: None, on_file=lambda _name, _size: None)


def test_every_file_comes_and_is_checked(hub: type[Hub], tmp_path: Path) -> None:
    source = run(target(), tmp_path / "work")
    assert sorted(source.digests) == ["config.json", LARGE, "tokenizer.json"]
    assert source.digests[LARGE] == hashlib.sha256((TOY / LARGE).read_bytes()).hexdigest()
    assert (source.folder / LARGE).read_bytes() == (TOY / LARGE).read_bytes()
    hub.served.clear()
    run(target(), tmp_path / "work")
    assert LARGE not in hub.served


def test_a_file_that_is_there_is_not_taken_again(hub: type[Hub], tmp_path: Path) -> None:
    hub.lies = b"\0"
    with pytest.raises(StreamproofError, match="other content than the hub says"):
        run(target(), tmp_path / "work")
    assert not list((tmp_path / "work").rglob(LARGE))
    hub.lies = None
    hub.served.clear()
    run(target(), tmp_path / "work")
    assert hub.served.count(LARGE) == 1
    assert "tokenizer.json" not in hub.served


@pytest.mark.parametrize("revision", ["main", "0123456", None])
def test_a_branch_is_refused_with_the_commit_that_it_points_to(
    hub: type[Hub], tmp_path: Path, revision: str | None
) -> None:
    assert hub.lies is None
    with pytest.raises(UsageError, match=r"no revision|which is no 40-digit commit") as caught:
        run(target(revision=revision), tmp_path / "work")
    assert f"--set source.revision={COMMIT}" in caught.value.remedy


def test_gated_and_missing_repositories(hub: type[Hub], tmp_path: Path) -> None:
    assert hub.lies is None
    with pytest.raises(StreamproofError, match="is gated") as caught:
        run(target("Qwen/gated"), tmp_path / "work")
    assert "HF_TOKEN" in caught.value.remedy
    with pytest.raises(StreamproofError, match="has no repository Qwen/missing"):
        run(target("Qwen/missing"), tmp_path / "work")
    with pytest.raises(UsageError, match="no name of a repository"):
        run(target("a/b/c"), tmp_path / "work")


def test_what_cannot_be_quantized_is_refused_before_its_weights_come(hub: type[Hub], tmp_path: Path) -> None:
    config = json.loads((TOY / "config.json").read_text())
    (hub.folder / "config.json").write_text(json.dumps(config | {"quantization_config": {"quant_method": "fp8"}}))
    with pytest.raises(StreamproofError, match="quantized already"):
        run(target(), tmp_path / "work")
    (hub.folder / "pytorch_model.bin").write_bytes(b"pickle")
    with pytest.raises(StreamproofError, match="pickle files"):
        run(target(), tmp_path / "work")
    assert LARGE not in hub.served


def test_no_hub_at_all(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(StreamproofError, match="cannot be reached") as caught:
        run(target(), tmp_path / "work")
    assert "--source FOLDER" in caught.value.remedy


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    shutil.copytree(TOY, tmp_path / "source")
    return tmp_path / "source"


def test_a_folder_stays_where_it_is_and_is_hashed(folder: Path, tmp_path: Path) -> None:
    source = run(target(), tmp_path / "work", folder=folder)
    assert source.folder == folder
    assert source.digests[LARGE] == hashlib.sha256((TOY / LARGE).read_bytes()).hexdigest()


def test_folders_that_are_no_source(folder: Path, tmp_path: Path) -> None:
    work = tmp_path / "work"
    (folder / LARGE).write_bytes((folder / LARGE).read_bytes()[:-1])
    with pytest.raises(StreamproofError, match=r"is damaged: model.safetensors was cut off"):
        run(target(), work, folder=folder)
    (folder / "hf_quant_config.json").write_text("{}")
    with pytest.raises(StreamproofError, match="quantized already"):
        run(target(), work, folder=folder)
    (folder / "optimizer.pt").write_bytes(b"")
    with pytest.raises(StreamproofError, match=r"pickle files.*optimizer\.pt"):
        run(target(), work, folder=folder)
    with pytest.raises(UsageError, match="is no folder"):
        run(target(), work, folder=tmp_path / "nowhere")
