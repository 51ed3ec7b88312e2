"""Replicas against stand-ins for the real server: started, watched and stopped as one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from bench.engine.caches import cache_environment
from bench.engine.compiled import Since
from bench.engine.cores import divide
from bench.engine.environment import EngineEnvironment
from bench.engine.process import Launch, ProcessEngine
from bench.engine.replicas import Replica, ReplicatedEngine, started_of
from bench.errors import StreamproofError, UsageError
from bench.observe.observations import OBSERVATION, EngineEvent
from tests.report.factories import make_started

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.engine.base import OnProgress, RunningEngine, StartProgress

HERE = Path(__file__).parent


def replicas(folder: Path, *what: str, warm: bool = False, caches: Sequence[str] = ()) -> list[Replica]:
    """Stand-ins that do what they are told, and keep compiled code in folders of these names."""
    if warm:
        cache = folder / ".cache" / "vllm" / "torch_compile_cache"
        cache.mkdir(parents=True)
        (cache / "compiled").touch()

    def replica(number: int, word: str) -> Replica:
        environment = EngineEnvironment(
            name="stand-in",
            python=Path(sys.executable),
            module="standin_server",
            env={"PYTHONPATH": str(HERE), "STANDIN": word},
            packages_sha256="ab" * 32,
        )
        launch = Launch(
            environment=environment,
            arguments=lambda port: ["--port", str(port), "--served-model-name", "toy"],
            model="toy",
            env={"HOME": str(folder), **(cache_environment(folder / caches[number]) if caches else {})},
            log=folder / f"replica-{number}.log",
            ready_timeout_s=60.0,
        )

        def make(on_progress: OnProgress) -> ProcessEngine:
            return ProcessEngine(launch, run=2, clock=time.monotonic, on_progress=on_progress)

        return Replica(make=make, gpus=(f"GPU-{number}",), cores={min(os.sched_getaffinity(0))})

    return [replica(number, word) for number, word in enumerate(what)]


def engines(folder: Path) -> dict[int, list[psutil.Process]]:
    """The processes that write the logs below a folder, by their replica."""
    found: dict[int, list[psutil.Process]] = {}
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            logs = {Path(file.path) for file in process.open_files() if Path(file.path).parent == folder}
            for log in logs if process.pid != os.getpid() else ():
                found.setdefault(int(log.stem.removeprefix("replica-")), []).append(process)
    return found


def test_they_are_one_engine_with_a_server_each(tmp_path: Path) -> None:
    seen: list[StartProgress] = []
    with ReplicatedEngine(replicas(tmp_path, "serve", "serve"), clock=time.monotonic, on_progress=seen.append) as all_:
        interface: RunningEngine = all_
        assert interface.alive()
        assert interface.model == "toy"
        assert len({server.base_url for server in interface.servers}) == 2
        started = interface.started
        assert OBSERVATION.validate_json(started.model_dump_json()) == started
        assert (started.run, started.block_size, started.stages, started.cold) == (2, 640, (), True)
        assert [one.gpus for one in started.replicas] == [("GPU-0",), ("GPU-1",)]
        (core,) = {one.cores for one in started.replicas}
        assert core == (min(os.sched_getaffinity(0)),)
        alive = engines(tmp_path)
        assert {number: len(family) for number, family in alive.items()} == {0: 3, 1: 3}  # two guards and the engine
        assert all(set(process.cpu_affinity()) == set(core) for family in alive.values() for process in family)
        assert {event.replica for event in interface.events()} == {0, 1}
    assert engines(tmp_path) == {}
    assert [event.event for event in interface.events() if event.event != "warning"] == []
    assert (seen[-1].stage, seen[0].stage) == ("ready", "replica 0: importing the engine")


@pytest.mark.parametrize(
    ("caches", "told"),
    [(["shared", "shared"], [(None, 1)]), (["first", "shared"], [(0, 0), (1, 1)])],
    ids=["one-folder", "a-folder-each"],
)
def test_what_they_compile_is_told_once_for_each_folder(
    tmp_path: Path, caches: list[str], told: list[tuple[int | None, int]]
) -> None:
    cubin = tmp_path / "shared/triton/ABC/moe.cubin"
    cubin.parent.mkdir(parents=True)
    cubin.write_text("x")
    engine = ReplicatedEngine(replicas(tmp_path, "serve", "serve", warm=True, caches=caches), clock=time.monotonic)
    with engine as running:
        looks = running.compiled_since(Since(written=0.0, first=0.0))
    assert [(look.replica, look.count) for look in looks] == told


@pytest.mark.parametrize(("warm", "begun"), [(False, [0]), (True, [0, 1])], ids=["cold", "warm"])
def test_where_nothing_is_compiled_the_first_one_starts_alone(tmp_path: Path, *, warm: bool, begun: list[int]) -> None:
    looks = 0

    def interrupt(_: StartProgress) -> None:
        nonlocal looks
        looks += len(engines(tmp_path)) == len(begun)
        if looks == 3:
            raise KeyboardInterrupt

    engine = ReplicatedEngine(
        replicas(tmp_path, "hang", "hang", warm=warm), clock=time.monotonic, on_progress=interrupt
    )
    with pytest.raises(KeyboardInterrupt), engine:
        pass
    assert sorted(int(log.stem.removeprefix("replica-")) for log in tmp_path.glob("*.log")) == begun
    assert engines(tmp_path) == {}  # Ctrl-C in the middle of a start leaves nothing


@pytest.mark.parametrize(
    ("what", "kind", "says"),
    [
        (
            ("serve", "die"),
            StreamproofError,
            "replica 1: the engine died while loading weights: it ended with status 1",
        ),
        (("serve", "mislabel"), UsageError, "replica 1: "),
        (("die", "hang"), StreamproofError, "replica 0: the engine died"),
    ],
)
def test_one_that_fails_is_named_and_ends_all(
    tmp_path: Path, what: tuple[str, ...], kind: type[StreamproofError], says: str
) -> None:
    engine = ReplicatedEngine(replicas(tmp_path, *what, warm=True), clock=time.monotonic)
    with pytest.raises(kind) as caught, engine:
        pass
    assert caught.value.message.startswith(says)
    assert caught.value.remedy
    assert engines(tmp_path) == {}


def test_the_death_of_one_is_told_with_its_number(tmp_path: Path) -> None:
    with ReplicatedEngine(replicas(tmp_path, "serve", "serve", warm=True), clock=time.monotonic) as running:
        youngest = max(engines(tmp_path)[1], key=lambda process: process.create_time())
        youngest.kill()
        psutil.wait_procs([youngest], timeout=20)
        deaths: list[EngineEvent] = []
        deadline = time.monotonic() + 20
        while not deaths and time.monotonic() < deadline:
            deaths = [event for event in running.events() if event.event == "died"]
        assert [(death.replica, death.line) for death in deaths] == [(1, "it was killed by SIGKILL")]
        assert not running.alive()
    assert engines(tmp_path) == {}


CHILD = """
import pathlib, signal, sys, time
from bench.engine.replicas import ReplicatedEngine
from tests.engine.test_replicas import replicas
with ReplicatedEngine(replicas(pathlib.Path(sys.argv[1]), "serve", "serve", warm=True), clock=time.monotonic):
    print("ready", flush=True)
    signal.pause()
