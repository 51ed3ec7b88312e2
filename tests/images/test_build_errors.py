"""A failed build says what was wrong and what to do. The lines are those of Docker 20.10 and of BuildKit 0.12."""

from __future__ import annotations

import pytest

from bench.images.build_errors import explained
from bench.images.definition import image_definition

DEFINITION = image_definition("b200-nvfp4")
BASE = DEFINITION.base.reference


@pytest.mark.parametrize(
    ("line", "message", "remedy"),
    [
        (
            "#8 0.91 streamproof refuses: flashinfer-cubin is 0.6.13 (pinned: 0.6.14)",
            "would not be what docker/pins.toml says: flashinfer-cubin is 0.6.13 (pinned: 0.6.14)",
            "Build on the pinned base",
        ),
        (
            "#8 0.91 streamproof refuses: the base has Python 3.11, and the wheels were chosen for 3.12",
            "the base has Python 3.11",
            "--base-python",
        ),
        (
            "#8 9.1 streamproof refuses: uv ended with status 1: error: Hash mismatch for `torch==2.11.0`",
            "Hash mismatch",
            "remove ~/.cache/streamproof/wheels",
        ),
        (
            "failed to solve: write /x: no space left on device",
            "the disk filled up",
            "30.1 GiB",
        ),
        (
            f"failed to solve with frontend dockerfile.v0: failed to create LLB definition: {BASE}: not found",
            "the registry has no image with the digest",
            "just pin",
        ),
        (
            f'ERROR: failed to solve: {BASE}: failed to do request: Head "https://example.org/v2/": dial tcp: no host',
            "cannot be reached from the Docker Engine",
            "--base-image",
        ),
        (
            "ERROR: failed to solve: docker/buildkit-syft-scanner:stable-1: failed to do request: dial tcp: timeout",
            "what is in the image cannot be fetched",
            "--no-attest",
        ),
        (
            "failed to solve with frontend dockerfile.v0: pull access denied, repository does not exist or requires it",
            "does not give",
            "docker login",
        ),
        (
            f"ERROR: failed to solve: {BASE}: no match for platform in manifest: not found",
            "nothing for linux/amd64",
            "index",
        ),
    ],
)
def test_a_known_cause(line: str, message: str, remedy: str) -> None:
    error = explained(["#1 [internal] load build definition", line, "------"], DEFINITION)
    assert message in error.message
    assert remedy in error.remedy


def test_an_unknown_cause_shows_the_last_lines() -> None:
    error = explained([f"line {number}" for number in range(100)] + ["it is not found"], DEFINITION)
    assert "line 99" in error.message
    assert "line 90" not in error.message
