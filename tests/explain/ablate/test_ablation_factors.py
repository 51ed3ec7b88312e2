"""Factors: what differs between two recipes, and the recipes in between."""

from __future__ import annotations

import tomllib
from importlib.resources import files
from typing import Any

import pytest

from bench.errors import UsageError
from bench.explain.ablate.factors import choose, derive, with_factors
from bench.explain.ablate.planning import plan_of
from recipes.load import load_recipe
from recipes.schema import Recipe
from tests.report.factories import make_claim, make_recipe


def test_the_articles_flags_are_the_factors_between_its_recipes() -> None:
    found = {factor.slug: factor.keys for factor in derive(load_recipe("vanilla"), load_recipe("h200-fp8"))}
    assert found == {
        "graphs": (
            "engine.flags.compilation_config.cudagraph_capture_sizes",
            "engine.flags.compilation_config.cudagraph_mode",
            "engine.flags.compilation_config.max_cudagraph_capture_size",
        ),
        "mtp": (
            "engine.flags.speculative_config.method",
            "engine.flags.speculative_config.num_speculative_tokens",
        ),
        "kv-cache": ("engine.flags.kv_cache_dtype",),
        "batch": ("engine.flags.max_num_batched_tokens", "engine.flags.max_num_seqs"),
        "prefill": ("engine.flags.enable_chunked_prefill",),
    }


def test_no_key_is_in_two_groups() -> None:
    groups = tomllib.loads(files("bench.explain.ablate").joinpath("factors.toml").read_text())
    keys = [key for group in groups.values() for key in group["keys"]]
    assert len(keys) == len(set(keys))
    assert not [(a, b) for a in keys for b in keys if a != b and a.startswith(f"{b}.")]


@pytest.mark.parametrize(("base", "target"), [("vanilla", "h200-fp8"), ("cpu", "cpu-mtp"), ("b200-fp8", "b200-nvfp4")])
def test_all_factors_together_serve_like_the_target_and_none_like_the_base(base: str, target: str) -> None:
    one, two = load_recipe(base), load_recipe(target)
    factors = derive(one, two)
    full, none = with_factors(one, two, factors), with_factors(one, two, ())
    assert (full.engine.flags, full.engine.env, full.checkpoint) == (two.engine.flags, two.engine.env, two.checkpoint)
    assert (none.engine.flags, none.engine.env, none.checkpoint) == (one.engine.flags, one.engine.env, one.checkpoint)
    for recipe in (full, none):
        assert recipe.workload == two.workload
        assert recipe.load.ladder == two.load.ladder
        assert recipe.load.runs == 1
        assert recipe.claims == []


def engine(**flags: Any) -> Recipe:
    return make_recipe(engine={"flags": flags}, claims=[make_claim()])


def test_what_no_group_names_is_a_factor_of_its_own() -> None:
    base = make_recipe(engine={"flags": {"seed": 1}, "env": {"VLLM_X": "1"}})
    found = derive(base, engine(max_num_seqs=8, seed=2, max_num_batched_tokens=99))
    assert [(factor.slug, factor.keys) for factor in found] == [
        ("batch", ("engine.flags.max_num_batched_tokens", "engine.flags.max_num_seqs")),
        ("env-vllm-x", ("engine.env.VLLM_X",)),
        ("seed", ("engine.flags.seed",)),
    ]


def test_a_factor_may_take_a_value_away_or_a_table_in_its_place() -> None:
    base, target = engine(a=1, speculative_config="text", b=2), engine(speculative_config={"method": "mtp"}, b=3)
    factors = {factor.slug: factor for factor in derive(base, target)}
    assert with_factors(base, target, [factors["a"]]).engine.flags == {"speculative_config": "text", "b": 2}
    assert with_factors(base, target, [factors["mtp"]]).engine.flags == {
        "a": 1,
        "speculative_config": {"method": "mtp"},
        "b": 2,
    }
    assert with_factors(base, target, factors.values()).engine.flags == target.engine.flags


def test_how_long_a_start_may_take_is_the_targets_throughout() -> None:
    base = make_recipe(engine={"ready_timeout_s": 1800.0})
    target = make_recipe(engine={"ready_timeout_s": 300.0, "flags": {"max_num_seqs": 8}})
    assert with_factors(base, target, ()).engine.ready_timeout_s == 300.0


def test_sources_go_with_their_values() -> None:
    one, two = load_recipe("cpu"), load_recipe("cpu-mtp")
    (mtp,) = (factor for factor in derive(one, two) if factor.slug == "mtp")
    sources = with_factors(one, two, [mtp]).sources
    assert sources["engine.flags.speculative_config.method"].kind == "article"
    assert sources["engine.flags.enable_prefix_caching"] == one.sources["engine.flags.enable_prefix_caching"]
    assert "engine.flags.speculative_config.method" not in with_factors(one, two, ()).sources
    assert sources["workload.prompt_tokens"] == two.sources["workload.prompt_tokens"]


def test_recipes_that_serve_alike_have_no_factor() -> None:
    with pytest.raises(UsageError, match="serve alike"):
        derive(engine(a=1), engine(a=1))


def test_another_card_is_no_factor() -> None:
    with pytest.raises(UsageError, match="different hardware") as refused:
        derive(load_recipe("vanilla"), load_recipe("b200-nvfp4"))
    assert "just compare" in refused.value.remedy


def test_factors_can_be_chosen_and_a_wrong_name_lists_them() -> None:
    factors = derive(load_recipe("vanilla"), load_recipe("h200-fp8"))
    assert [factor.slug for factor in choose(factors, ["mtp", "graphs"])] == ["graphs", "mtp"]
    assert choose(factors, []) == factors
    with pytest.raises(UsageError, match="no factor nonsense") as refused:
        choose(factors, ["nonsense"])
    assert "kv-cache" in refused.value.remedy


def test_what_is_not_chosen_stays_as_the_base_has_it() -> None:
    plan = plan_of(load_recipe("vanilla"), load_recipe("h200-fp8"), wanted=["mtp"], blocks=2, seed=1)
    assert [each.name for each in plan.configurations] == ["base", "full"]
    flags = plan.recipe("full").engine.flags
    assert "speculative_config" in flags
    assert "max_num_seqs" not in flags


def test_two_recipes_can_be_set_against_each_other_as_wholes() -> None:
    one, two = load_recipe("vanilla"), load_recipe("h200-fp8")
    plan = plan_of(one, two, wanted=[], together=True, blocks=3, seed=1)
    assert [each.name for each in plan.configurations] == ["base", "full"]
    assert len(plan.order) == 6
    assert plan.recipe("base").engine.flags == one.engine.flags
    assert plan.recipe("full").engine.flags == two.engine.flags
    factors = derive(one, two)
    (whole,) = plan.factors
    assert set(whole.keys) == {key for factor in factors for key in factor.keys}
    assert all(factor.slug in whole.name for factor in factors)
    some = plan_of(one, two, wanted=["mtp", "kv-cache"], together=True, only="removed", blocks=3, seed=1)
    assert [each.name for each in some.configurations] == ["full", "without-together"]
    without = some.recipe("without-together").engine.flags
    assert "speculative_config" not in without
    assert without["max_num_seqs"] == two.engine.flags["max_num_seqs"]
    (alone,) = plan_of(one, two, wanted=["mtp"], together=True, blocks=3, seed=1).factors
    assert alone.slug == "mtp"
