"""Layers are read as Docker saves them, and what differs is named."""

from __future__ import annotations

import io
import json
import tarfile
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.images.layers import differences, read_layer, read_saved


@dataclass(frozen=True)
class File:
    text: str = ""
    mode: int = 0o644
    time: int = 1
    owner: int = 0
    link: str | None = None


def layer(files: dict[str, File]) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as tar:
        for name, file in files.items():
            entry = tarfile.TarInfo(name)
            entry.mode, entry.mtime, entry.uid = file.mode, file.time, file.owner
            if file.link is not None:
                entry.type, entry.linkname = tarfile.SYMTYPE, file.link
            entry.size = len(file.text)
            tar.addfile(entry, io.BytesIO(file.text.encode()))
    return made.getvalue()


def saved(members: dict[str, bytes], order: list[str]) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as tar:
        for name, content in {**members, "manifest.json": json.dumps([{"Layers": order}]).encode()}.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    return made.getvalue()


@pytest.mark.parametrize("names", [("b/layer.tar", "a/layer.tar"), ("blobs/sha256/bb", "blobs/sha256/aa")])
@given(size=st.integers(1, 2000))
def test_layers_come_in_their_order_from_both_layouts(names: tuple[str, str], size: int) -> None:
    lower, upper = layer({"etc/passwd": File("root")}), layer({"opt/x": File("y" * 3000)})
    members = {names[1]: upper, "blobs/sha256/cc": b'{"config": 1}', "x.json": b"{}", names[0]: lower}
    whole = saved(members, list(names))
    chunks = [whole[start : start + size] for start in range(0, len(whole), size)]
    first, second = read_saved(chunks)
    assert list(first) == ["etc/passwd"]
    assert second["opt/x"].size == 3000


@pytest.mark.parametrize(
    ("changed", "line"),
    [
        (File("b"), "f: content"),
        (File("aa"), "f: size 1 and 2, content"),
        (File("a", time=2), "f: time 1.0 and 2.0"),
        (File("a", mode=0o600), "f: mode 420 and 384"),
        (File("a", owner=7), "f: owner (0, 0) and (7, 0)"),
        (File(link="g"), "f: kind b'0' and b'2', link '' and 'g', size 1 and 0, content"),
        (None, "f: only in the first"),
    ],
)
def test_what_differs_is_named(changed: File | None, line: str) -> None:
    first = read_layer(io.BytesIO(layer({"same": File(), "f": File("a")})))
    second = read_layer(io.BytesIO(layer({"same": File()} | ({"f": changed} if changed else {}))))
    assert differences(first, second) == [line]


def test_what_is_the_same_is_not() -> None:
    files = {"a": File("x"), "b": File(link="a")}
    assert differences(read_layer(io.BytesIO(layer(files))), read_layer(io.BytesIO(layer(files)))) == []
    assert differences({}, read_layer(io.BytesIO(layer({"n": File()})))) == ["n: only in the second"]
