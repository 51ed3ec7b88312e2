"""Spreads the measuring over all cores.

Work goes out in batches of some tens of MiB, so that a process is never asked for less than it takes to ask it, and no
core waits long for the last one. Workers ignore Ctrl-C: it comes to this process, which lets the batches under way end
(a fraction of a second), drops the rest and leaves no process behind. Where this process is killed, they end by
themselves.
"""

from __future__ import annotations

import multiprocessing
import os
import threading
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from bench.errors import StreamproofError
from bench.signals import out_of_reach_of_ctrl_c
from quantize.audit.measure import (
    CopyJob,
    CopyResult,
    LinearJob,
    LinearResult,
    compare_copy,
    forget_files,
    measure_linear,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

Job: TypeAlias = LinearJob | CopyJob
Result: TypeAlias = LinearResult | CopyResult

BATCH_BYTES: Final = 64 << 20
WORTH_A_PROCESS: Final = 256 << 20
"""Bytes of work below which another process costs more (half a second to start) than it saves."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far an audit is.

    Attributes:
        done_bytes: read of checkpoint and source so far.
        total_bytes: to be read.
        doing: tensor, or step, that was finished last.
    """

    done_bytes: int
    total_bytes: int
    doing: str


def run_jobs(
    jobs: Sequence[Job], *, processes: int | None, on_progress: Callable[[Progress], None] | None
) -> Iterator[Result]:
    """Does all jobs, in no particular order.

    Args:
        jobs: what to do.
        processes: at most so many workers; None for as many as there are usable cores.
        on_progress: told after every batch.

    Raises:
        StreamproofError: a file changed or vanished while it was read, or a worker was killed.
    """
    batches = list(_batches(jobs))
    total = sum(job.bytes for job in jobs)
    wanted = processes or min(len(os.sched_getaffinity(0)), 1 + total // WORTH_A_PROCESS)
    workers = min(wanted, len(batches))
    done = 0
    try:
        for batch, results in _in_turn(batches) if workers <= 1 else _in_parallel(batches, workers):
            done += sum(job.bytes for job in batch)
            if on_progress is not None:
                on_progress(Progress(done, total, _name(batch[-1])))
            yield from results
    except OSError as error:
        raise StreamproofError(
            f"The audit could not read all of it: {error.strerror or error}.",
            remedy="Audit a folder that nobody is writing to.",
        ) from error
    except BrokenProcessPool as error:
        raise StreamproofError(
            "A worker of the audit was killed; usually that means that the machine ran out of memory.",
            remedy="Use fewer of them: --processes 2.",
        ) from error


def _name(job: Job) -> str:
    return job.module if isinstance(job, LinearJob) else job.name


def _batches(jobs: Iterable[Job]) -> Iterator[list[Job]]:
    batch: list[Job] = []
    size = 0
    for job in jobs:
        batch.append(job)
        size += job.bytes
        if size >= BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _in_turn(batches: Iterable[list[Job]]) -> Iterator[tuple[list[Job], list[Result]]]:
    try:
        for batch in batches:
            yield batch, _do(batch)
    finally:
        forget_files()


def _in_parallel(batches: Sequence[list[Job]], workers: int) -> Iterator[tuple[list[Job], list[Result]]]:
    context = multiprocessing.get_context("spawn")  # a fork would copy the caller's threads' locks
    pool = ProcessPoolExecutor(workers, mp_context=context, initializer=_begin)
    try:
        with out_of_reach_of_ctrl_c():  # it starts its processes as work is submitted
            under_way = {pool.submit(_do, batch): batch for batch in batches}
        for future in as_completed(under_way):
            yield under_way.pop(future), future.result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _begin() -> None:
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _do(batch: Sequence[Job]) -> list[Result]:
    return [measure_linear(job) if isinstance(job, LinearJob) else compare_copy(job) for job in batch]
