"""`engine.replicas`: how many engines a recipe starts, on how many GPUs, and what that decides."""

from __future__ import annotations

import pytest

from bench.errors import UsageError
from recipes.fingerprint import Pinned, engine_fingerprint, fingerprint
from recipes.load import load_recipe
from recipes.schema import Recipe

PINNED = Pinned(lock_sha256="1" * 64, image_digest=None, checkpoint_sha256="2" * 64, workload_version="1")
TARGET = "h200-fp8-x2-dummy"


def recipe(target: str = TARGET, **overrides: str) -> Recipe:
    return load_recipe(target, {key.replace("__", "."): value for key, value in overrides.items()})


def test_the_recipe_for_two_cards() -> None:
    two, one, ranks = recipe(), recipe("h200-fp8-fast-dummy"), recipe("h200-fp8-dp2-dummy")
    assert (two.replicas, two.ranks_each, two.ranks, two.pinned_ranks, two.rank_name) == (2, 1, 2, 2, "replica")
    assert (one.replicas, one.ranks, one.rank_name) == (1, 1, "rank")
    assert two.hardware.label == "2 x H200"
    assert two.engine.flags == one.engine.flags
    assert two.load.ladder == ranks.load.ladder
    assert "two replicas on two H200" in two.title


def test_replicas_of_several_ranks_are_counted_through() -> None:
    both = recipe(engine__flags__data_parallel_size="3", hardware__count="6")
    assert (both.replicas, both.ranks_each, both.ranks, both.rank_name) == (2, 3, 6, "rank")


@pytest.mark.parametrize(
    ("overrides", "says"),
    [
        (
            {"hardware__count": "1"},
            r"hardware\.count is 1, and 2 replicas of 1 each need 2; set hardware\.count = 2",
        ),
        ({"engine__flags__tensor_parallel_size": "2"}, r"2 replicas of 2 each \(tensor 2\) need 4; set"),
        ({"engine__replicas": "1"}, r"engine\.replicas: Input should be greater than or equal to 2"),
        ({"engine__replicas": "65"}, r"engine\.replicas: Input should be less than or equal to 64"),
        ({"engine__replicas": "true"}, r"engine\.replicas"),
        ({"load__affinity": "none"}, r'load\.affinity = "none" leaves requests to the load balancer of one engine'),
    ],
)
def test_what_does_not_fit_is_refused(overrides: dict[str, str], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        recipe(**overrides)


def test_replicas_decide_the_fingerprint_and_leaving_them_out_does_not() -> None:
    cpu = recipe("cpu")
    assert "replicas" not in cpu.engine.model_dump(exclude_none=True)
    assert fingerprint(recipe("cpu", engine__replicas="2"), PINNED) != fingerprint(cpu, PINNED)


@pytest.mark.parametrize(("several", "one"), [(recipe(), recipe("h200-fp8-fast-dummy")), (None, None)])
def test_each_replica_finds_what_one_alone_has_compiled(several: Recipe | None, one: Recipe | None) -> None:
    several, one = several or recipe("cpu", engine__replicas="2"), one or recipe("cpu")
    assert engine_fingerprint(several, PINNED) == engine_fingerprint(one, PINNED)