"""


def test_a_killed_client_takes_all_of_them_with_it(tmp_path: Path) -> None:
    root = HERE.parents[1]
    client = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(tmp_path)],
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root)},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert client.stdout is not None
        assert client.stdout.readline() == "ready\n"
        found = engines(tmp_path)
    finally:
        client.send_signal(signal.SIGKILL)
        client.communicate()
    left = [process for family in found.values() for process in family if process.pid != client.pid]
    assert len(left) == 6
    assert psutil.wait_procs(left, timeout=30)[1] == []


@pytest.mark.parametrize(
    ("cores", "engines_", "shares"),
    [
        ({0, 1, 2, 3}, 2, [{0, 1}, {2, 3}]),
        ({4, 2, 7, 5, 9}, 2, [{2, 4}, {5, 7}]),  # the same for each
        ({3}, 2, [{3}, {3}]),
    ],
)
def test_cores_are_divided(cores: set[int], engines_: int, shares: list[set[int]]) -> None:
    assert divide(cores, engines_) == shares


def test_what_they_do_not_agree_on_is_not_known() -> None:
    running: list[Any] = [
        type("Running", (), {"started": make_started(block_size=size, cold=cold)})
        for size, cold in ((16, False), (32, None))
    ]
    parts = [Replica(make=None, gpus=(), cores=None)] * 2  # type: ignore[arg-type]
    found = started_of(parts, running, t=3.0, ready_s=2.0)
    assert (found.block_size, found.cold, found.t, found.ready_s) == (None, None, 3.0, 2.0)
    assert found.prefix_caching is True
