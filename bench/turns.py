"""What the load of a run needs to make its turns: here and now, ahead of time, or in another process."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from bench.load.ahead import Ahead
from bench.load.plan import PointPlan
from bench.load.processes import processes_for
from bench.load.ready import ReadyPoint
from bench.seeds import derive
from bench.workload.tokens import CheckpointTokenizer
from bench.workload.voice import VoiceWorkload

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

    from bench.load.stock import BeforeCall
    from bench.plan import RunPlan
    from recipes.schema import Load, Workload

TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja")
"""What `CheckpointTokenizer` reads of a folder; the last one may be missing."""


@dataclass(frozen=True, kw_only=True)
class VoiceSource:
    """Makes the workload of one point, in whatever process it is called: it can be pickled and reads no file of ours.

    Attributes:
        workload: of the recipe.
        tokenizer: files of the checkpoint's tokenizer, by name.
        model: the model's name in requests.
        seed: of run and point.
        vocab_size: of the model, where it is known.
    """

    workload: Workload
    tokenizer: Mapping[str, bytes] = field(repr=False)
    model: str
    seed: tuple[str | int, ...]
    vocab_size: int | None

    def __call__(self) -> VoiceWorkload:
        """The workload, with a tokenizer of its own."""
        with tempfile.TemporaryDirectory() as folder:
            for name, raw in self.tokenizer.items():
                (Path(folder) / name).write_bytes(raw)
            return self.using(CheckpointTokenizer.from_folder(Path(folder)))

    def using(self, tokenizer: CheckpointTokenizer) -> VoiceWorkload:
        """The workload, with a tokenizer that is there already."""
        return VoiceWorkload(
            self.workload, tokenizer=tokenizer, model=self.model, seed=self.seed, vocab_size=self.vocab_size
        )


@dataclass(frozen=True, kw_only=True)
class PointJob:
    """One point of one run, as the client is told to do it.

    Attributes:
        label: of the point, for people.
        plan: the load.
        source: makes the turns.
        processes: client processes of this host that share it.
    """

    label: str
    plan: PointPlan
    source: VoiceSource
    processes: int

    def ready(self, tokenizer: CheckpointTokenizer, before_call: BeforeCall) -> ReadyPoint:
        """The point, to be made ready in this process."""
        return ReadyPoint(self.plan, self.source.using(tokenizer), before_call=before_call)


def jobs(plan: RunPlan, *, run: int, model: str, nonce: str) -> tuple[PointJob, ...]:
    """The points of the ladder, in order.

    Args:
        plan: of the whole job.
        run: index of the engine start.
        model: what to ask the engine for.
        nonce: makes the prompts differ from those of earlier jobs.

    Raises:
        UsageError: the load's parameters or a trace are wrong.
    """
    load = plan.recipe.load
    return tuple(job(plan, load, point=point, run=run, model=model, nonce=nonce) for point in range(len(load.ladder)))


def job(plan: RunPlan, load: Load, *, point: int, run: int, model: str, nonce: str) -> PointJob:  # noqa: PLR0913  its seed
    """One point.

    Args:
        plan: of the whole job.
        load: with the ladder that the point is of: a search makes its own.
        point: index in that ladder.
        run: index of the engine start.
        model: what to ask the engine for.
        nonce: see `jobs`.

    Raises:
        UsageError: the load's parameters or a trace are wrong.
    """
    seed = (plan.fingerprint, nonce, run, point)
    point_plan = PointPlan.from_recipe(load, point=point, run=run, seed=derive(*seed), ranks=plan.recipe.pinned_ranks)
    source = VoiceSource(
        workload=plan.recipe.workload,
        tokenizer=tokenizer_files(plan.checkpoint.tokenizer),
        model=model,
        seed=seed,
        vocab_size=plan.checkpoint.vocab_size,
    )
    processes = load.client_processes or processes_for(point_plan, len(os.sched_getaffinity(0)))
    return PointJob(label=load.ladder[point].label, plan=point_plan, source=source, processes=processes)


@dataclass(frozen=True, kw_only=True)
class Ladder:
    """The points of a run whose ladder is known beforehand.

    Attributes:
        points: in order.
        ahead: makes those ready that this process does itself.
    """

    points: tuple[PointJob, ...]
    ahead: Ahead

    @property
    def of(self) -> int:
        """How many points there are."""
        return len(self.points)

    def jobs(self) -> Generator[tuple[PointJob, Ahead], None, None]:
        """Each point, with what makes it ready."""
        for point in self.points:
            yield point, self.ahead


def ahead_of(points: tuple[PointJob, ...], tokenizer: CheckpointTokenizer) -> Ahead:
    """Makes ready whatever this process will do itself; several processes make their own turns when they begin."""
    return Ahead({job.plan.point: partial(job.ready, tokenizer) for job in points if job.processes == 1})


def tokenizer_files(folder: Path) -> dict[str, bytes]:
    """The files of a tokenizer that are there."""
    return {name: (folder / name).read_bytes() for name in TOKENIZER_FILES if (folder / name).is_file()}
