from __future__ import annotations

from typing import Any

import pytest

from bench.errors import UsageError
from recipes.fingerprint import Pinned, fingerprint
from recipes.load import load_recipe
from recipes.parallel import Parallel, parallel_of
from recipes.schema import Recipe

PINNED = Pinned(lock_sha256="1" * 64, image_digest=None, checkpoint_sha256="2" * 64, workload_version="1")


def recipe(target: str = "h200-fp8-dummy", **overrides: str) -> Recipe:
    return load_recipe(target, {key.replace("__", "."): value for key, value in overrides.items()})


@pytest.mark.parametrize(
    ("flags", "gpus", "words"),
    [
        ({}, 1, "one"),
        ({"tensor_parallel_size": 2}, 2, "tensor 2"),
        ({"tensor_parallel_size": 2, "data_parallel_size": 4}, 8, "tensor 2 x data 4"),
        ({"pipeline_parallel_size": 3, "prefill_context_parallel_size": 2}, 6, "pipeline 3 x context 2"),
    ],
)
def test_gpus_that_flags_ask_for(flags: dict[str, Any], gpus: int, words: str) -> None:
    found = parallel_of(flags)
    assert (found.gpus, found.words) == (gpus, words)


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        ({"tensor_parallel_size": 0}, "tensor_parallel_size is 0"),
        ({"data_parallel_size": "2"}, "data_parallel_size is '2'"),
        ({"data_parallel_size": True}, "data_parallel_size is True"),
        ({"data_parallel_size": 1025}, "from 1 to 1024"),
        ({"data_parallel_size": 2, "data_parallel_rank": 0}, "data_parallel_rank leaves ranks to servers"),
        ({"data_parallel_size": 2, "data_parallel_hybrid_lb": True}, "data_parallel_hybrid_lb"),
    ],
)
def test_what_cannot_be_counted_is_refused(flags: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        parallel_of(flags)


def test_the_recipe_for_two_cards() -> None:
    two = recipe("h200-fp8-dp2-dummy")
    assert parallel_of(two.engine.flags) == Parallel(tensor=1, pipeline=1, context=1, data=2)
    assert (two.hardware.count, two.ranks, two.pinned_ranks) == (2, 2, 2)
    assert [name.hardware.label for name in (two, recipe(), recipe("cpu"))] == ["2 x H200", "H200", "CPU"]
    one = recipe("h200-fp8-fast-dummy")
    twice = [2 * (point.streams or point.concurrent or 0) for point in one.load.ladder]
    assert [point.streams or point.concurrent for point in two.load.ladder] == twice
    assert (one.ranks, one.pinned_ranks) == (1, 1)


def test_the_hardware_is_what_the_flags_ask_for() -> None:
    with pytest.raises(
        UsageError, match=r"hardware\.count is 1, and the engine\'s flags ask for 4 \(tensor 2 x data 2\)"
    ) as refused:
        recipe(engine__flags__tensor_parallel_size="2", engine__flags__data_parallel_size="2")
    assert "set hardware.count = 4" in str(refused.value)
    with pytest.raises(UsageError, match=r"hardware\.count is 2, and the engine\'s flags ask for 1 \(one\)"):
        recipe(hardware__count="2")
    assert recipe("cpu", engine__flags__data_parallel_size="2").ranks == 2  # of a CPU there is only one


def test_streams_are_pinned_unless_the_recipe_says_otherwise() -> None:
    two = {"engine__flags__data_parallel_size": "2"}
    assert recipe("cpu", **two).pinned_ranks == 2
    assert recipe("cpu", **two, load__affinity="rank").pinned_ranks == 2
    assert recipe("cpu", **two, load__affinity="none").pinned_ranks == 1
    with pytest.raises(UsageError, match=r"load\.affinity belongs to"):
        recipe("cpu", load__affinity="rank")


def test_how_calls_are_routed_decides_the_fingerprint_and_leaving_it_open_does_not() -> None:
    two = {"engine__flags__data_parallel_size": "2"}
    of = {way: fingerprint(recipe("cpu", **two, load__affinity=way), PINNED) for way in ("rank", "none")}
    assert len({*of.values(), fingerprint(recipe("cpu", **two), PINNED), fingerprint(recipe("cpu"), PINNED)}) == 4
    assert "affinity" not in recipe("cpu").load.model_dump(exclude_none=True)
