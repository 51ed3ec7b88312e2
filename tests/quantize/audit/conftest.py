"""A source and what was made of it, once for all tests: they damage copies."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.quantize.audit.synthetic import Folder, Tensors, config, exported, source_tensors


@pytest.fixture(scope="session")
def tensors() -> Tensors:
    """Of the source."""
    return source_tensors()


@pytest.fixture(scope="session")
def source(tensors: Tensors, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source's folder."""
    return Folder(tensors, config()).write(tmp_path_factory.mktemp("source") / "source")


@pytest.fixture(scope="session")
def sound(tensors: Tensors) -> Folder:
    """A sound checkpoint with calibrated KV scales; copy it before you damage it."""
    return exported(tensors, "nvfp4", "fp8")
