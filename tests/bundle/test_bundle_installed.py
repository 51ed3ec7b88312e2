from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from bench.bundle.installed import engine_environment, installed_bundle
from bench.engine.pins import load_pins
from bench.errors import StreamproofError, UsageError
from bench.observe.packages import packages_sha256
from recipes.fingerprint import file_sha256

LOCK = "docker/locks/engine-cpu.txt"


@pytest.fixture
def client(tmp_path: Path) -> Path:
    """An installed bundle's client, with one package for the engine; the host is this interpreter."""
    client = tmp_path / "client"
    (client / LOCK).parent.mkdir(parents=True)
    (client / LOCK).write_text("helper==2.0\n")
    info = tmp_path / "engine" / "helper-2.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Name: helper\nVersion: 2.0\n")
    write(client)
    return client


def write(client: Path, **changes: Any) -> None:
    known = {
        "schema": 1,
        "target": "cpu",
        "version": "0.1.0",
        "commit": "c" * 40,
        "engine": "engine-cpu",
        "engine_lock_sha256": file_sha256(client / LOCK),
        "python": sys.executable,
        "host_packages": {"pytest": "0"},
        "signer": "s",
        "image": None,
    }
    (client.parent / "bundle.json").write_text(json.dumps({**known, **changes}))


def test_the_engine_is_the_bundles(client: Path) -> None:
    environment = engine_environment("engine-cpu", repository=client)
    assert environment is not None
    assert environment.command() == (sys.executable, "-m", load_pins().engine("engine-cpu").module)
    assert environment.env["PYTHONPATH"] == str(client.parent / "engine")
    assert environment.env["HF_HUB_OFFLINE"] == "1"
    # As the host has it now, not as it was when the bundle was installed.
    assert environment.packages_sha256 == packages_sha256({"helper": "2.0", "pytest": pytest.__version__})


def test_what_it_is(client: Path) -> None:
    bundle = installed_bundle(client)
    assert bundle is not None
    assert (bundle.root, bundle.target, bundle.commit) == (client.parent, "cpu", "c" * 40)
    assert bundle.caches == client.parent / "caches"
    assert bundle.image is None


def test_a_checkout_has_none(tmp_path: Path) -> None:
    assert installed_bundle(tmp_path / "client") is None
    assert engine_environment("engine-cpu", repository=tmp_path / "client") is None


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"engine": "engine-cuda"}, "carries the engine engine-cuda; the recipe needs engine-cpu"),
        ({"engine_lock_sha256": "0" * 64}, "carries the engine"),
        ({"python": "/nowhere/python3"}, "does not start: /nowhere/python3"),
        ({"python": "/bin/false"}, "does not start: /bin/false"),
        ({"host_packages": {"no-such-package": "1"}}, "no longer has no-such-package"),
        ({"commit": "main"}, "cannot be used"),
        ({"more": 1}, "cannot be used"),
        ({"image": "streamproof/cpu:0123456789ab"}, "carries the engine as the image streamproof/cpu:0123456789ab"),
    ],
)
def test_what_does_not_fit_is_named(client: Path, changes: dict[str, Any], words: str) -> None:
    write(client, **changes)
    with pytest.raises(StreamproofError, match=words) as caught:
        engine_environment("engine-cpu", repository=client)
    assert caught.value.remedy


def test_an_engine_that_nobody_pinned(client: Path) -> None:
    with pytest.raises(UsageError):
        engine_environment("engine-none", repository=client)
