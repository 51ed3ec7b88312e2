"""The recorded table is what the pinned release prints, and its options are those that are listed."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from bench.engine.environment import EngineEnvironment, ensure_environment
from bench.engine.graph_tables import GraphTableReader
from bench.engine.log_lines import LineSplitter
from bench.explain.preflight.releases import options

pytestmark = [pytest.mark.engine, pytest.mark.thorough]
PRINT = Path(__file__).with_name("print_table.py")


@pytest.fixture(scope="module")
def printed() -> list[str]:
    environment: EngineEnvironment = ensure_environment("engine-cpu", say=print)
    done = subprocess.run(
        [environment.python, PRINT],
        env={**os.environ, **environment.env},
        capture_output=True,
        check=True,
        timeout=180,
    )
    return done.stdout.decode().split("=== options\n")


def test_the_engine_prints_what_we_read(printed: list[str]) -> None:
    splitter, reader = LineSplitter(), GraphTableReader(run=0)
    lines = [*splitter.feed(printed[0].encode()), *splitter.flush()]
    tables = [table for line in lines if (table := reader.feed(line, 1.0))]
    assert [(t.mode, t.capture_sizes, [(r.tokens, r.padded, r.mode, r.count) for r in t.steps]) for t in tables] == [
        ("FULL_AND_PIECEWISE", (5, 10), [(7, 10, "FULL", 3), (900, 900, "NONE", 1)])
    ]


def test_the_listed_options_are_the_engines(printed: list[str]) -> None:
    assert set(json.loads(printed[1])) == set(options("0.26.0"))
