from __future__ import annotations

from pathlib import Path

import pytest
from huggingface_hub.errors import LocalEntryNotFoundError

from bench.bundle.checkpoint import checkpoint_files
from bench.bundle.installed import installed_bundle, offline_environment
from bench.errors import StreamproofError, UsageError
from recipes.schema import Checkpoint

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def hub(revision: str | None = COMMIT) -> Checkpoint:
    return Checkpoint(kind="hub", name="Somebody/Model", revision=revision, precision="fp8", real=True)


def test_a_hub_checkpoint_lies_where_the_hubs_own_cache_has_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Packed from one cache, found in another without network: by the hub's own client."""
    from huggingface_hub import snapshot_download  # noqa: PLC0415

    maker = tmp_path / "maker" / "models--Somebody--Model"
    (maker / "blobs").mkdir(parents=True)
    (maker / "blobs" / "aa").write_text("{}")
    snapshot = maker / "snapshots" / COMMIT
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").symlink_to("../../blobs/aa")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("huggingface_hub.snapshot_download", lambda name, revision: _find(name, revision, maker.parent))

    def _find(name: str, revision: str, cache: Path) -> str:
        return snapshot_download(name, revision=revision, cache_dir=cache)

    (entry,) = checkpoint_files(hub(), "client/")
    assert isinstance(entry.source, Path)
    carried = tmp_path / "installed" / entry.path
    carried.parent.mkdir(parents=True)
    carried.write_bytes(entry.source.read_bytes())
    environment = offline_environment(tmp_path / "installed")
    assert environment["HF_HUB_OFFLINE"] == "1"
    found = snapshot_download("Somebody/Model", revision=COMMIT, cache_dir=environment["HF_HUB_CACHE"])
    assert (Path(found) / "config.json").read_text() == "{}"


def test_without_a_carried_checkpoint_the_users_own_cache_is_used(tmp_path: Path) -> None:
    assert "HF_HUB_CACHE" not in offline_environment(tmp_path)


def test_a_hub_checkpoint_needs_its_commit() -> None:
    with pytest.raises(UsageError) as caught:
        checkpoint_files(hub(None), "")
    assert "--set checkpoint.revision=" in caught.value.remedy


def test_a_hub_that_cannot_be_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> str:
        raise LocalEntryNotFoundError("offline")

    monkeypatch.setattr("huggingface_hub.snapshot_download", fail)
    with pytest.raises(StreamproofError, match="cannot be reached for Somebody/Model"):
        checkpoint_files(hub(), "")


def test_a_quantized_checkpoint_that_was_not_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.bundle.checkpoint.REPOSITORY", tmp_path)
    checkpoint = Checkpoint(kind="quantized", name="quantize/out", precision="nvfp4", real=True)
    with pytest.raises(StreamproofError, match="quantize/out is not there"):
        checkpoint_files(checkpoint, "")


def test_a_checkout_is_no_installed_bundle() -> None:
    assert installed_bundle() is None


def test_a_folder_elsewhere_would_not_be_found_on_the_host(tmp_path: Path) -> None:
    checkpoint = Checkpoint(kind="folder", name=str(tmp_path), precision="bf16", real=True)
    with pytest.raises(UsageError, match="outside of the checkout"):
        checkpoint_files(checkpoint, "")
