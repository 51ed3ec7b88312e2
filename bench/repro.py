"""`just repro`: from a recipe to a signed report.

One direction: plan, hardware check, report folder, engine environment, then for each run an engine and its ladder of
points, and at the end the report. Whatever ends it early, the folder keeps what was measured, and no process is left.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rich.console import Console

from bench.bundle.installed import installed_bundle
from bench.display import Display, JsonDisplay, display_for
from bench.docker_run import DockerRun
from bench.engine.base import Engine, RunningEngine
from bench.engine.cores import confined, split
from bench.engine.external import ExternalEngine
from bench.engine.pins import REPOSITORY
from bench.engine.preflight import check_hardware, company_notes, memory_share
from bench.engine.replicas import Replica, ReplicatedEngine
from bench.errors import StreamproofError
from bench.explain.preflight.note import lasting_hits, plan_notes
from bench.explain.search.course import SearchCourse
from bench.explain.search.question import Question
from bench.load.clock import RunClock
from bench.measure import Course, Run, measure
from bench.observe.environment import Client, Environment, describe_environment
from bench.observe.gpu import Gpu
from bench.observe.lasting import LastingHits
from bench.observe.observations import Finished, SearchAsked
from bench.plan import Host, Share, engine_kind, plan_run
from bench.probe_prompts import probe_of
from bench.process_run import ProcessRun
from bench.recorder import Cause, Recorder, RunEnded
from bench.report.folder import begin, finish
from bench.report.folder_evidence import Provenance
from bench.report.model import Producer, Report
from bench.report.trust.choose import attester, can_sign
from bench.report.trust.means import Means
from bench.resident_run import ResidentRun
from bench.signals import sigterm_is_ctrl_c
from bench.summary import summary
from bench.turns import Ladder, ahead_of, jobs
from bench.workload.tokens import CheckpointTokenizer
from recipes.schema import Recipe

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench.engine.base import OnProgress
    from bench.engine.own import OwnEngine

API_KEY: Final = "STREAMPROOF_API_KEY"
"""Environment variable with the bearer token of an external server; a command line would show it to everybody."""


@dataclass(frozen=True, kw_only=True)
class Wishes:
    """Who shall answer, as the command line says it.

    Attributes:
        engine: "docker" or "process"; None takes what fits the recipe.
        image: of a container, given by hand; None takes the target's own.
        base_url: of a server that is already there; None starts the recipe's engine.
        model: what to ask that server for; None takes the only one there is.
        resident: an engine of ours that runs already, and goes on afterwards.
    """

    engine: str | None = None
    image: str | None = None
    base_url: str | None = None
    model: str | None = None
    resident: ResidentRun | None = None


def reproduce(  # noqa: PLR0913  the options of a command
    recipe: Recipe,
    *,
    reports: Path,
    wishes: Wishes,
    quiet: bool,
    as_json: bool,
    ray: str | None = None,
    questions: tuple[Question, ...] = (),
    nonce: str = "",
    means: Means = Means.KEY,
) -> int:
    """Runs a recipe and leaves a signed report.

    Args:
        recipe: resolved.
        reports: folder of all reports.
        wishes: who shall answer.
        quiet: say nothing but errors.
        as_json: tell what happens as JSON lines.
        ray: address of a Ray cluster whose hosts send the load; None sends it from here.
        questions: a search takes the place of the recipe's ladder, with one engine start.
        nonce: makes the prompts differ from those of another run of the same recipe.
        means: what signs the report.

    Returns:
        The exit code, see `bench.errors.Exit`.

    Raises:
        StreamproofError: it cannot be done here; nothing was started then.
    """
    display = display_for(quiet=quiet, as_json=as_json)
    try:
        can_sign(means, display.note)
        with sigterm_is_ctrl_c(), ExitStack() as stack:
            job = _Job(
                recipe,
                reports=reports,
                wishes=wishes,
                display=display,
                ray=ray,
                questions=questions,
                nonce=nonce,
                stack=stack,
            )
            job.run()
            report = finish(job.folder, signer=stack.enter_context(attester(means, display.note)))
    finally:
        display.close()
    _tell(report, job.folder, display, quiet=quiet)
    return report.exit_code


def finish_folder(folder: Path, means: Means = Means.KEY) -> int:
    """Makes the report of whatever a cut-off run left.

    Args:
        folder: of the run.
        means: what signs it.

    Returns:
        The exit code.

    Raises:
        StreamproofError: the folder is not that of a run, or cannot be written.
    """
    console = Console()

    def say(line: str) -> None:
        console.print(line, highlight=False, markup=False)

    can_sign(means, say)
    with attester(means, say) as signer:
        report = finish(folder, signer=signer)
    console.print(summary(report, folder))
    return report.exit_code


class _Job:
    """All runs of one recipe into one folder."""

    def __init__(  # noqa: PLR0913  the options of a command
        self,
        recipe: Recipe,
        *,
        reports: Path,
        wishes: Wishes,
        display: Display,
        ray: str | None,
        questions: tuple[Question, ...],
        nonce: str,
        stack: ExitStack,
    ) -> None:
        self._display = display
        self._ray = ray
        self._questions = questions
        self._wishes = wishes
        kind = engine_kind(recipe, asked=wishes.engine, image=wishes.image, base_url=wishes.base_url)
        machine = describe_environment(REPOSITORY)
        gpus = () if kind == "external" else self._cards(recipe, machine)
        self._gpus = None if kind == "external" else frozenset(gpu.uuid for gpu in gpus)
        if self._gpus is not None:  # the report is about these cards, and no others, as they are now
            mine = tuple(gpu for gpu in machine.gpus if gpu.uuid in self._gpus)
            machine = machine.model_copy(update={"gpus": mine})
        # An engine on a GPU leaves the CPU to the client; one on the CPU would starve it.
        self._engine_cores: set[int] | None = None
        self._client_cores: set[int] | None = None
        if kind != "external" and recipe.hardware.kind == "cpu":
            self._engine_cores, self._client_cores = split(os.sched_getaffinity(0))
        host = self._host = Host(machine=machine, gpus=gpus, cores=self._engine_cores)
        # From here on the questions become dearer, and before the folder they leave no report when they fail.
        self._own: DockerRun | ProcessRun | ResidentRun | None = wishes.resident
        digest = None
        if wishes.resident is not None:
            self._plan = wishes.resident.plan
        elif kind == "docker":
            self._own = stack.enter_context(
                DockerRun(recipe, image=wishes.image, host=host, say=display.note, terminal=display.is_live)
            )
            digest = self._own.digest
        elif kind == "process":
            self._own = ProcessRun(recipe, host=host, say=display.note, terminal=display.is_live)
        if wishes.resident is None:
            self._plan = plan_run(recipe, external=kind == "external", image_digest=digest)
        self._tokenizer = CheckpointTokenizer.from_folder(self._plan.checkpoint.tokenizer)
        if self._own is not None:
            self._own.prepare()
        started_at = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
        # A server of somebody else's may remember the prompts of an earlier job; an engine of ours is new.
        self._nonce = f"{started_at}{nonce}" if kind == "external" else nonce
        provenance = Provenance(
            producer=_producer(machine.client),
            started_at=started_at,
            pinned=self._plan.pinned,
        )
        self.folder = begin(reports, self._plan.recipe, provenance, machine.model_dump(mode="json"))
        self._clock = RunClock.start()

    def _cards(self, recipe: Recipe, machine: Environment) -> tuple[Gpu, ...]:
        """The GPUs that our own engine uses, or shall use."""
        if self._wishes.resident is not None:  # they were chosen before it was started
            return self._wishes.resident.gpus
        gpus = check_hardware(recipe.hardware, machine, share=memory_share(recipe.engine.flags))
        for line in company_notes(gpus):
            self._display.note(line)
        return gpus

    def run(self) -> None:
        """Every run, one engine start each; ends early in good order.

        Raises:
            StreamproofError: the engine could not be started, or refuses the workload; a partial report is left.
        """
        self._display.note(f"{self._plan.recipe.title}")
        self._display.note(f"fingerprint {self._plan.fingerprint[:12]}, report in {self.folder}")
        for question in self._questions:
            ends = f"{question.setting(0)} to {question.setting(len(question.values) - 1)}"
            self._display.note(f"searching from {ends}: {question.slo.says}")
        if self._own is not None and self._wishes.resident is None:
            for line in plan_notes(self._plan.recipe):
                self._display.note(line)
        with Recorder(self.folder) as recorder:
            number = 0
            try:
                if self._questions:
                    recorder.observe(SearchAsked(t=self._clock.now(), run=0, questions=self._questions))
                if self._own is not None and (hits := lasting_hits(self._plan.recipe)) is not None:
                    recorder.observe(LastingHits(t=self._clock.now(), run=0, hits=hits))
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
                course = self._course(number, running.model, stack)
            else:  # the first turns are made while it starts
                course = self._course(number, self._plan.recipe.target, stack)
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
                course=course,
                make_probe=partial(
                    probe_of,
                    self._plan,
                    run=number,
                    model=running.model,
                    nonce=self._nonce,
                    tokenizer=self._tokenizer,
                ),
                gpus=self._gpus,
                ray=self._ray,
            )
            asyncio.run(measure(run))

    def _course(self, run: int, model: str, stack: ExitStack) -> Course:
        """The points of a run; what makes them ready does so on the client's cores."""
        with confined(self._client_cores):
            if self._questions:
                return SearchCourse(
                    self._questions,
                    plan=self._plan,
                    folder=self.folder,
                    model=model,
                    nonce=self._nonce,
                    tokenizer=self._tokenizer,
                    here=self._ray is None,
                    say=self._display.note,
                )
            points = jobs(self._plan, run=run, model=model, nonce=self._nonce)
            ahead = stack.enter_context(ahead_of(() if self._ray else points, self._tokenizer))
            return Ladder(points=points, ahead=ahead)

    def _engine(self, number: int) -> Engine:
        own, plan, clock, on_progress = self._own, self._plan, self._clock.now, self._display.engine
        if own is None:
            return ExternalEngine(
                self._wishes.base_url or "",
                model=self._wishes.model,
                api_key=os.environ.get(API_KEY),
                run=number,
                clock=clock,
            )
        if plan.recipe.replicas == 1 or isinstance(own, ResidentRun):
            return own.engine(number, plan=plan, folder=self.folder, clock=clock, on_progress=on_progress)
        make = partial(own.engine, number, plan=plan, folder=self.folder, clock=clock)
        replicas = [
            Replica(
                make=partial(_with_progress, make, share),
                gpus=tuple(gpu.uuid for gpu in share.host.gpus),
                cores=share.host.cores,
            )
            for share in self._host.shares(plan.recipe.replicas)
        ]
        return ReplicatedEngine(replicas, clock=clock, on_progress=on_progress)


def _with_progress(make: Callable[..., OwnEngine], share: Share, on_progress: OnProgress) -> OwnEngine:
    return make(on_progress=on_progress, share=share)


def _producer(client: Client) -> Producer:
    bundle = installed_bundle()
    if bundle is not None:  # made from a commit, without anything uncommitted; there is no checkout to ask
        return Producer(name="streamproof", version=version("streamproof"), commit=bundle.commit, dirty=False)
    return Producer(name="streamproof", version=version("streamproof"), commit=client.commit, dirty=client.dirty)


def _tell(report: Report, folder: Path, display: Display, *, quiet: bool) -> None:
    """The outcome, in the form that was asked for."""
    if isinstance(display, JsonDisplay):
        verdicts = {claim.id: claim.verdict for claim in report.claims}
        searches = [outcome.model_dump(mode="json", exclude={"question": {"values"}}) for outcome in report.searches]
        outcome = {"event": "report", "folder": str(folder), "valid": report.valid, "exit_code": report.exit_code}
        found = {"searches": searches} if searches else {}
        sys.stdout.write(json.dumps({**outcome, "partial": report.partial, "verdicts": verdicts, **found}) + "\n")
    elif not quiet:
        Console().print(summary(report, folder))
