"""An engine that is lent to one run after another, against a stand-in for the real server."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from bench.engine.caches import cache_environment
from bench.engine.compiled import Since
from bench.engine.environment import EngineEnvironment
from bench.engine.own import RunningOwn
from bench.engine.process import Launch, ProcessBody, ProcessEngine
from bench.engine.resident import ResidentEngine
from bench.errors import StreamproofError
from bench.load.clock import RunClock
from bench.observe.observations import OBSERVATION
from bench.observe.wall_clock import TICK_S, WallClock

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench.engine.base import RunningEngine

JIT = "INFO 11-30 02:49:01 [jit_monitor.py:10] Triton kernel JIT compilation during inference: fused_moe_kernel."


@pytest.fixture
def resident(tmp_path: Path) -> Iterator[ResidentEngine]:
    environment = EngineEnvironment(
        name="stand-in",
        python=Path(sys.executable),
        module="standin_server",
        env={"PYTHONPATH": str(Path(__file__).parent), "STANDIN": "serve"},
        packages_sha256="ab" * 32,
    )
    launch = Launch(
        environment=environment,
        arguments=lambda port: ["--port", str(port), "--served-model-name", "toy"],
        model="toy",
        env={"HOME": str(tmp_path), **cache_environment(tmp_path / "caches")},
        log=tmp_path / "resident.log",
        ready_timeout_s=60.0,
    )
    clock = RunClock.start()
    with ProcessEngine(launch, run=0, clock=clock.now) as running:
        yield ResidentEngine(running, clock=clock.now, log=launch.log)


def writes(resident: ResidentEngine, line: str) -> None:
    """As if the engine wrote a line, which is read at once."""
    with resident.log.open("a") as log:
        log.write(f"{line}\n")
    resident.running._follower.catch_up()


def test_each_run_is_told_of_the_start_and_of_itself(resident: ResidentEngine, tmp_path: Path) -> None:
    of_start = [event.line for event in resident.of_start]
    assert of_start
    writes(resident, JIT.replace("fused", "first"))  # before any run
    seen: list[list[str]] = []
    for number in (1, 2):
        clock = RunClock.start()
        lent = resident.lend(run=0, clock=clock.now, log=tmp_path / f"engine-{number}.log", beside=2)
        with lent as running:
            interface: RunningEngine = running
            started = interface.started
            assert OBSERVATION.validate_json(started.model_dump_json()) == started
            assert started.resident is not None
            assert (started.resident.measurement, started.resident.beside) == (number, 2)
            assert started.resident.start == resident.start
            assert started.t == pytest.approx(clock.now(), abs=1.0)
            writes(resident, JIT.replace("fused", f"of{number}"))
            news = interface.events()
            assert interface.events() == []
            seen.append([event.line for event in news])
            # Events of the start lie before the run, those of the run within it.
            assert all(event.t < 0 for event in news[: len(of_start)])
            assert 0 <= news[-1].t <= clock.now()
            assert news[-1].line_number == len(resident.log.read_text().splitlines())
            assert interface.alive()
            assert interface.model == "toy"
        writes(resident, JIT.replace("fused", "between"))
    assert [line[len(of_start) :] for line in seen] == [
        [JIT.replace("fused", "of1")],
        [JIT.replace("fused", "of2")],
    ]
    assert resident.alive()
    first, second = ((tmp_path / f"engine-{number}.log").read_text() for number in (1, 2))
    assert first.endswith(JIT.replace("fused", "of1") + "\n")
    assert second.startswith(first)
    assert second.endswith(JIT.replace("fused", "of2") + "\n")


def test_a_table_of_graphs_is_the_runs_own(resident: ResidentEngine, tmp_path: Path) -> None:
    prefix = "INFO 11-30 02:49:01 [cuda_graph.py:123]"
    table = [
        f"{prefix} **CUDAGraph Config Settings:**",
        f"{prefix} - Mode: FULL",
        f"{prefix} - Capture sizes: [5]",
        f"{prefix} | 5 | 5 | 0 | FULL | 8 |",
        f"{prefix} ",
    ]
    writes(resident, "\n".join(table))
    with resident.lend(run=3, clock=time.monotonic, log=tmp_path / "engine-3.log", beside=0) as running:
        assert running.graph_tables() == []
        writes(resident, "\n".join(table))
        (found,) = running.graph_tables()
        assert (found.run, found.steps[0].count) == (3, 8)
        assert found.t == pytest.approx(time.monotonic(), abs=1.0)


def test_only_what_was_compiled_since_a_runs_point_began_is_its_own(resident: ResidentEngine, tmp_path: Path) -> None:
    folder = tmp_path / "caches" / "triton"
    folder.mkdir(parents=True)
    (folder / "of_a_run_before").write_text("x")
    os.utime(folder / "of_a_run_before", (time.time() - 5.0,) * 2)
    clock = RunClock.start()
    with resident.lend(run=0, clock=clock.now, log=tmp_path / "engine-0.log", beside=0) as running:
        began = WallClock.read(clock.now).of(0.0) - TICK_S
        (folder / "of_this_run").write_text("x")
        (look,) = running.compiled_since(Since(written=began, first=began))
    assert [path for _, _, path in look.files] == ["of_this_run"]


def test_an_engine_that_died_is_told_in_its_run_and_refused_to_the_next(
    resident: ResidentEngine, tmp_path: Path
) -> None:
    running = resident.running
    assert isinstance(running, RunningOwn)
    assert isinstance(running.body, ProcessBody)
    with resident.lend(run=0, clock=time.monotonic, log=tmp_path / "engine-0.log", beside=0) as lent:
        psutil.Process(running.body.process._guard.pid).children(recursive=True)[-1].kill()
        running.body.process._guard.wait()
        assert not lent.alive()
        assert lent.events()[-1].line == "it was killed by SIGKILL"
    assert resident.death == "it was killed by SIGKILL"
    with pytest.raises(StreamproofError, match="is gone: it was killed by SIGKILL") as refused:
        resident.lend(run=0, clock=time.monotonic, log=tmp_path / "engine-1.log", beside=0).__enter__()
    assert str(resident.log) in refused.value.remedy


def test_a_log_that_cannot_be_copied_ends_nothing(resident: ResidentEngine, tmp_path: Path) -> None:
    with resident.lend(run=0, clock=time.monotonic, log=tmp_path / "absent" / "engine-0.log", beside=0):
        pass
    assert resident.alive()
