"""Looks for secrets in an image: in the files of its layers, its settings and its history."""

from __future__ import annotations

import json
import re
import tarfile
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from typing import IO, cast

TOKENS = {
    b"hf_": rb"[A-Za-z0-9]{34}",
    b"ghp_": rb"[A-Za-z0-9]{36}",
    b"gho_": rb"[A-Za-z0-9]{36}",
    b"ghs_": rb"[A-Za-z0-9]{36}",
    b"github_pat_": rb"\w{82}",
    b"glpat-": rb"[\w-]{20}",
    b"AKIA": rb"[0-9A-Z]{16}",
    b"xoxb-": rb"[0-9]+-[\w-]{20,}",
    b"pypi-AgE": rb"[\w-]{100,}",
}
"""What looks like one, of hubs, forges, clouds and package indexes: how it begins, and how it goes on."""

WHOLE = {begin: re.compile(rb"(?<![\w+/-])" + begin + rest + rb"(?![\w+/=-])") for begin, rest in TOKENS.items()}
WHOLE[b"PRIVATE KEY-----"] = re.compile(rb"-----BEGIN [A-Z ]*PRIVATE KEY-----\s+[A-Za-z0-9+/=\s]{64}")


def secrets(saved: Iterable[bytes], values: Sequence[str], *, skip: int = 0) -> list[str]:
    """Where in a saved image something looks like a token, or is one of some values: "path: what".

    Args:
        saved: the chunks of `docker save`.
        values: to look for besides.
        skip: this many of the lowest layers are somebody else's.
    """
    found: list[str] = []
    wanted = [value.encode() for value in values]
    with tempfile.TemporaryFile() as file:
        file.writelines(saved)
        file.seek(0)
        with tarfile.open(fileobj=file) as archive:  # a file, for what tells the order of the layers comes last
            manifest = cast("IO[bytes]", archive.extractfile("manifest.json")).read()
            others = json.loads(manifest)[0]["Layers"][:skip]
            for member in archive:
                if not member.isreg() or member.name in others:
                    continue
                content = cast("IO[bytes]", archive.extractfile(member))
                if member.name.endswith("/layer.tar"):
                    found += _in_layer(content, wanted)
                else:
                    found += [f"{member.name}: {hit}" for hit in _hits(content.read(), wanted)]
    return found


def _in_layer(content: IO[bytes], wanted: Sequence[bytes]) -> Iterator[str]:
    with tarfile.open(fileobj=content, mode="r|") as layer:
        for member in layer:
            if member.isreg():
                text = cast("IO[bytes]", layer.extractfile(member)).read()
                yield from (f"{member.name}: {hit}" for hit in _hits(text, wanted))


def _hits(text: bytes, wanted: Sequence[bytes]) -> Iterator[str]:
    yield from (value.decode() for value in wanted if value in text)
    for begin, pattern in WHOLE.items():
        if begin in text:  # far faster than the pattern
            yield from (hit[0][:60].decode(errors="replace") for hit in pattern.finditer(text))
