"""What a run needs to make its turns: the same ones wherever they are made."""

import pickle
from itertools import islice

import pytest

from bench.plan import RunPlan, plan_run
from bench.turns import PointJob, ahead_of, jobs
from bench.workload.tokens import CheckpointTokenizer
from recipes.load import load_recipe

LADDER = {"load.ladder": '[{streams = 2}, {rate = 400, arrivals = "fixed"}]', "load.steady_s": "2"}


@pytest.fixture
def plan() -> RunPlan:
    return plan_run(load_recipe("cpu", LADDER))


def jobs_of(plan: RunPlan) -> tuple[PointJob, ...]:
    return jobs(plan, run=1, model="m", nonce="n")


def test_another_process_makes_the_same_turns(plan: RunPlan) -> None:
    source = jobs_of(plan)[0].source
    here = source.using(CheckpointTokenizer.from_folder(plan.checkpoint.tokenizer))
    there = pickle.loads(pickle.dumps(source))()  # noqa: S301  our own bytes
    assert there.primes() == here.primes()
    assert list(islice(there.calls(1), 2)) == list(islice(here.calls(1), 2))


def test_every_point_of_every_run_has_its_own_prompts(plan: RunPlan) -> None:
    sources = [job.source for run in range(2) for job in jobs(plan, run=run, model="m", nonce="n")]
    tokenizer = CheckpointTokenizer.from_folder(plan.checkpoint.tokenizer)
    prompts = [next(source.using(tokenizer).calls(0))[0].segments for source in sources]
    assert len(set(prompts)) == len(prompts) == 4


@pytest.mark.parametrize(
    ("cores", "override", "processes"),
    [({0}, {}, [1, 1]), ({0, 1, 2, 3}, {}, [1, 3]), ({0}, {"load.client_processes": "2"}, [2, 2])],
)
def test_as_many_processes_as_a_point_needs_or_the_recipe_says(
    monkeypatch: pytest.MonkeyPatch, cores: set[int], override: dict[str, str], processes: list[int]
) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: cores)
    plan = plan_run(load_recipe("cpu", {**LADDER, **override}))
    points = jobs_of(plan)
    assert [job.processes for job in points] == processes
    here = ahead_of(points, CheckpointTokenizer.from_folder(plan.checkpoint.tokenizer))
    assert [job.plan.point for job in points if job.processes == 1] == list(here._points)
