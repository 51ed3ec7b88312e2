"""`just repro`: from a recipe to a signed report.

One direction: plan, hardware check, report folder, engine environment, then for each run an engine and its ladder of
points, and at the end the report. Whatever ends it early, the folder keeps what was measured, and no process is left.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from pathlib import Path
from types import FrameType
from typing import Final

from rich.console import Console

from bench.bundle.cache_store import caches_home
from bench.bundle.installed import engine_environment, installed_bundle
from bench.display import Display, JsonDisplay, display_for
from bench.engine.base import Engine, RunningEngine
from bench.engine.caches import cache_environment, is_cold, made_with, open_caches, why_cold
from bench.engine.cores import confined, split
from bench.engine.environment import EngineEnvironment, ensure_environment
from bench.engine.external import ExternalEngine
from bench.engine.pins import REPOSITORY
from bench.engine.preflight import check_hardware, device_variables
from bench.engine.process import Launch, ProcessEngine
from bench.errors import StreamproofError
from bench.load.ahead import Ahead
from bench.load.clock import RunClock
from bench.measure import Run, measure
from bench.observe.environment import Client, describe_environment
from bench.observe.observations import Finished
from bench.plan import plan_run
from bench.recorder import Cause, Recorder, RunEnded
from bench.report import folder_files as files
from bench.report.folder import begin, finish
from bench.report.folder_evidence import Provenance
from bench.report.model import Producer, Report
from bench.summary import summary
from bench.turns import PointJob, ahead_of, jobs
from bench.workload.tokens import CheckpointTokenizer
from recipes.command import engine_arguments
from recipes.schema import Recipe

API_KEY: Final = "STREAMPROOF_API_KEY"
"""Environment variable with the bearer token of an external server; a command line would show it to everybody."""


def reproduce(  # noqa: PLR0913  the options of a command
    recipe: Recipe,
    *,
    reports: Path,
    base_url: str | None,
    model: str | None,
    quiet: bool,
    as_json: bool,
    ray: str | None = None,
) -> int:
    """Runs a recipe and leaves a signed report.

    Args:
        recipe: resolved.
        reports: folder of all reports.
        base_url: of a server that is already there; None starts the recipe's engine.
        model: what to ask that server for; None takes the only one there is.
        quiet: say nothing but errors.
        as_json: tell what happens as JSON lines.
        ray: address of a Ray cluster whose hosts send the load; None sends it from here.

    Returns:
        The exit code, see `bench.errors.Exit`.

    Raises:
        StreamproofError: it cannot be done here; nothing was started then.
    """
    display = display_for(quiet=quiet, as_json=as_json)
    try:
        with _sigterm_is_ctrl_c():
            job = _Job(recipe, reports=reports, base_url=base_url, model=model, display=display, ray=ray)
            job.run()
            report = finish(job.folder)
    finally:
        display.close()
    _tell(report, job.folder, display, quiet=quiet)
    return report.exit_code


def finish_folder(folder: Path) -> int:
    """Makes the report of whatever a cut-off run left.

    Returns:
        The exit code.

    Raises:
        StreamproofError: the folder is not that of a run, or cannot be written.
    """
    report = finish(folder)
    Console().print(summary(report, folder))
    return report.exit_code


class _Job:
    """All runs of one recipe into one folder."""

    def __init__(  # noqa: PLR0913  the options of a command
        self,
        recipe: Recipe,
        *,
        reports: Path,
        base_url: str | None,
        model: str | None,
        display: Display,
        ray: str | None,
    ) -> None:
        self._display = display
        self._ray = ray
        machine = self._machine = describe_environment(REPOSITORY)
        self._gpus = () if base_url else check_hardware(recipe.hardware, machine)
        self._plan = plan_run(recipe, external=base_url is not None)
        self._tokenizer = CheckpointTokenizer.from_folder(self._plan.checkpoint.tokenizer)
        # The environment before there is a folder: a failed installation leaves no report.
        self._engine: Callable[[int], Engine] = (
            partial(self._external, base_url, model)
            if base_url
            else partial(self._own, _environment(recipe.engine.lock, display))
        )
        started_at = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
        # A server of somebody else's may remember the prompts of an earlier job; an engine of ours is new.
        self._nonce = started_at if base_url else ""
        provenance = Provenance(
            producer=_producer(machine.client),
            started_at=started_at,
            pinned=self._plan.pinned,
        )
        self.folder = begin(reports, self._plan.recipe, provenance, machine.model_dump(mode="json"))
        self._clock = RunClock.start()
        # An engine on a GPU leaves the CPU to the client; one on the CPU would starve it.
        self._engine_cores: set[int] | None = None
        self._client_cores: set[int] | None = None
        if base_url is None and recipe.hardware.kind == "cpu":
            self._engine_cores, self._client_cores = split(os.sched_getaffinity(0))

    def run(self) -> None:
        """Every run, one engine start each; ends early in good order.

        Raises:
            StreamproofError: the engine could not be started, or refuses the workload; a partial report is left.
        """
        self._display.note(f"{self._plan.recipe.title}")
        self._display.note(f"fingerprint {self._plan.fingerprint[:12]}, report in {self.folder}")
        with Recorder(self.folder) as recorder:
            number = 0
            try:
                for number in range(self._plan.recipe.load.runs):
                    self._one_run(number, recorder)
                recorder.observe(Finished(t=self._clock.now(), run=number))
            except RunEnded as ended:
                recorder.interrupted(ended, t=self._clock.now(), run=number)
            except KeyboardInterrupt:
                recorder.interrupted(RunEnded("user", "stopped by Ctrl-C"), t=self._clock.now(), run=number)
            except Exception as error:
                cause: Cause = "engine" if isinstance(error, StreamproofError) else "client"
                detail = f"{type(error).__name__}: {error}".splitlines()[0]
                recorder.interrupted(RunEnded(cause, detail), t=self._clock.now(), run=number)
                recorder.close()
                finish(self.folder)  # a partial report; the failure itself is what the user must read
                raise

    def _one_run(self, number: int, recorder: Recorder) -> None:
        engine = self._engine(number)
        with ExitStack() as stack:
            running: RunningEngine
            if isinstance(engine, ExternalEngine):  # it says itself what its model is called
                running = stack.enter_context(engine)
                points, ahead = self._turns(number, running.model, stack)
            else:  # the first turns are made while it starts
                points, ahead = self._turns(number, self._plan.recipe.target, stack)
                with confined(self._engine_cores):
                    running = stack.enter_context(engine)
            recorder.observe(running.started)
            stack.enter_context(confined(self._client_cores))
            run = Run(
                plan=self._plan,
                run=number,
                engine=running,
                clock=self._clock,
                recorder=recorder,
                display=self._display,
                points=points,
                ahead=ahead,
                ray=self._ray,
            )
            asyncio.run(measure(run))

    def _turns(self, run: int, model: str, stack: ExitStack) -> tuple[tuple[PointJob, ...], Ahead]:
        """The points of a run, and what makes them ready, on the client's cores."""
        with confined(self._client_cores):
            points = jobs(self._plan, run=run, model=model, nonce=self._nonce)
            return points, stack.enter_context(ahead_of(() if self._ray else points, self._tokenizer))

    def _external(self, base_url: str, model: str | None, number: int) -> Engine:
        key = os.environ.get(API_KEY)
        return ExternalEngine(base_url, model=model, api_key=key, run=number, clock=self._clock.now)

    def _own(self, environment: EngineEnvironment, number: int) -> Engine:
        recipe, checkpoint = self._plan.recipe, self._plan.checkpoint
        launch = Launch(
            environment=environment,
            arguments=lambda port: engine_arguments(recipe, model=checkpoint.model, host="127.0.0.1", port=port),
            model=recipe.target,
            env={**cache_environment(self._caches(environment)), **recipe.engine.env, **device_variables(self._gpus)},
            log=self.folder / files.engine_log(number),
            ready_timeout_s=recipe.engine.ready_timeout_s,
        )
        return ProcessEngine(launch, run=number, clock=self._clock.now, on_progress=self._display.engine)

    def _caches(self, environment: EngineEnvironment) -> Path:
        """Where the engine keeps what it compiles: a folder of this fingerprint, card, driver and package set."""
        here = made_with(
            self._plan.recipe,
            fingerprint=self._plan.fingerprint,
            engine="process",
            machine=self._machine,
            gpus=self._gpus,
            packages=environment.packages_sha256,
            run=f"{self.folder.parent.name}/{self.folder.name}",
        )
        root = caches_home()
        folder = open_caches(root, here)
        if is_cold(folder):
            for line in why_cold(root, here):
                self._display.note(line)
        return folder


