"""Starts a worker, follows it, and leaves nothing of it behind."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from bench.engine.child_env import child_environment
from bench.engine.pins import REPOSITORY
from bench.errors import StreamproofError
from bench.report.folder_files import canonical_json, write_whole
from quantize.stages.stage import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from quantize.environment import WorkerPython

_SHOWN_LINES: Final = 15
_GRACE_S: Final = 10.0
_OFFLINE: Final = {
    # Everything is a folder on this machine: nothing may be fetched, and nothing is reported to anybody.
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "DO_NOT_TRACK": "1",
    # The sums of a matrix product must not depend on what else the GPU does.
    "CUBLAS_WORKSPACE_CONFIG": ":4096:8",
}


@dataclass(frozen=True, kw_only=True)
class Progress:
    """How far a worker is.

    Attributes:
        done: steps that are finished.
        of: all steps.
        what: the step that it is at.
    """

    done: int
    of: int
    what: str


def run_worker(
    module: str,
    job: Mapping[str, Any],
    *,
    worker: WorkerPython,
    folder: Path,
    on_progress: Callable[[Progress], None],
) -> Outcome:
    """Runs `python -m quantize.worker.MODULE` to its end.

    Args:
        module: of `quantize.worker`.
        job: see `quantize.worker.job.Job`; paths as strings.
        worker: the interpreter.
        folder: for the job's file and the worker's log, both hidden.
        on_progress: told how far it is.

    Raises:
        StreamproofError: it failed; the error ends with its log's last lines.
    """
    job_file, log = folder / ".job.json", folder / ".worker.log"
    write_whole(job_file, canonical_json(dict(job)))
    path = os.pathsep.join(filter(None, (str(REPOSITORY), worker.extra_path)))
    environment = child_environment(_OFFLINE, {"PYTHONPATH": path})
    command = [str(worker.python), "-m", f"quantize.worker.{module}", str(job_file)]
    outcome: Outcome | None = None
    with (
        log.open("wb") as output,
        subprocess.Popen(  # noqa: S603  our own module in the interpreter for it
            command, cwd=REPOSITORY, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=output
        ) as process,
    ):
        try:
            for line in process.stdout or ():
                event = json.loads(line)
                if event["event"] == "progress":
                    on_progress(Progress(done=event["done"], of=event["of"], what=event["what"]))
                else:
                    outcome = _outcome(event, worker)
            status = process.wait()
        finally:
            _end(process)
    if status or outcome is None:
        raise StreamproofError(
            f"the worker {module} ended with status {status}" + _tail(log),
            remedy=f"What it said names the cause; all of it is in {log}. Run it again: it goes on from there.",
        )
    return outcome


def _outcome(event: Mapping[str, Any], worker: WorkerPython) -> Outcome:
    return Outcome(
        versions=event["facts"]["versions"],
        environment=worker.environment,
        peak_rss_bytes=event["peak_rss_bytes"],
        peak_gpu_bytes=event["peak_gpu_bytes"],
    )


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.stdin is not None:
        process.stdin.close()  # it ends itself when its standard input does
    try:
        process.wait(_GRACE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _tail(log: Path) -> str:
    lines = log.read_text(errors="replace").splitlines()[-_SHOWN_LINES:]
    return "".join(f"\n  {line}" for line in lines)
