"""The recipe's flags with the engine's defaults, and what no plan is made for."""

from __future__ import annotations

from typing import Any

import pytest

from bench.errors import UsageError
from bench.explain.preflight.releases import check_flags, options, release_of
from bench.explain.preflight.settings import Settings, settings_of
from recipes.load import load_recipe
from recipes.schema import Recipe


def recipe(target: str = "h200-fp8", *, env: dict[str, str] | None = None, **flags: Any) -> Recipe:
    loaded = load_recipe(target)
    given = {name: value for name, value in (loaded.engine.flags | flags).items() if value is not None}
    engine = loaded.engine.model_copy(update={"flags": given, "env": loaded.engine.env if env is None else env})
    return loaded.model_copy(update={"engine": engine})


def settings(**flags: Any) -> Settings:
    return settings_of(recipe(**flags))


def test_defaults_are_the_engines_own() -> None:
    found = settings_of(load_recipe("vanilla"))
    assert (found.max_num_seqs, found.max_num_batched_tokens, found.utilization) == (1024, 8192, 0.92)
    assert (found.kv_bytes, found.draft_tokens, found.graph_mode) == (2, 0, "FULL_AND_PIECEWISE")
    assert "max_num_seqs" in found.defaulted
    assert not settings(enable_prefix_caching=None).prefix_caching


def test_flags_win_over_defaults() -> None:
    found = settings(max_num_seqs=8, gpu_memory_utilization=0.5, kv_cache_memory_bytes=7, language_model_only=False)
    assert (found.max_num_seqs, found.utilization, found.kv_cache_bytes, found.vision) == (8, 0.5, 7, True)


def test_capture_sizes_may_stand_as_a_flag_or_as_text() -> None:
    assert settings(compilation_config=None, cudagraph_capture_sizes=[5]).capture_sizes == (5,)
    assert settings(compilation_config='{"cudagraph_capture_sizes":[10],"cudagraph_mode":"none"}').graph_mode == "NONE"


def test_the_cpu_is_told_its_cache_in_gib() -> None:
    found = settings_of(load_recipe("cpu"))
    assert found.kv_cache_bytes == 2 << 30
    assert (found.block_alignment, found.graph_mode) == (128, "NONE")
    with pytest.raises(UsageError, match="VLLM_CPU_KVCACHE_SPACE"):
        settings_of(recipe("cpu", env={}))


@pytest.mark.parametrize(
    ("flags", "says"),
    [
        ({"max_num_seqs": 0}, "max_num_seqs"),
        ({"max_num_seqs": "64"}, "max_num_seqs"),
        ({"max_num_seqs": True}, "max_num_seqs"),
        ({"gpu_memory_utilization": 1.5}, "gpu_memory_utilization"),
        ({"kv_cache_dtype": "nvfp4"}, "kv_cache_dtype"),
        ({"mamba_ssm_cache_dtype": "int8"}, "mamba_ssm_cache_dtype"),
        ({"pipeline_parallel_size": 2}, "pipeline 2"),
        ({"speculative_config": {"method": "eagle", "num_speculative_tokens": 2}}, "eagle"),
        ({"speculative_config": {"method": "mtp"}}, "num_speculative_tokens"),
        ({"compilation_config": {"cudagraph_mode": "SOMETIMES"}}, "cudagraph_mode"),
        ({"compilation_config": {"cudagraph_capture_sizes": []}}, "cudagraph_capture_sizes"),
        ({"compilation_config": {"cudagraph_capture_sizes": [0]}}, "cudagraph_capture_sizes"),
        ({"compilation_config": {"max_cudagraph_capture_size": "512"}}, "max_cudagraph_capture_size"),
    ],
)
def test_what_cannot_be_planned_is_refused_by_name(flags: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says) as refused:
        settings(**flags)
    assert refused.value.remedy


def test_an_option_that_the_release_does_not_have_is_refused_with_the_nearest() -> None:
    with pytest.raises(UsageError, match="no option --max-num-seq ") as refused:
        settings(max_num_seq=8)
    assert "--max-num-seqs" in refused.value.remedy
    check_flags(["anything"], release_of("0.27.0"))  # a release whose parser was not read
    with pytest.raises(UsageError, match="no option --prefix-match-unit"):
        check_flags(["prefix_match_unit"], release_of("0.25.1"))


def test_every_option_that_the_recipes_use_is_listed() -> None:
    assert {"cudagraph_metrics", "prefix_match_unit", "gpu_memory_utilization", "speculative_config"} <= options(
        "0.26.0"
    )
    assert options("v0.26.0") == options("0.26.0")


def test_releases_differ_where_it_is_known() -> None:
    old, read, new = release_of("0.25.1"), release_of("v0.26.0"), release_of("0.29.0")
    assert (old.scratch_per_sequence, read.scratch_per_sequence) == (False, True)
    assert (old.prefix_match_unit, read.prefix_match_unit) == (False, True)
    assert (read.rounds_captures, new.rounds_captures) == (True, False)
    assert read.was_read
    assert not new.was_read


@pytest.mark.parametrize("version", ["0.19.2", "", "main"])
def test_an_unknown_or_old_release_is_refused(version: str) -> None:
    with pytest.raises(UsageError, match="no plan"):
        release_of(version)
