"""A former release's report, made from a real run without starting an engine again."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import tomli_w

from bench.report import folder_files as files
from bench.report.table import SCHEMA

STARTS = 3
KEYS_APART = 10**15


def three_starts_of(run: Path, folder: Path) -> Path:
    """The same run three times, one after the other: as if the engine had been started as often.

    A regression can be told from chance only where one side has several starts. `just finish` makes and signs the
    report.

    Args:
        run: folder of a report of one engine start.
        folder: to make.
    """
    folder.mkdir()
    for name in (files.ENVIRONMENT, files.engine_log(0)):
        (folder / name).write_bytes((run / name).read_bytes())
    recipe = tomllib.loads((run / files.RECIPE).read_text())
    recipe["load"]["runs"] = STARTS
    (folder / files.RECIPE).write_text(tomli_w.dumps(recipe))
    seen = [json.loads(line) for line in (run / files.OBSERVATIONS).read_text().splitlines()]
    length = max(each["t"] for each in seen) + 10
    *within, finished = seen
    assert finished["kind"] == "finished"
    again = [{**each, "t": each["t"] + length * start, "run": start} for start in range(STARTS) for each in within] + [
        {**finished, "t": finished["t"] + length * (STARTS - 1), "run": STARTS - 1}
    ]
    (folder / files.OBSERVATIONS).write_text("".join(f"{json.dumps(each)}\n" for each in again))
    records = pq.read_table(run / files.RECORDS)
    shifted = [_shifted(records, start, length * start) for start in range(STARTS)]
    pq.write_table(pa.concat_tables(shifted), folder / files.RECORDS)
    return folder


def _shifted(records: pa.Table, start: int, by_s: float) -> pa.Table:
    columns: dict[str, Any] = {name: records.column(name) for name in SCHEMA.names}
    columns["run"] = pa.array([start] * records.num_rows, pa.int32())
    for name in SCHEMA.names:
        if name.endswith("_s") and name != "chunk_s":
            columns[name] = pc.add(columns[name], by_s)
    # Prompts never repeat between engine starts: their parts get other keys.
    prompts: list[Any] = records.column("segments").to_pylist()
    columns["segments"] = pa.array(
        [[{**part, "key": part["key"] + start * KEYS_APART} for part in prompt] for prompt in prompts],
        SCHEMA.field("segments").type,
    )
    return pa.table(columns, schema=SCHEMA)
