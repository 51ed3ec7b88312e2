import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import huggingface_hub.constants
import pytest

from bench.errors import StreamproofError
from quantize.checkpoint import TOY, resolve
from recipes.fingerprint import folder_sha256
from recipes.load import load_recipe

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def test_the_toy_is_its_own_tokenizer_and_is_pinned_by_its_files() -> None:
    found = resolve(load_recipe("cpu").checkpoint)
    assert (found.model, found.tokenizer, found.sha256) == (str(TOY), TOY, folder_sha256(TOY))
    assert found.vocab_size is None


def test_dummy_weights_have_a_vocabulary_and_borrow_the_toys_tokenizer() -> None:
    found = resolve(load_recipe("h200-fp8-dummy").checkpoint)
    assert (found.tokenizer, found.vocab_size) == (TOY, 248_320)
    assert Path(found.model, "config.json").is_file()


def test_a_checkpoint_that_nobody_has_made_yet() -> None:
    with pytest.raises(StreamproofError, match="A3B-NVFP4 is not there") as caught:
        resolve(load_recipe("b200-nvfp4").checkpoint)
    assert "just quantize" in caught.value.remedy


def test_a_folder_of_ones_own_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(StreamproofError, match="is not there") as caught:
        resolve(load_recipe("cpu", {"checkpoint.kind": "folder", "checkpoint.name": str(tmp_path)}).checkpoint)
    assert "from the recipe's own file" in caught.value.remedy


class Hub(BaseHTTPRequestHandler):
    """As much of a hub as resolving a revision and taking a tokenizer needs."""

    def do_GET(self) -> None:
        if self.path.startswith(f"/api/models/Qwen/there/tree/{COMMIT}"):
            self.answer([{"type": "file", "path": p, "size": 18, "oid": "0"} for p in ("tokenizer.json", "model.bin")])
        elif self.path.startswith("/api/models/Qwen/there"):
            files = [{"rfilename": "tokenizer.json"}, {"rfilename": "model.bin"}]
            self.answer({"id": "Qwen/there", "sha": COMMIT, "siblings": files})
        elif self.path.endswith(f"/resolve/{COMMIT}/tokenizer.json"):
            self.answer({"a": "tokenizer"})
        else:
            self.send_error(404)

    do_HEAD = do_GET  # noqa: N815  the name that the library calls

    def answer(self, content: object) -> None:
        body = json.dumps(content).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Content-Type", "application/json")
        self.send_header("X-Repo-Commit", COMMIT)
        self.send_header("ETag", '"an-etag"')
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), Hub)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    address = f"http://127.0.0.1:{server.server_port}"
    monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", address)
    template = address + "/{repo_id}/resolve/{revision}/{filename}"
    monkeypatch.setattr(huggingface_hub.constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
    yield address
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_hub_checkpoint_gets_its_commit_and_only_the_tokenizer_is_taken(hub: str) -> None:
    assert hub
    found = resolve(load_recipe("vanilla", {"checkpoint.name": "Qwen/there"}).checkpoint)
    assert (found.model, found.revision, found.sha256) == ("Qwen/there", COMMIT, None)
    assert [path.name for path in found.tokenizer.iterdir()] == ["tokenizer.json"]


def test_a_hub_that_does_not_have_it(hub: str) -> None:
    assert hub
    with pytest.raises(StreamproofError, match="Qwen/gone") as caught:
        resolve(load_recipe("vanilla", {"checkpoint.name": "Qwen/gone"}).checkpoint)
    assert caught.value.remedy


def test_a_hub_that_cannot_be_reached(hub: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert hub
    monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", "http://127.0.0.1:9")
    # Without a commit the first question is one that is asked once; a download would be tried again for 20 s.
    checkpoint = load_recipe("vanilla", {"checkpoint.name": "Qwen/there"}).checkpoint
    with pytest.raises(StreamproofError, match="cannot be reached") as caught:
        resolve(checkpoint)
    assert "--set checkpoint.name=" in caught.value.remedy
