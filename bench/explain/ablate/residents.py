"""The engines of an ablation that are started together, once, and stay until it ends."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Final, TypeAlias

from bench.docker_run import DockerRun
from bench.engine.cores import confined, split
from bench.engine.pins import REPOSITORY
from bench.engine.preflight import check_hardware, company_notes, memory_share
from bench.engine.resident import ResidentEngine
from bench.errors import StreamproofError
from bench.load.clock import RunClock
from bench.observe.environment import describe_environment
from bench.plan import Host, engine_kind, plan_run
from bench.process_run import ProcessRun
from bench.report import folder_files as files
from bench.repro import Wishes, reproduce
from bench.resident_run import ResidentRun
from bench.signals import sigterm_is_ctrl_c

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from bench.engine.base import OnProgress, StartProgress
    from bench.engine.own import OwnEngine, RunningOwn
    from bench.plan import RunPlan
    from recipes.schema import Recipe

Say: TypeAlias = "Callable[[str], None]"

_ALL_OF_A_CARD: Final = 1.0


class Residents:
    """Engines that run, by the name of their configuration.

    Args:
        runs: the engines that became ready.
        failed: why the others did not.
        engine: "docker" or "process", as for `just repro`.
        quiet: say nothing but errors.
    """

    def __init__(
        self,
        runs: Mapping[str, ResidentRun],
        failed: Mapping[str, StreamproofError],
        *,
        engine: str | None,
        quiet: bool,
    ) -> None:
        self._runs = runs
        self.failed = failed
        self._engine = engine
        self._quiet = quiet

    def death(self, name: str) -> str | None:
        """How an engine ended, in words; None while it lives."""
        resident = self._runs[name].resident
        return None if resident.alive() else resident.death

    def measure(self, name: str, recipe: Recipe, folder: Path, nonce: str) -> int:
        """Measures a configuration once more, as `just repro` does.

        Args:
            name: of the configuration.
            recipe: of it.
            folder: that the report is made below.
            nonce: makes the prompts differ from those of other blocks.

        Returns:
            The exit code.

        Raises:
            StreamproofError: it could not be done.
        """
        wishes = Wishes(engine=self._engine, resident=self._runs[name])
        return reproduce(recipe, reports=folder, wishes=wishes, quiet=self._quiet, as_json=False, nonce=nonce)


@contextmanager
def residents(
    recipes: Mapping[str, Recipe], folder: Path, *, engine: str | None, quiet: bool, say: Say
) -> Iterator[Residents]:
    """Starts an engine for each recipe, all at once, and stops them at the end.

    Args:
        recipes: by the name of the configuration.
        folder: for their logs, one folder each.
        engine: "docker" or "process", as for `just repro`; None takes what fits.
        quiet: say nothing but errors.
        say: takes a line for whatever takes time.

    Raises:
        StreamproofError: this host will not do, or an engine's packages or image cannot be had. An engine that does not
            start is told by `Residents.failed`.
    """
    with sigterm_is_ctrl_c(), ExitStack() as stack:
        begun = _prepare(recipes, folder, engine=engine, say=say, stack=stack)
        stack.callback(_stop, begun)
        running, failed = _start(begun, say)
        runs: dict[str, ResidentRun] = {}
        for name, ready in running.items():
            one = begun[name]
            runs[name] = ResidentRun(
                ResidentEngine(ready, clock=one.clock.now, log=one.log),
                plan=one.plan,
                gpus=one.host.gpus,
                beside=partial(_others, runs, name),
            )
        yield Residents(runs, failed, engine=engine, quiet=quiet)


def _others(runs: Mapping[str, ResidentRun], name: str) -> int:
    """How many engines live beside this one."""
    return sum(run.resident.alive() for each, run in runs.items() if each != name)


class _StoppedError(Exception):
    """Somebody stopped all starts."""


class _Begun:
    """An engine that can be started.

    Args:
        plan: what it serves.
        host: where.
        folder: for its log.
        make: as `bench.docker_run.DockerRun.engine`.
        tell: takes a line for each stage of its start.
    """

    def __init__(self, *, plan: RunPlan, host: Host, folder: Path, make: Callable[..., OwnEngine], tell: Say) -> None:
        self.plan = plan
        self.host = host
        self.log = folder / files.engine_log(0)
        self.clock = RunClock.start()
        self.stop = threading.Event()
        folder.mkdir(parents=True)
        on_progress = _progress(self.stop, tell)
        self._engine = make(0, plan=plan, folder=folder, clock=self.clock.now, on_progress=on_progress)

    def start(self) -> RunningOwn:
        """Starts it and waits until it is ready."""
        with confined(self.host.cores):
            return self._engine.__enter__()

    def end(self) -> None:
        """Stops it."""
        self._engine.__exit__(None, None, None)


def _prepare(
    recipes: Mapping[str, Recipe], folder: Path, *, engine: str | None, say: Say, stack: ExitStack
) -> dict[str, _Begun]:
    """What every engine needs, before the first one is started: afterwards the card is no longer free."""
    first, *_ = recipes.values()
    machine = describe_environment(REPOSITORY)
    hardware, share = first.hardware, memory_share(first.engine.flags)
    if hardware.kind == "cpu":
        hardware = hardware.model_copy(update={"memory_gib": hardware.memory_gib * len(recipes)})
    elif share is not None:
        share = min(share * len(recipes), _ALL_OF_A_CARD)
    gpus = check_hardware(hardware, machine, share=share)
    for line in company_notes(gpus):
        say(line)
    cores = split(os.sched_getaffinity(0))[0] if hardware.kind == "cpu" else None
    host = Host(machine=machine, gpus=gpus, cores=cores)
    begun = {}
    for name, recipe in recipes.items():
        own: DockerRun | ProcessRun
        digest = None
        if engine_kind(recipe, asked=engine, image=None, base_url=None) == "docker":
            own = stack.enter_context(DockerRun(recipe, image=None, host=host, say=say, terminal=False))
            digest = own.digest
        else:
            own = ProcessRun(recipe, host=host, say=say, terminal=False)
        plan = plan_run(recipe, image_digest=digest)
        own.prepare()
        tell = partial(_tell, say, name)
        begun[name] = _Begun(plan=plan, host=host, folder=folder / name, make=own.engine, tell=tell)
    return begun


def _start(begun: Mapping[str, _Begun], say: Say) -> tuple[dict[str, RunningOwn], dict[str, StreamproofError]]:
    """Starts all at once; (those that are ready, why the others are not)."""
    say(f"starting {len(begun)} engines together: {', '.join(begun)}")
    with ThreadPoolExecutor(len(begun)) as threads:
        starts = {name: threads.submit(each.start) for name, each in begun.items()}
        try:
            wait(starts.values())
        except BaseException:  # Ctrl-C: every thread stops its own engine, and is waited for
            for each in begun.values():
                each.stop.set()
            raise
    running, failed = {}, {}
    for name, start in starts.items():
        error = start.exception()
        if error is None:
            running[name] = start.result()
        elif isinstance(error, StreamproofError):
            failed[name] = error
        else:
            raise error
    return running, failed


def _stop(begun: Mapping[str, _Begun]) -> None:
    with ThreadPoolExecutor(len(begun)) as threads:
        list(threads.map(_Begun.end, begun.values()))


def _progress(stop: threading.Event, tell: Say) -> OnProgress:
    """A line for each stage; ends the start once `stop` is set."""
    last = ""

    def hear(progress: StartProgress) -> None:
        nonlocal last
        if stop.is_set():
            raise _StoppedError
        if progress.stage != last:
            last = progress.stage
            tell(f"{progress.elapsed_s:5.1f} s  {progress.stage}")

    return hear


def _tell(say: Say, name: str, text: str) -> None:
    say(f"  {name}: {text}")
