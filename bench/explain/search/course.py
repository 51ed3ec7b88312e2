"""A search under way: the next point of a run, from what its folder holds of the points before it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.explain.search.replay import replay
from bench.explain.search.tally import spoiled_points, told
from bench.load.journal import parse
from bench.observe.observations import ClientSelf, PhaseStarted
from bench.report import folder_files as files
from bench.report.evidence import Evidence
from bench.report.folder_evidence import parse_observations, recipe_toml
from bench.report.measurement import Measurement
from bench.report.model import Producer
from bench.report.table import table_of
from bench.turns import ahead_of, job
from recipes.schema import Source

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence
    from pathlib import Path

    from bench.explain.search.boundary import Told
    from bench.explain.search.question import Question
    from bench.explain.search.replay import Replay, Step
    from bench.load.ahead import Ahead
    from bench.plan import RunPlan
    from bench.turns import PointJob
    from bench.workload.tokens import CheckpointTokenizer
    from recipes.schema import Recipe


class SearchCourse:
    """The points of a run that searches, each decided when the one before is over.

    What decides is read back from the folder: the search sees exactly what whoever verifies the report will see. The
    ladder of `recipe.resolved.toml` grows with it, before each point begins, so that the folder of a run that is killed
    can still be finished.

    Args:
        questions: what is searched for.
        plan: of the run.
        folder: of the report.
        model: what to ask the engine for.
        nonce: makes the prompts differ from those of earlier jobs.
        tokenizer: of the turns that this process makes.
        here: whether this host sends the load itself.
        say: takes a line for each decision.
    """

    of: int | None = None

    def __init__(  # noqa: PLR0913  what the jobs of a run are made from
        self,
        questions: Sequence[Question],
        *,
        plan: RunPlan,
        folder: Path,
        model: str,
        nonce: str,
        tokenizer: CheckpointTokenizer,
        here: bool,
        say: Callable[[str], None],
    ) -> None:
        self._questions = questions
        self._plan = plan
        self._folder = folder
        self._model = model
        self._nonce = nonce
        self._tokenizer = tokenizer
        self._here = here
        self._say = say
        self._ladder: list[Step] = []
        self._told: list[Told] = []
        self._read = {files.RUNNING_RECORDS: 0, files.OBSERVATIONS: 0}

    def jobs(self) -> Generator[tuple[PointJob, Ahead], None, None]:
        """Each point, with what makes it ready. Asking for the next one says that the last one is over."""
        while (step := self._next().following) is not None:
            self._ladder.append(step)
            recipe = searched(self._plan.recipe, self._ladder)
            files.write_whole(self._folder / files.RECIPE, recipe_toml(recipe).encode())
            self._say(f"  {step.stage}: {step.point.label}")
            index = len(self._ladder) - 1
            point = job(self._plan, recipe.load, point=index, run=0, model=self._model, nonce=self._nonce)
            with ahead_of((point,) if self._here else (), self._tokenizer) as ahead:
                yield point, ahead
            self._told.append(self._tell(recipe, index))

    def _next(self) -> Replay:
        return replay(self._questions, len(self._told), lambda index, _: self._told[index])

    def _tell(self, recipe: Recipe, index: int) -> Told:
        """What the point that is just over came to."""
        records = parse(self._new(files.RUNNING_RECORDS), files.RUNNING_RECORDS).records
        seen = parse_observations(self._new(files.OBSERVATIONS))
        evidence = Evidence(
            recipe=recipe,
            fingerprint="",
            records=table_of(records),
            observations=tuple(each for each in seen if isinstance(each, PhaseStarted | ClientSelf)),
            environment={},
            producer=Producer(name="", version="", commit=None, dirty=None),
            started_at="",
        )
        measurement = Measurement.of(evidence)
        slo = self._questions[self._ladder[index].question].slo
        return told(measurement, index, slo, spoiled_points(measurement))

    def _new(self, name: str) -> bytes:
        """What was written to a file since it was last asked for."""
        with (self._folder / name).open("rb") as file:
            file.seek(self._read[name])
            raw = file.read()
        self._read[name] += len(raw)
        return raw


def searched(recipe: Recipe, points: Sequence[Step]) -> Recipe:
    """The recipe with the points of a search as its ladder, each with its source."""
    source = Source(kind="measured", why="chosen by the search, each from the records of those before it")
    load = recipe.load.model_copy(update={"ladder": [step.point for step in points]})
    return recipe.model_copy(update={"load": load, "sources": recipe.sources | {"load.ladder": source}})
