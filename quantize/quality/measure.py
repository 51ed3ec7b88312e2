"""Measures one side: starts an engine, or asks one that is there, or runs transformers; keeps what it showed."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bench.engine.caches import cache_environment
from bench.engine.child_env import child_environment
from bench.engine.environment import cache_root
from bench.engine.external import ExternalEngine
from bench.engine.pins import REPOSITORY
from bench.engine.preflight import device_variables
from bench.engine.process import Launch, ProcessEngine
from bench.errors import StreamproofError
from bench.load.clock import RunClock
from quantize.audit.folder import open_checkpoint
from quantize.quality import place
from quantize.quality.ask import scores
from quantize.quality.folder import identity
from quantize.quality.load_log import engine_facts, logging_config, read_log_file
from quantize.quality.loaded import compare
from quantize.quality.scores import save_scores
from quantize.quality.serving import serve
from quantize.quality.side import RECORD, SCORES, Settings, Side

if TYPE_CHECKING:
    from bench.display import Display
    from bench.engine.base import Engine, RunningEngine
    from bench.engine.environment import EngineEnvironment
    from bench.observe.gpu import Gpu
    from quantize.quality.text import HeldOutText
    from recipes.schema import FlagValue, Recipe

ENGINE_LOG: Final = "engine.log"
_LOGGING: Final = "logging.json"
_CACHES: Final = "quality"
"""One folder for all that is compiled: nothing here is timed, and the second side finds what the first one compiled."""


@dataclass(frozen=True, kw_only=True)
class Job:
    """What both sides have in common.

    Attributes:
        recipe: whose engine and workload.
        environment: the engine's; None where both sides are servers that are there.
        gpus: that the engine may use.
        texts: held out.
        reply_tokens: length of a reply.
        display: hears what happens.
    """

    recipe: Recipe
    environment: EngineEnvironment | None
    gpus: Sequence[Gpu]
    texts: Sequence[HeldOutText]
    reply_tokens: int
    display: Display


def by_engine(  # noqa: PLR0913  two checkpoints differ in all of these
    job: Job, settings: Settings, folder: Path, *, checkpoint: Path, digest: str, flags: dict[str, FlagValue]
) -> Side:
    """Starts the recipe's engine on a checkpoint and measures it.

    Args:
        job: see there.
        settings: of this side.
        folder: to keep everything in.
        checkpoint: its folder.
        digest: of it.
        flags: of the engine.

    Raises:
        StreamproofError: it does not start, dies, or refuses.
    """
    environment = job.environment
    if environment is None:
        raise StreamproofError("there is no engine environment", remedy="Give the address of a server instead.")
    folder.mkdir(parents=True, exist_ok=True)
    log, logging = folder / ENGINE_LOG, (folder / _LOGGING).absolute()
    log.unlink(missing_ok=True)
    logging.write_text(logging_config() + "\n", encoding="utf-8")
    launch = Launch(
        environment=environment,
        arguments=lambda port: place.arguments(job.recipe, flags, folder=checkpoint, port=port),
        model=job.recipe.target,
        env={
            **cache_environment(cache_root() / _CACHES),
            **job.recipe.engine.env,
            **device_variables(job.gpus),
            "VLLM_LOGGING_CONFIG_PATH": str(logging),
        },
        log=log,
        ready_timeout_s=job.recipe.engine.ready_timeout_s,
    )
    clock = RunClock.start()
    engine = ProcessEngine(launch, run=0, clock=clock.now, on_progress=job.display.engine)
    with engine as running:
        side = _ask(job, settings, folder, running)
        side = _with_log(side, running, log, checkpoint)
    return _keep(side.model_copy(update={"checkpoint": digest}), folder)


def _with_log(side: Side, running: RunningEngine, log: Path, checkpoint: Path) -> Side:
    """What the engine's log adds."""
    said = read_log_file(log)
    named = {}
    if said.names_tensors:
        experts, decoder, drafter = compare(open_checkpoint(checkpoint), said)
        named = {"experts": experts, "decoder": decoder, "drafter": drafter}
    return side.model_copy(
        update={
            "logged": True,
            "tracked": said.tracked,
            "engine": engine_facts(running.started, said),
            "told_method": said.told_quantization,
            "drafting": said.drafting,
            **named,
        }
    )


