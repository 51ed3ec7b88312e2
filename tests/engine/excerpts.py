"""Excerpts of real logs and metrics pages of vLLM 0.26.0, in `data/`.

`h200-*` were written on one H200, `cpu-*` on two CPU cores, with the toy shapes and random weights. Paths are made
neutral; most progress bars, routes and traceback lines, and most of the configuration that the engine prints, are cut.
"""

from __future__ import annotations

from pathlib import Path

from bench.engine.log_lines import LineSplitter, LogLine

DATA = Path(__file__).with_name("data")


def log(name: str) -> list[LogLine]:
    """The lines of `data/<name>.log`."""
    splitter = LineSplitter()
    return splitter.feed((DATA / f"{name}.log").read_bytes()) + splitter.flush()


def page(name: str) -> str:
    """The metrics page `data/<name>.prom`."""
    return (DATA / f"{name}.prom").read_text()
