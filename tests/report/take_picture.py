"""Takes the README's picture: the top of a report's page, down to latency against streams, drawn by this version.

    uv run python -m tests.report.take_picture FOLDER docs/pictures/report.png

Needs Chromium. The picture has a palette of 256 colours, which is a third of the bytes and looks the same.
"""

from __future__ import annotations

import os
import shutil
import struct
import sys
import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from playwright.sync_api import sync_playwright

from bench.explain.compare.side import read_side
from bench.report.keys import trusted_keys
from bench.report.render.html import render_page
from bench.report.verify_show import ALLOW_LIST

WIDTH = 1080
SIGNATURE = b"\x89PNG\r\n\x1a\n"
FOLD = "Math.ceil(document.querySelector('#latency .pair').getBoundingClientRect().bottom)"


def take(page: str) -> bytes:
    """The top of a page of HTML as PNG."""
    arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=arguments)
        opened = browser.new_page(viewport={"width": WIDTH, "height": 900}, color_scheme="light")
        opened.set_content(page)
        height = float(opened.evaluate(FOLD)) + 16
        return opened.screenshot(full_page=True, clip={"x": 0, "y": 0, "width": WIDTH, "height": height})


def pixels(png: bytes) -> NDArray[np.uint8]:
    """Of a PNG as Chromium writes it (8 bits, RGB or RGBA, not interlaced): shape (height, width, 3).

    Filters as in the PNG specification, third edition, section 9.
    """
    chunks: dict[bytes, bytes] = {}
    at = len(SIGNATURE)
    while at < len(png):
        (length,) = struct.unpack_from(">I", png, at)
        kind = png[at + 4 : at + 8]
        chunks[kind] = chunks.get(kind, b"") + png[at + 8 : at + 8 + length]
        at += length + 12
    width, height, _, colours = struct.unpack_from(">IIBB", chunks[b"IHDR"])
    depth = {2: 3, 6: 4}[colours]
    rows = np.frombuffer(zlib.decompress(chunks[b"IDAT"]), np.uint8).reshape(height, 1 + width * depth)
    above = np.zeros((width, depth), np.int64)
    found = np.empty((height, width, depth), np.uint8)
    for number, row in enumerate(rows):
        above = _unfiltered(int(row[0]), row[1:].reshape(width, depth).astype(np.int64), above)
        found[number] = above
    return found[..., :3]


def _unfiltered(kind: int, row: NDArray[np.int64], above: NDArray[np.int64]) -> NDArray[np.int64]:
    if kind == 0:
        return row
    if kind == 1:
        return np.cumsum(row, axis=0) % 256
    if kind == 2:
        return (row + above) % 256
    left, corner = np.zeros(row.shape[1], np.int64), np.zeros(row.shape[1], np.int64)
    found = np.empty_like(row)
    for number, (value, up) in enumerate(zip(row, above, strict=True)):
        if kind == 3:
            left = (value + (left + up) // 2) % 256
        else:
            guess = left + up - corner
            near = np.stack([np.abs(guess - left), np.abs(guess - up), np.abs(guess - corner)]).argmin(axis=0)
            left = (value + np.choose(near, [left, up, corner])) % 256
        found[number], corner = left, up
    return found


def with_palette(rgb: NDArray[np.uint8]) -> bytes:
    """A PNG of at most 256 colours; each other one becomes the nearest of them."""
    flat = rgb.reshape(-1, 3).astype(np.int64) @ np.array([1 << 16, 1 << 8, 1])
    every, places, counts = np.unique(flat, return_inverse=True, return_counts=True)
    parts = np.stack([every >> 16, every >> 8 & 255, every & 255], axis=1)
    palette = _palette(parts[np.argsort(-counts, kind="stable")])
    nearest = np.array([((palette - part) ** 2).sum(axis=1).argmin() for part in parts], np.uint8)
    height, width, _ = rgb.shape
    rows = np.concatenate([np.zeros((height, 1), np.uint8), nearest[places].reshape(height, width)], axis=1)
    header = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)
    body = zlib.compress(rows.tobytes(), 9)
    chunks = ((b"IHDR", header), (b"PLTE", palette.astype(np.uint8).tobytes()), (b"IDAT", body), (b"IEND", b""))
    return SIGNATURE + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks
    )


def _palette(often: NDArray[np.int64]) -> NDArray[np.int64]:
    """The most frequent colours that can be told apart: so a rare one is not lost among shades of grey."""
    kept = often[:1]
    for colour in often[1:]:
        if len(kept) < 256 and ((kept - colour) ** 2).sum(axis=1).min() > 60:
            kept = np.concatenate([kept, colour[None]])
    return kept


if __name__ == "__main__":
    side = read_side(Path(sys.argv[1]), trusted_keys(allow_list=ALLOW_LIST))
    Path(sys.argv[2]).write_bytes(with_palette(pixels(take(render_page(side.report, side.evidence)))))