def by_url(  # noqa: PLR0913  as above
    job: Job,
    settings: Settings,
    folder: Path,
    *,
    url: str,
    model: str | None,
    api_key: str | None,
    checkpoint: Path | None,
    log: Path | None,
) -> Side:
    """Measures a server that is already there.

    Args:
        job: see there.
        settings: of this side.
        folder: to keep everything in.
        url: where it is.
        model: what to ask for; None takes the only one there is.
        api_key: where it wants one.
        checkpoint: folder of what it serves, as the user says; None where that is not known.
        log: its log, where it can be read and the folder is known.

    Raises:
        StreamproofError: nothing answers there, or it refuses.
    """
    folder.mkdir(parents=True, exist_ok=True)
    engine: Engine = ExternalEngine(url, model=model, api_key=api_key, run=0, clock=RunClock.start().now)
    with engine as running:
        side = _ask(job, settings, folder, running)
        if log is not None and checkpoint is not None:
            side = _with_log(side, running, log, checkpoint)
    return _keep(side.model_copy(update={"checkpoint": identity(checkpoint) if checkpoint else None}), folder)


def _ask(job: Job, settings: Settings, folder: Path, running: RunningEngine) -> Side:
    total = len(job.texts)
    job.display.note(f"  {total} prompts, replies of {job.reply_tokens} tokens")
    serving = serve(running, job.texts, reply_tokens=job.reply_tokens, on_text=_quarters(job, "replies", total))
    if settings.scored:
        told = _quarters(job, "texts scored", total)
        scored = []
        for done, text in enumerate(job.texts, start=1):
            scored.append(scores(running, text.ids, top_k=settings.top_k))
            told(done)
        save_scores(folder / SCORES, scored)
    drafts = None if serving.drafts is None else tuple(tuple(int(n) for n in row) for row in serving.drafts)
    return Side(
        settings=settings,
        checkpoint=None,
        engine=engine_facts(running.started, None),
        drafting=drafts is not None,
        replies=serving.replies,
        repeat=serving.repeat,
        drafts=drafts,
    )


def by_transformers(job: Job, settings: Settings, folder: Path, *, checkpoint: Path, digest: str) -> Side:
    """Runs transformers in the engine's environment, which has it.

    Raises:
        StreamproofError: it fails: too little memory, a model that it does not know.
    """
    environment = job.environment
    if environment is None:
        raise StreamproofError("there is no environment with transformers", remedy="Measure with vLLM instead.")
    folder.mkdir(parents=True, exist_ok=True)
    texts = folder / "texts.json"
    texts.write_text(json.dumps([text.ids for text in job.texts]), encoding="utf-8")
    command = [str(environment.python), "-m", "quantize.quality.forward", "--model", str(checkpoint)]
    command += ["--texts", str(texts), "--top-k", str(settings.top_k), "--out", str(folder / SCORES)]
    path = os.pathsep.join(filter(None, (str(REPOSITORY), environment.env.get("PYTHONPATH"))))
    # Threads that wait for work without spinning: on a CPU that others use too, spinning takes what it waits for.
    ours = {"PYTHONPATH": path, "OMP_WAIT_POLICY": "passive"}
    env = child_environment(environment.env, device_variables(job.gpus), ours)
    told = _quarters(job, "texts scored", len(job.texts))
    log = folder / "transformers.log"
    with (
        log.open("w", encoding="utf-8") as errors,
        subprocess.Popen(  # noqa: S603  our own module
            command, stdout=subprocess.PIPE, stderr=errors, stdin=subprocess.DEVNULL, text=True, env=env
        ) as process,
    ):
        try:
            for line in process.stdout or ():
                told(int(line))
        except BaseException:
            process.kill()
            raise
    if process.returncode:
        last = (log.read_text(encoding="utf-8", errors="replace").strip().splitlines() or ["it said nothing"])[-1]
        raise StreamproofError(
            f"transformers could not run {checkpoint}: {last[:300]}",
            remedy=f"The whole log is in {log}. It needs 4 bytes of memory for each parameter.",
        )
    return _keep(Side(settings=settings, checkpoint=digest, engine=None), folder)


def _quarters(job: Job, what: str, total: int) -> Callable[[int], None]:
    """Tells at each quarter how far it is."""
    marks = {round(total * quarter / 4) for quarter in range(1, 5)}

    def told(done: int) -> None:
        if done in marks:
            job.display.note(f"  {done}/{total} {what}")

    return told


def _keep(side: Side, folder: Path) -> Side:
    """Writes the record last: a folder without one was cut off and is made again."""
    (folder / RECORD).write_text(side.model_dump_json(indent=1) + "\n", encoding="utf-8")
    return side
