"""How long an honest report of many samples takes to verify, and how much memory: `just bench-verify`.

Makes a report of a million requests (ten points of one engine start, replies of 100 tokens in 32 pieces), verifies it
by the command line in a process of its own, and prints what that took. The exit code is 3 when a report of a million
takes more than 10 s or 1 GB.

Prefix-cache hits are predicted for at most 100,000 requests of one engine start (`bench.report.prefix.MOST_PREDICTED`),
so that this is the time of everything else; `--samples 100000` shows what predicting as many as that takes.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench.engine.pins import REPOSITORY
from bench.errors import Exit
from bench.observe.observations import Finished
from bench.report import folder_files as files
from bench.report.folder import begin, finish
from bench.report.keys import own_signer
from bench.report.table import LINES_AT_ONCE, SCHEMA
from tests.report.factories import (
    OUTPUT,
    POINT_S,
    PROMPT,
    SHARED,
    STEADY,
    healthy_observations,
    make_claim,
    make_recipe,
    make_started,
)
from tests.report.folders import NOW, PROVENANCE

if TYPE_CHECKING:
    from bench.observe.observations import Observation

MILLION: Final = 1_000_000
MOST_S: Final = 10.0
MOST_BYTES: Final = 10**9
POINTS: Final = 10
CHUNKS: Final = 32
"""Pieces of a reply: 100 tokens, some three at a time."""
WINDOW_S: Final = 100.0


@dataclass(frozen=True, slots=True)
class Took:
    """What one verification took.

    Attributes:
        samples: requests in the report.
        report_bytes: all of its files.
        wall_s: from the start of the process to its end, Python's own start included.
        cpu_s: user and system.
        peak_bytes: most resident memory.
    """

    samples: int
    report_bytes: int
    wall_s: float
    cpu_s: float
    peak_bytes: int


def measure(samples: int, folder: Path) -> Took:
    """Makes a report and verifies it, each in a process of its own: memory of the one is not counted for the other.

    Raises:
        RuntimeError: it is not verified.
    """
    made = [sys.executable, "-m", "tests.report.million", "--samples", str(samples), "--make", str(folder)]
    subprocess.run(made, check=True, cwd=REPOSITORY)
    (report,) = (folder / "reports").glob("*/*")
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "XDG_CONFIG_HOME": str(folder / "config")}
    command = [sys.executable, "-m", "bench", "verify", str(report), "--key", str(report / files.SIGNER), "--json"]
    began = time.monotonic()
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, cwd=REPOSITORY) as process:
        said = process.stdout.read() if process.stdout else b""
        _, status, usage = os.wait4(process.pid, 0)
        wall_s = time.monotonic() - began
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != Exit.OK or not json.loads(said)["verified"]:
        raise RuntimeError(f"the report was not verified: {said.decode()}")
    size = sum(path.stat().st_size for path in report.iterdir())
    return Took(samples, size, wall_s, usage.ru_utime + usage.ru_stime, usage.ru_maxrss << 10)


def make(samples: int, folder: Path) -> None:
    """A signed report of so many requests, below `folder`."""
    recipe = make_recipe(
        load={"ladder": [{"streams": 20 * (point + 1)} for point in range(POINTS)]}, claims=[make_claim()]
    )
    report = begin(folder / "reports", recipe, PROVENANCE, {})
    seen: list[Observation] = [make_started()]
    each = samples // POINTS
    with pq.ParquetWriter(report / files.RECORDS, SCHEMA, compression="zstd", store_schema=False) as writer:
        for point in range(POINTS):
            table = _records(each, point)
            seen += healthy_observations(
                [],
                point=point,
                at=point * POINT_S,
                requests_finished=float(each),
                prompt_tokens=float(PROMPT * each),
                generation_tokens=float(OUTPUT * each),
            )
            for first in range(0, each, LINES_AT_ONCE):  # groups of as many as a run writes at once
                writer.write_table(table.slice(first, LINES_AT_ONCE))
    seen.append(Finished(t=POINTS * POINT_S, run=0))
    (report / files.OBSERVATIONS).write_bytes(b"".join(one.model_dump_json().encode() + b"\n" for one in seen))
    (report / files.engine_log(0)).write_text("INFO the engine's log\n")
    finish(report, signer=own_signer(folder / "keys"), now=NOW)


def _records(count: int, point: int) -> pa.Table:
    """Requests in the window of one point: latencies as they come, no two prompts the same behind the shared prefix."""
    random = np.random.default_rng(point)
    intended = point * POINT_S + STEADY + np.sort(random.uniform(0, WINDOW_S, count))
    took = random.lognormal(-0.7, 0.25, count)
    pieces = (
        intended[:, None] + took[:, None] * np.linspace(0.3, 0.98, CHUNKS) + random.uniform(0, 1e-3, (count, CHUNKS))
    )
    numbers = point * count + np.arange(count)
    keys = np.stack([numbers % 4, 10 + numbers], axis=1).ravel()
    lengths = pa.array(np.tile([SHARED, PROMPT - SHARED], count))
    values: dict[str, Any] = {
        "point": np.full(count, point),
        "run": np.zeros(count, np.int64),
        "request": np.arange(count),
        "stream": numbers % 20,
        "conversation": numbers,
        "turn": np.zeros(count, np.int64),
        "agent": np.array(["router", "billing", "booking", "smalltalk"])[numbers % 4],
        "primed": np.zeros(count, np.bool_),
        "intended_s": intended,
        "sent_s": intended + 0.0002,
        "headers_s": intended + 0.01,
        "first_token_s": pieces[:, 0],
        "last_token_s": pieces[:, -1],
        "done_s": intended + took + 0.002,
        "chunk_s": _lists(count, CHUNKS, pa.array(pieces.ravel())),
        "prompt_tokens_expected": np.full(count, PROMPT),
        "prompt_tokens": np.full(count, PROMPT),
        "cached_tokens": pa.nulls(count),
        "completion_tokens": np.full(count, OUTPUT),
        "requested_tokens": np.full(count, OUTPUT),
        "finish_reason": np.full(count, "length"),
        "status": np.full(count, 200),
        "outcome": np.full(count, "ok"),
        "error": np.full(count, ""),
        "segments": _lists(count, 2, pa.StructArray.from_arrays([pa.array(keys), lengths], names=["key", "tokens"])),
    }
    return pa.table({name: _cast(values[name], SCHEMA.field(name).type) for name in SCHEMA.names}, schema=SCHEMA)


def _lists(count: int, each: int, values: Any) -> Any:
    return pa.ListArray.from_arrays(pa.array(np.arange(0, each * count + 1, each), pa.int32()), values)


def _cast(values: Any, kind: pa.DataType) -> Any:
    return (values if isinstance(values, pa.Array) else pa.array(values)).cast(kind)


def main() -> None:
    """Measures, prints, and says in the exit code whether a million stay within 10 s and 1 GB."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=MILLION, help="requests in the report (default: a million)")
    parser.add_argument("--make", type=Path, metavar="DIR", help="only make the report, below this folder")
    chosen = parser.parse_args()
    if chosen.make is not None:
        make(chosen.samples, chosen.make)
        return
    with tempfile.TemporaryDirectory(prefix="streamproof-million-") as folder:
        took = measure(chosen.samples, Path(folder))
    sys.stdout.write(
        f"{took.samples:,} requests, {took.report_bytes / 1e6:.0f} MB: verified in {took.wall_s:.1f} s "
        f"({took.cpu_s:.1f} s of CPU), at most {took.peak_bytes / 1e9:.2f} GB of memory\n"
    )
    over = took.samples <= MILLION and (took.wall_s > MOST_S or took.peak_bytes > MOST_BYTES)
    sys.exit(Exit.CLAIM_FAILED if over else Exit.OK)


if __name__ == "__main__":
    main()
