from __future__ import annotations

import http.client
import os
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Self
from urllib.parse import urlsplit

import psutil
import pytest

from bench.engine import process as process_module
from bench.engine.caches import cache_environment
from bench.engine.compiled import NOT_NAMED, Look, Since, could_not
from bench.engine.environment import EngineEnvironment
from bench.engine.own import HOST, RunningOwn, describe_exit
from bench.engine.process import Launch, ProcessBody, ProcessEngine
from bench.errors import StreamproofError, UsageError
from bench.observe.observations import OBSERVATION
from bench.observe.wall_clock import TICK_S

if TYPE_CHECKING:
    from bench.engine.base import OnProgress, RunningEngine, StartProgress
    from bench.engine.guarded import GuardedProcess


def arguments(port: int) -> list[str]:
    return ["--port", str(port), "--served-model-name", "toy"]


@pytest.fixture
def launch(tmp_path: Path) -> Launch:
    environment = EngineEnvironment(
        name="stand-in",
        python=Path(sys.executable),
        module="standin_server",
        env={"PYTHONPATH": str(Path(__file__).parent), "STANDIN": "serve"},
        packages_sha256="ab" * 32,
    )
    return Launch(
        environment=environment,
        arguments=arguments,
        model="toy",
        env={"HOME": str(tmp_path)},
        log=tmp_path / "engine-0.log",
        ready_timeout_s=60.0,
    )


def doing(launch: Launch, what: str) -> Launch:
    return replace(launch, env={**launch.env, "STANDIN": what})


def engine(launch: Launch) -> ProcessEngine:
    return ProcessEngine(launch, run=2, clock=time.monotonic)


def guarded(running: RunningOwn) -> GuardedProcess:
    assert isinstance(running.body, ProcessBody)
    return running.body.process


def family(running: RunningOwn) -> list[psutil.Process]:
    guard = psutil.Process(guarded(running)._guard.pid)
    return [guard, *guard.children(recursive=True)]


def gone(processes: list[psutil.Process]) -> bool:
    return not psutil.wait_procs(processes, timeout=60)[1]


def test_an_engine_is_ready_inside_the_context_and_gone_after_it(launch: Launch) -> None:
    seen: list[StartProgress] = []
    with ProcessEngine(launch, run=2, clock=time.monotonic, on_progress=seen.append) as running:
        interface: RunningEngine = running
        assert interface.alive()
        assert interface.model == "toy"
        (server,) = interface.servers
        assert server.api_key is None
        processes = family(running)
        assert len(processes) == 3  # two guards and the engine
        url = urlsplit(server.base_url)
        assert (url.scheme, url.hostname, url.path) == ("http", HOST, "")
    assert gone(processes)
    assert not running.alive()
    assert [event.event for event in running.events() if event.event != "warning"] == []
    assert seen[0].stage == "importing the engine"
    assert seen[-1].stage == "ready"
    assert seen[-1].elapsed_s > 0.0


def test_what_it_compiles_is_seen_where_it_was_told_to_keep_it(launch: Launch, tmp_path: Path) -> None:
    caches = cache_environment(tmp_path / "caches")
    with engine(replace(launch, env={**launch.env, **caches})) as running:
        interface: RunningEngine = running
        before = time.time()
        assert interface.compiled_since(Since(written=before - 60.0, first=before)) == [Look(count=0)]
        kernel = tmp_path / "caches/vllm/deep_gemm/cache/kernel.a/kernel.cu"
        kernel.parent.mkdir(parents=True)
        kernel.write_text("__global__ void a();")
        (look,) = interface.compiled_since(Since(written=before - TICK_S, first=before))
        assert [(cache, path) for _, cache, path in look.files] == [("deep_gemm", "cache/kernel.a/kernel.cu")]
        assert before - TICK_S <= look.files[0][0] <= time.time()
        assert interface.compiled_since(Since(written=before + 60.0, first=before)) == [Look(count=0)]


def test_what_it_compiles_into_folders_of_everybody_is_not_looked_for(launch: Launch) -> None:
    with engine(launch) as running:
        assert running.compiled_since(Since(written=0.0, first=0.0)) == [could_not(NOT_NAMED)]


def test_what_is_known_of_it(launch: Launch) -> None:
    with engine(launch) as running:
        started = running.started
    assert OBSERVATION.validate_json(started.model_dump_json()) == started
    assert (started.run, started.kind_of_engine, started.version) == (2, "process", "0.26.0")
    assert (started.model, started.max_model_len, started.block_size) == ("toy", 4096, 640)
    assert started.prefix_caching is True
    assert started.cold is True
    assert started.packages_sha256 == "ab" * 32
    assert started.argv is not None
    assert started.argv[:3] == (sys.executable, "-m", "standin_server")
    assert started.ready_s is not None
    assert [stage.name for stage in started.stages][-1] == "server-start"
    assert all(stage.end_s <= started.ready_s for stage in started.stages)


def test_the_log_is_kept(launch: Launch) -> None:
    launch.log.write_text("an earlier line\n")
    with engine(launch):
        pass
    text = launch.log.read_text()
    assert text.startswith("an earlier line\n")
    assert "Application startup complete" in text


def test_a_start_that_fails_says_at_which_stage_and_why(launch: Launch) -> None:
    with pytest.raises(StreamproofError) as caught, engine(doing(launch, "die")):
        pass
    first, *rest = caught.value.message.splitlines()
    assert first == "the engine died while loading weights: it ended with status 1: ValueError: no such tensor"
    assert rest[-1].strip() == "(EngineCore pid=2) ERROR 11-29 22:33:43 [core.py:1330] ValueError: no such tensor"
    assert str(launch.log) in caught.value.remedy


