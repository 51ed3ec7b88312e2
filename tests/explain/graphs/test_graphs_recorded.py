"""From an engine's log to the observations of a run."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from bench import measure
from bench.engine.environment import EngineEnvironment
from bench.engine.process import Launch, ProcessEngine
from bench.observe.observations import OBSERVATION, GraphTable, Observation

ENGINE_TESTS = Path(__file__).parents[2] / "engine"
PRINTED = Path(__file__).with_name("printed_by_vllm.log")


def test_a_running_engine_hands_its_tables_on_once(tmp_path: Path) -> None:
    environment = EngineEnvironment(
        name="stand-in",
        python=Path(sys.executable),
        module="standin_server",
        env={"PYTHONPATH": str(ENGINE_TESTS), "STANDIN": "serve"},
        packages_sha256="ab" * 32,
    )
    launch = Launch(
        environment=environment,
        arguments=lambda port: ["--port", str(port), "--served-model-name", "toy"],
        model="toy",
        env={"HOME": str(tmp_path)},
        log=tmp_path / "engine-0.log",
        ready_timeout_s=60.0,
    )
    with ProcessEngine(launch, run=2, clock=time.monotonic) as running, launch.log.open("ab") as log:
        log.write(PRINTED.read_bytes())
    tables = running.graph_tables()
    assert [(table.run, len(table.steps)) for table in tables] == [(2, 10), (2, 3)]
    assert all(OBSERVATION.validate_json(table.model_dump_json()) == table for table in tables)
    assert running.graph_tables() == []


def test_a_run_records_them() -> None:
    table = GraphTable(t=1.0, run=0, mode="NONE", capture_sizes=(), steps=())
    seen: list[Observation] = []
    run: Any = SimpleNamespace(
        engine=SimpleNamespace(events=list, graph_tables=lambda: [table]), recorder=SimpleNamespace(observe=seen.append)
    )
    sampler: Any = SimpleNamespace(take=list)
    assert measure._record_news(run, sampler) is None
    assert seen == [table]
