"""The labels of an image: OCI's and ours, without the time and the place of its build."""

from __future__ import annotations

from bench.images import labels
from bench.images.definition import image_definition
from bench.images.labels import labels_of
from bench.images.revision import Revision

DEFINITION = image_definition("b200-nvfp4")


def test_all_that_the_specification_names_and_that_is_known() -> None:
    revision = Revision(commit="a" * 40, time=1_000_000_000, changed=())
    found = labels_of(DEFINITION, revision, version="0.1.0", source="https://example.org/x")
    oci = "org.opencontainers.image."
    assert {name.removeprefix(oci): value for name, value in found.items() if name.startswith(oci)} == {
        "title": "streamproof b200-nvfp4",
        "description": DEFINITION.title,
        "version": "0.1.0",
        "created": "2001-09-09T01:46:40Z",
        "licenses": "Apache-2.0",
        "revision": "a" * 40,
        "source": "https://example.org/x",
        "base.name": "vllm/vllm-openai:v0.26.0",
        "base.digest": DEFINITION.base.digest,
    }
    assert found[labels.DEFINITION] == DEFINITION.sha256
    assert (found[labels.TARGET], found[labels.STAGE]) == ("b200-nvfp4", "serve-cuda")
    assert labels.DIRTY not in found


def test_a_dirty_checkout_is_named() -> None:
    revision = Revision(commit="a" * 40, time=0, changed=tuple(f"file{number:02}" for number in range(25)))
    found = labels_of(DEFINITION, revision, version="0.1.0", source=None)
    assert found[labels.REVISION] == "a" * 40 + "-dirty"
    assert found[labels.DIRTY].startswith("file00 file01 ")
    assert found[labels.DIRTY].endswith("file19 and 5 more")
    assert "org.opencontainers.image.source" not in found