def test_a_flag_that_the_engine_refuses(launch: Launch) -> None:
    with pytest.raises(StreamproofError, match=r"api_server.py: error: unrecognized arguments: --nope"):
        engine(doing(launch, "refuse")).__enter__()


def test_a_program_that_is_not_there(launch: Launch) -> None:
    missing = replace(launch, environment=replace(launch.environment, python=Path("/absent/python")))
    with pytest.raises(StreamproofError, match=r"status 127\n.*/absent/python: No such file or directory"):
        engine(missing).__enter__()


def test_a_start_that_takes_too_long_says_where_it_stands_and_leaves_nothing(
    launch: Launch, monkeypatch: pytest.MonkeyPatch
) -> None:
    running: list[RunningOwn] = []
    original = RunningOwn.wait_until_ready

    def remember(self: RunningOwn, on_progress: OnProgress) -> None:
        running.append(self)
        original(self, on_progress)

    monkeypatch.setattr(RunningOwn, "wait_until_ready", remember)
    now = [0.0]

    def clock() -> float:  # a minute passes once the stand-in stands at the stage at which it hangs
        if launch.log.exists() and "Starting to load model" in launch.log.read_text():
            now[0] += 60.0
        return now[0]

    hanging = replace(doing(launch, "hang"), ready_timeout_s=300.0)
    with pytest.raises(StreamproofError) as caught:
        ProcessEngine(hanging, run=0, clock=clock).__enter__()
    assert caught.value.message.startswith("the engine was not ready after 300 s; it was loading weights\n")
    assert "Starting to load model" in caught.value.message
    assert "ready_timeout_s" in caught.value.remedy
    assert guarded(running[0]).poll() is not None


def test_a_server_that_serves_another_model_is_refused_and_stopped(launch: Launch) -> None:
    with pytest.raises(UsageError) as caught, engine(doing(launch, "mislabel")):
        pass
    assert 'does not serve a model called "toy"' in caught.value.message
    assert caught.value.remedy == "It serves: another."


def test_a_death_while_serving_is_the_last_event_and_names_the_cause(launch: Launch) -> None:
    with engine(doing(launch, "perish")) as running:
        running.events()
        url = urlsplit(running.base_url)
        connection = http.client.HTTPConnection(HOST, url.port or 0)
        connection.request("POST", "/v1/completions", body=b"{}")
        with pytest.raises((http.client.HTTPException, ConnectionError)):  # closed or reset, as the kernel has it
            connection.getresponse()
        connection.close()
        guarded(running)._guard.wait()
        events = running.events()
        assert not running.alive()
    assert [event.event for event in events if event.event != "warning"][-1] == "died"
    assert events[-1].line == "it ended with status 1: RuntimeError: Input tensor dtype mismatch"
    assert {event.event for event in events[:-1]} == {"error", "warning"}
    assert running.events() == []


def test_an_engine_killed_by_somebody_else(launch: Launch) -> None:
    with engine(launch) as running:
        processes = family(running)
        processes[-1].kill()
        guarded(running)._guard.wait()
        assert running.events()[-1].line == "it was killed by SIGKILL"
    assert gone(processes)


def test_an_engine_that_does_not_stop_is_killed(launch: Launch, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_module, "GRACE_S", 0.2)
    with engine(doing(launch, "stubborn")) as running:
        processes = family(running)
    assert gone(processes)
    assert running.events()[-1].event != "died"  # we wanted it to end


def test_an_interrupt_during_the_start_leaves_nothing(launch: Launch) -> None:
    processes: list[psutil.Process] = []
    starting = ProcessEngine(doing(launch, "hang"), run=0, clock=time.monotonic, on_progress=lambda _: interrupt())

    def interrupt() -> None:
        assert starting._running is not None
        processes.extend(family(starting._running))
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), starting:
        pass
    assert processes
    assert gone(processes)


def test_a_folder_that_cannot_be_written(launch: Launch, tmp_path: Path) -> None:
    unwritable = replace(launch, log=tmp_path / "absent" / "engine.log")
    with pytest.raises(StreamproofError, match=r"cannot be started: .*absent/engine.log: No such file"):
        engine(unwritable).__enter__()


def test_no_process_can_be_made(launch: Launch, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(11, os.strerror(11))

    monkeypatch.setattr(process_module, "GuardedProcess", refuse)
    with pytest.raises(StreamproofError, match="Resource temporarily unavailable"):
        engine(launch).__enter__()


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (0, "it ended with status 0"),
        (127, "it ended with status 127"),
        (137, "it was killed by SIGKILL"),
        (-9, "it was killed by SIGKILL"),
        (255, "it ended with status 255"),
    ],
)
def test_exit_statuses_in_words(status: int, words: str) -> None:
    assert describe_exit(status) == words


def test_no_port_is_given_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """To an engine that does not listen yet, and to the replica that starts beside it."""
    offered = iter([4001, 4001, 4001, 4002])

    class Kernel:
        def __enter__(self) -> Self:
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def bind(self, _: object) -> None:
            pass

        def getsockname(self) -> tuple[str, int]:
            return HOST, next(offered)

    monkeypatch.setattr("socket.socket", Kernel)
    monkeypatch.setattr(process_module, "_given", set())
    assert [process_module.free_port(), process_module.free_port()] == [4001, 4002]
