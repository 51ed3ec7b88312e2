"""Values that a configuration needs besides its factors, and the share of a card that it gets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.errors import UsageError
from bench.explain.ablate.adapt import Adapted, adaptations, divisors, with_adapted
from bench.explain.ablate.planning import Residency, objections, plan_of
from bench.explain.ablate.share import USABLE, shares
from bench.explain.preflight.command import plan as preflight
from bench.explain.preflight.gpus import GIB
from bench.explain.preflight.verdicts import verdicts_of
from recipes.load import load_recipe

if TYPE_CHECKING:
    from bench.explain.ablate.plan import AblationPlan
    from recipes.schema import Recipe

DUMMY = "h200-fp8-dummy"
TARGET = {"engine.flags.prefix_match_unit": "60", "engine.flags.max_num_batched_tokens": "4100"}
FACTORS = "graphs,mtp,kv-cache,moe,deep-gemm,gdn-prefill,batch,prefix-unit,async"
OTHERWISE = {
    "engine.flags.compilation_config": "{}",
    "engine.flags.speculative_config": "{}",
    "engine.flags.kv_cache_dtype": "{}",
    "engine.flags.moe_backend": "cutlass",
    "engine.flags.linear_backend": "deep_gemm",
    "engine.env.VLLM_USE_DEEP_GEMM": '"1"',
    "engine.flags.gdn_prefill_backend": "flashinfer",
    "engine.flags.max_num_batched_tokens": "8190",
    "engine.flags.async_scheduling": "false",
}


def card_plan(**options: Any) -> AblationPlan:
    """Every factor that the H200 is asked about, each removed from the recipe, or replaced."""
    base, target = load_recipe(DUMMY, OTHERWISE), load_recipe(DUMMY, TARGET)
    return plan_of(base, target, wanted=(), blocks=3, seed=1, only="removed", **options)


def cannot(recipe: Recipe) -> list[str]:
    return [verdict.name for verdict in verdicts_of(preflight(recipe, offline=True)) if verdict.verdict == "cannot"]


def test_the_cards_factors_are_all_there_and_every_configuration_can_be_served() -> None:
    plan = card_plan()
    assert ",".join(factor.slug for factor in plan.factors) == FACTORS
    for each in plan.configurations:
        assert cannot(plan.recipe(each.name)) == [], each.name
    assert {"lasting hits" in each for each in objections(plan)} == {True}  # of a unit, with MTP


def test_what_is_not_chosen_stays_as_the_target_has_it_where_factors_are_removed() -> None:
    target = load_recipe(DUMMY, TARGET)
    base = load_recipe("vanilla", {"engine.flags.linear_backend": "deep_gemm"})
    plan = plan_of(base, target, wanted=["mtp", "deep-gemm"], blocks=1, seed=1, only="removed")
    assert plan.recipe("full").engine == target.engine
    assert plan.recipe("without-mtp").checkpoint == target.checkpoint
    assert "speculative_config" not in plan.recipe("without-mtp").engine.flags
    without = plan.recipe("without-deep-gemm").engine
    assert without.flags == {**target.engine.flags, "linear_backend": "deep_gemm"}
    assert without.env == {"VLLM_USE_FLASHINFER_SAMPLER": "0"}
    assert [factor.slug for factor in plan.rest][:2] == ["graphs", "kv-cache"]


def test_a_prefix_unit_follows_the_block_that_drafts_and_format_decide() -> None:
    besides = card_plan().besides
    assert {name: [(each.key, each.value) for each in adapted] for name, adapted in besides.items()} == {
        "without-mtp": [("engine.flags.prefix_match_unit", 131)],
        "without-kv-cache": [("engine.flags.prefix_match_unit", 64)],
    }
    assert besides["without-mtp"][0].says == "prefix_match_unit is 131: 60 does not divide its block of 2,096 tokens"
    assert card_plan().recipe("without-mtp").sources["engine.flags.prefix_match_unit"].kind == "engine"


def test_the_largest_graph_follows_the_largest_step() -> None:
    plan = plan_of(load_recipe("vanilla"), load_recipe("h200-fp8"), wanted=[], blocks=1, seed=1)
    for name in ("with-graphs", "without-batch"):
        (each,) = plan.besides[name]
        assert (each.key.rpartition(".")[2], each.value) == ("max_cudagraph_capture_size", 8192)
    for configuration in plan.configurations:
        assert cannot(plan.recipe(configuration.name)) == []
    assert set(plan.besides) == {"with-graphs", "without-batch"}


@pytest.mark.parametrize("target", ["vanilla", "h200-fp8", "h200-fp8-dummy", "h200-fp8-fast-dummy", "cpu", "cpu-mtp"])
def test_recipes_of_the_repository_need_nothing(target: str) -> None:
    assert adaptations(load_recipe(target)) == ()


@given(st.integers(1, 5000))
def test_divisors(number: int) -> None:
    found = divisors(number)
    assert found[0] == 1
    assert found[-1] == number
    assert found == [each for each in range(1, number + 1) if not number % each]


def test_engines_share_a_card_and_have_the_same_cache() -> None:
    plan = card_plan(residency=Residency(at_once=2))
    share, cache = plan.besides["all"]
    assert (share.key.rpartition(".")[2], share.value) == ("gpu_memory_utilization", 0.49)
    assert 2 * share.value <= USABLE
    for each in plan.configurations:
        flags = plan.recipe(each.name).engine.flags
        assert (flags["gpu_memory_utilization"], flags["kv_cache_memory_bytes"]) == (0.49, cache.value)
        used = preflight(plan.recipe(each.name), offline=True).budget
        assert used.weights + used.peak + used.non_torch + used.graph_pool + cache.value <= used.share
    assert "engine.flags.gpu_memory_utilization" in plan.recipe("full").sources
    plan = card_plan(residency=Residency(at_once=2, cache_gib=6))
    told = " ".join(objections(plan))  # the cache is small for 60 streams
    assert all(each.name in told for each in plan.configurations)
    assert told.count("preflight of full, ") == 1


@pytest.mark.parametrize(
    ("target", "factors", "beside_gib"),
    [
        ("h200-fp8-fast-dummy", ["deep-gemm"], (10.6, 10.6)),
        ("h200-fp8-no-mtp-dummy", ["batch"], (10.8, 14.1)),  # the base's steps have 16,384 tokens
    ],
)
def test_engines_that_grow_as_measured_still_fit(
    target: str, factors: list[str], beside_gib: tuple[float, float]
) -> None:
    """Of two engines with MTP, one died with 73 GiB in use by the other; of three without, with 48 and 52 GiB."""
    plan = plan_of(
        load_recipe(DUMMY),
        load_recipe(target),
        wanted=factors,
        blocks=3,
        seed=1,
        only="removed",
        residency=Residency(at_once=2),
    )
    used = [preflight(plan.recipe(each.name), offline=True).budget for each in plan.configurations]
    assert sum(each.weights + each.available for each in used) + sum(beside_gib) * GIB <= used[0].total
    assert all(each.available > 2 * GIB for each in used)


def test_share_and_cache_can_be_given() -> None:
    plan = card_plan(residency=Residency(at_once=2, memory_share=0.4, cache_gib=12))
    assert [each.value for each in plan.besides["all"]] == [0.4, 12 * GIB]


@pytest.mark.parametrize(
    ("residency", "words"),
    [
        (Residency(at_once=3, memory_share=0.4), "3 engines at once would take 120% of the card"),
        (Residency(at_once=3), "does not fit into 0.32 of the card"),
    ],
)
def test_what_does_not_fit_is_said_before_anything_is_started(residency: Residency, words: str) -> None:
    with pytest.raises(UsageError, match=words) as refused:
        card_plan(residency=residency)
    assert refused.value.remedy


def test_a_cpu_has_no_share() -> None:
    recipes = {"full": load_recipe("cpu")}
    assert shares(recipes, at_once=2, share=None, cache_gib=None) == ()
    with pytest.raises(UsageError, match="runs on the CPU"):
        shares(recipes, at_once=2, share=0.4, cache_gib=None)


def test_a_cache_that_nobody_can_size_has_to_be_given() -> None:
    recipes = {"full": load_recipe("vanilla", {"engine.flags.speculative_config": '{method = "eagle"}'})}
    with pytest.raises(UsageError, match="nobody can say what full leaves") as refused:
        shares(recipes, at_once=2, share=None, cache_gib=None)
    assert "--kv-gib" in refused.value.remedy
    assert len(shares(recipes, at_once=2, share=None, cache_gib=6)) == 2


def test_an_adapted_value_takes_its_place_with_its_source() -> None:
    recipe = load_recipe(DUMMY)
    key = "engine.flags.compilation_config.max_cudagraph_capture_size"
    changed = with_adapted(recipe, [Adapted(key=key, value=8, why="to see")])
    assert changed.engine.flags["compilation_config"]["max_cudagraph_capture_size"] == 8  # type: ignore[index,call-overload]
    assert changed.sources[key].why == "to see"
    assert changed.model_copy(update={"engine": recipe.engine, "sources": recipe.sources}) == recipe