@contextmanager
def _sigterm_is_ctrl_c() -> Iterator[None]:
    """SIGTERM ends a run as Ctrl-C does, also while no event loop runs."""

    def stop(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _environment(lock: str, display: Display) -> EngineEnvironment:
    """The engine of the bundle that this client came with, else the one that is installed from the lock."""
    return engine_environment(lock) or ensure_environment(lock, say=display.note, terminal=display.is_live)


def _producer(client: Client) -> Producer:
    bundle = installed_bundle()
    if bundle is not None:  # made from a commit, without anything uncommitted; there is no checkout to ask
        return Producer(name="streamproof", version=version("streamproof"), commit=bundle.commit, dirty=False)
    return Producer(name="streamproof", version=version("streamproof"), commit=client.commit, dirty=client.dirty)


def _tell(report: Report, folder: Path, display: Display, *, quiet: bool) -> None:
    """The outcome, in the form that was asked for."""
    if isinstance(display, JsonDisplay):
        verdicts = {claim.id: claim.verdict for claim in report.claims}
        outcome = {"event": "report", "folder": str(folder), "valid": report.valid, "exit_code": report.exit_code}
        sys.stdout.write(json.dumps({**outcome, "partial": report.partial, "verdicts": verdicts}) + "\n")
    elif not quiet:
        Console().print(summary(report, folder))
