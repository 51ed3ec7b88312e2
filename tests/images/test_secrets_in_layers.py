"""The search for secrets finds them, wherever in a saved image they are."""

from __future__ import annotations

import io
import json
import tarfile

import pytest

from tests.images.secrets_in_layers import secrets

TOKEN = "hf_" + "aBcDeFgHiJ" * 3 + "0123"
KEY = "-----BEGIN PRIVATE KEY-----\n" + "MIIEvQIBADANBgkqhkiG9w0BAQEFAASC" * 4


def archive(members: dict[str, bytes]) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as tar:
        for name, content in members.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    return made.getvalue()


def saved(*, base: bytes = b"", layer: bytes = b"", config: str = "{}") -> list[bytes]:
    layers = {f"{'0123456789abcdef'[n] * 64}/layer.tar": archive({"f": text}) for n, text in enumerate((base, layer))}
    manifest = json.dumps([{"Layers": list(layers)}]).encode()
    return [archive({**layers, "config.json": config.encode(), "manifest.json": manifest})]


@pytest.mark.parametrize("secret", [TOKEN, KEY, "ghp_" + "a1" * 18, "AKIA" + "Z9" * 8, "glpat-" + "x_" * 10])
def test_what_looks_like_a_token_is_found_in_a_layer(secret: str) -> None:
    (found,) = secrets(saved(layer=f"x={secret}\n".encode()), [])
    assert found == f"f: {secret[:60]}"


def test_a_value_is_found_in_a_layer_and_in_the_settings() -> None:
    assert secrets(saved(layer=b"abc my-password def"), ["my-password"]) == ["f: my-password"]
    assert secrets(saved(config='{"Env": ["P=my-password"]}'), ["my-password"]) == ["config.json: my-password"]


def test_somebody_elses_layer_is_not_ours() -> None:
    assert secrets(saved(base=TOKEN.encode()), [], skip=1) == []
    assert secrets(saved(base=TOKEN.encode()), []) != []


@pytest.mark.parametrize(
    "text", ["", "hf_xet14PyXetTaskStateEE10initializeNCINvNtNtBU", f"/{TOKEN}", "BEGIN PRIVATE KEY"]
)
def test_what_does_not_look_like_one_is_not(text: str) -> None:
    assert secrets(saved(layer=text.encode()), []) == []
