"""Where a model's configuration comes from, with and without a hub."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import requests

from bench.errors import UsageError
from bench.explain.preflight.locate import model_of
from recipes.schema import Checkpoint
from tests.explain.preflight.planned import FULL_SIZE

HUB = Checkpoint(kind="hub", name="Qwen/Qwen3.5-35B-A3B-FP8", precision="fp8", real=True)


class Reply:
    def __init__(self, body: object, status: int = 200) -> None:
        self._body = body
        self._status = status

    def raise_for_status(self) -> None:
        if self._status >= 400:
            raise requests.HTTPError(str(self._status))

    def json(self) -> object:
        if isinstance(self._body, bytes):
            raise requests.JSONDecodeError("no JSON", "", 0)
        return self._body


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Asks for the hub: their addresses; no cache and no token of this machine takes part."""
    urls: list[str] = []
    monkeypatch.setattr("huggingface_hub.try_to_load_from_cache", lambda *_, **__: None)
    monkeypatch.setattr("huggingface_hub.get_token", lambda: None)
    return urls


def answer(monkeypatch: pytest.MonkeyPatch, urls: list[str], reply: Reply | Exception) -> None:
    def get(url: str, **options: Any) -> Reply:
        assert options["timeout"] <= 10
        urls.append(url)
        if isinstance(reply, Exception):
            raise reply
        return reply

    monkeypatch.setattr(requests, "get", get)


def test_the_hubs_own_configuration_is_taken_when_it_can_be_had(
    monkeypatch: pytest.MonkeyPatch, asked: list[str]
) -> None:
    config = json.loads(FULL_SIZE.read_text())
    config["text_config"]["num_experts"] = 128
    answer(monkeypatch, asked, Reply(config))
    model = model_of(HUB.model_copy(update={"revision": "a" * 40}))
    assert model.shapes.experts is not None
    assert model.shapes.experts.count == 128
    assert model.assumed is None
    assert asked[0].endswith(f"/Qwen/Qwen3.5-35B-A3B-FP8/resolve/{'a' * 40}/config.json")


@pytest.mark.parametrize(
    "reply",
    [requests.ConnectionError("no network"), Reply({}, status=404), Reply(b"<html>"), Reply([1])],
    ids=["no network", "not found", "no JSON", "no table"],
)
def test_without_the_hub_the_same_shapes_stand_in_and_it_is_said(
    monkeypatch: pytest.MonkeyPatch, asked: list[str], reply: Reply | Exception
) -> None:
    answer(monkeypatch, asked, reply)
    model = model_of(HUB)
    assert len(asked) == 1
    assert model.assumed is not None
    assert "could not be asked" in model.assumed


def test_offline_nobody_is_asked(monkeypatch: pytest.MonkeyPatch, asked: list[str]) -> None:
    answer(monkeypatch, asked, AssertionError("asked"))
    assert model_of(HUB, offline=True).assumed
    assert asked == []


def test_a_configuration_that_is_named_wins(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_bytes(FULL_SIZE.read_bytes())
    for named in (tmp_path, tmp_path / "config.json"):
        assert model_of(HUB, config=named).assumed is None


@pytest.mark.parametrize(("precision", "scheme"), [("nvfp4", "nvfp4"), ("bf16", "bf16"), ("fp8", "fp8")])
def test_a_checkpoint_that_is_not_made_yet_is_assumed_in_its_precision(precision: str, scheme: str) -> None:
    checkpoint = Checkpoint.model_validate(
        {"kind": "quantized", "name": "checkpoints/Qwen3.5-35B-A3B-X", "precision": precision, "real": True}
    )
    model = model_of(checkpoint)
    assert model.shapes.quantization.scheme == scheme
    assert model.assumed is not None


def test_an_unknown_model_that_cannot_be_asked_is_refused() -> None:
    with pytest.raises(UsageError, match="not here") as refused:
        model_of(HUB.model_copy(update={"name": "a/b"}), offline=True)
    assert "--config" in refused.value.remedy
