from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.bundle.host.manifest import (
    Archive,
    BadManifestError,
    Image,
    LeftOut,
    ListedFile,
    Part,
    is_inside,
    parse,
    parse_file_list,
    write_file_list,
)
from bench.report.folder_files import canonical_json
from tests.bundle.handmade import manifest_of

ARCHIVE = Archive("software", "xz", "b" * 64, 3, 1234, (Part("toy.tar.xz.001", "c" * 64, 99),))
MANIFEST = manifest_of((ARCHIVE,), host_provides={"torch": "2.11.0", "numpy": ""}, left_out=(LeftOut("x", "y", 7),))


DIGEST = f"sha256:{'d' * 64}"
IMAGE = {"reference": "streamproof/cpu:0123456789ab", "id": DIGEST, "layers": [DIGEST]}


def test_what_is_written_is_read() -> None:
    assert parse(canonical_json(MANIFEST.as_json())) == MANIFEST
    with_image = manifest_of((ARCHIVE,), image=Image("streamproof/cpu:0123456789ab", DIGEST, (DIGEST, DIGEST)))
    assert parse(canonical_json(with_image.as_json())) == with_image


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"schema": 2}, "schema 2"),
        ({"target": 1}, "no text"),
        ({"archives": 3}, "not of the right shape"),
        ({"archives": [{"compression": "gzip"}]}, "gzip"),
        ({"archives": [{}]}, "compression is missing"),
        ({"left_out": [{"name": "x", "why": "y", "size": True}]}, "no size"),
        ({"left_out": [{"name": "x", "why": "y", "size": -1}]}, "no size"),
        ({"host_provides": []}, "not of the right shape"),
        ({"image": "x"}, "not of the right shape"),
        ({"image": {**IMAGE, "reference": "--all"}}, "no name of an image"),
        ({"image": {**IMAGE, "reference": "no/tag"}}, "no name of an image"),
        ({"image": {**IMAGE, "id": "md5:d41d"}}, "no digest"),
        ({"image": {**IMAGE, "layers": ["sha256:x"]}}, "no SHA-256"),
    ],
)
def test_another_shape_is_named(change: dict[str, Any], words: str) -> None:
    with pytest.raises(BadManifestError, match=words):
        parse(json.dumps({**MANIFEST.as_json(), **change}).encode())


@pytest.mark.parametrize(
    ("part", "words"),
    [
        ({"name": "../x", "sha256": "c" * 64, "size": 1}, "no name of a part"),
        ({"name": 5, "sha256": "c" * 64, "size": 1}, "no name of a part"),
        ({"name": "x", "sha256": "C" * 64, "size": 1}, "no SHA-256"),
        ({"name": "x", "sha256": "c" * 64, "size": 1.5}, "no size"),
    ],
)
def test_a_bad_part_is_named(part: dict[str, Any], words: str) -> None:
    value = MANIFEST.as_json()
    value["archives"] = [{**value["archives"][0], "parts": [part]}]
    with pytest.raises(BadManifestError, match=words):
        parse(json.dumps(value).encode())


@pytest.mark.parametrize("raw", [b"{", b"[]", b"3"])
def test_no_manifest_at_all(raw: bytes) -> None:
    with pytest.raises(BadManifestError):
        parse(raw)


steps = st.text(st.characters(codec="utf-8", exclude_characters="/\\", exclude_categories=("C", "Z")), min_size=1)
paths = st.lists(steps.filter(lambda step: step not in (".", "..")), min_size=1, max_size=4).map("/".join)


@given(st.dictionaries(paths, st.tuples(st.binary(max_size=3), st.booleans())))
def test_lists_round_trip(files: dict[str, tuple[bytes, bool]]) -> None:
    listed = [
        ListedFile(path, content.hex().zfill(64), len(content), executable)
        for path, (content, executable) in files.items()
    ]
    assert parse_file_list(write_file_list(listed)) == {file.path: file for file in listed}


@pytest.mark.parametrize(
    "path", ["", "/etc/passwd", "../x", "a/../../x", "a//b", "./a", "a/.", "a\\b", "a\nb", "a\0b", "a/"]
)
def test_paths_that_leave_the_folder(path: str) -> None:
    assert not is_inside(path)
    line = f"{'a' * 64} - 1 {path}\n".encode()
    with pytest.raises(BadManifestError):
        parse_file_list(line)


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (b"x", "cut short"),
        (b"\xff\n", "UTF-8"),
        (b"abc - 1 a\n", "another form"),
        (b"a" * 64 + b" ? 1 a\n", "another form"),
        (b"a" * 64 + b" - -1 a\n", "another form"),
        (b"a" * 64 + b" - 1\n", "another form"),
        (2 * (b"a" * 64 + b" - 1 a\n"), "twice"),
    ],
)
def test_lists_of_another_form(raw: bytes, words: str) -> None:
    with pytest.raises(BadManifestError, match=words):
        parse_file_list(raw)
