"""Bases are named by digest, or refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.engine.pins import load_pins
from bench.errors import UsageError
from bench.images.base import parse_base, pinned_base

DIGEST = "sha256:" + "0123456789abcdef" * 4


@pytest.mark.parametrize(
    "name", ["python:3.12-slim", "127.0.0.1:5000/debian:base", "ghcr.io/org/Image.x", "vllm/vllm-openai"]
)
def test_a_reference_with_a_digest(name: str) -> None:
    base = parse_base(f"{name}@{DIGEST}", python="3.11", glibc=36)
    assert (base.name, base.digest, base.python, base.glibc) == (name, DIGEST, "3.11", 36)
    assert base.reference == f"{name}@{DIGEST}"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "python",
        "python:3.12",
        "python:latest",
        f"python:latest@{DIGEST}",
        f"@{DIGEST}",
        f"python@{DIGEST[:-1]}",
        f"python@{DIGEST.upper()}",
        f"python@sha512:{'0' * 64}",
        f"python@{DIGEST} --privileged",
        f"--x@{DIGEST}",
    ],
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="REFERENCE@sha256"):
        parse_base(text, python=None, glibc=None)


@given(st.text(max_size=90))
def test_only_a_digest_makes_a_base(text: str) -> None:
    try:
        base = parse_base(text, python=None, glibc=None)
    except UsageError:
        return
    assert base.reference == text
    assert base.digest in text


def test_a_version_of_python_is_one() -> None:
    with pytest.raises(UsageError, match="version of Python"):
        parse_base(f"python@{DIGEST}", python="3", glibc=None)


@pytest.mark.parametrize("name", sorted(load_pins().targets))
def test_every_target_is_built_on_a_digest_that_says_how_it_was_found(name: str) -> None:
    pins = load_pins()
    pin = pins.target(name)
    image = pins.image(pin.base)
    assert pinned_base(image).digest in {image.index, image.linux_amd64}
    assert image.how
    assert (pin.lock is None) or (image.python and image.glibc), "wheels are chosen for its Python"
