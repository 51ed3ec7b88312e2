"""The recipes say what the article says, and mark what it does not."""

import json

import pytest

from recipes.command import engine_arguments, shell_command
from recipes.load import load_recipe, targets

ARTICLE_CAPTURE_LIST = [
    *[1, 2, 4],
    *range(8, 257, 8),
    *range(272, 513, 16),
    *[640, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384],
]


def test_the_targets_that_the_mission_names_are_there() -> None:
    wanted = {"vanilla", "h200-fp8", "b200-fp8", "b200-nvfp4", "h200-fp8-dummy", "cpu", "cpu-mtp"}
    assert wanted <= set(targets())


def test_b200_nvfp4_is_the_deployed_configuration() -> None:
    recipe = load_recipe("b200-nvfp4")
    flags = recipe.engine.flags
    assert (recipe.hardware.gpu, recipe.hardware.count, recipe.checkpoint.precision) == ("B200", 1, "nvfp4")
    assert flags["compilation_config"] == {
        "cudagraph_mode": "FULL_AND_PIECEWISE",
        "cudagraph_capture_sizes": ARTICLE_CAPTURE_LIST,
        "max_cudagraph_capture_size": 16384,
    }
    assert flags["max_num_seqs"] == 64
    assert flags["max_num_batched_tokens"] == 16384
    assert flags["enable_prefix_caching"] is True
    assert flags["enable_chunked_prefill"] is True
    assert flags["kv_cache_dtype"] == "fp8"
    assert flags["quantization"] == "modelopt_fp4"
    assert flags["speculative_config"] == {"method": "mtp", "num_speculative_tokens": 4}
    assert (recipe.workload.prompt_tokens, recipe.workload.output_tokens) == (10_000, 100)
    assert [p.streams for p in recipe.load.ladder if p.streams] == [20, 40, 60]


def test_the_claims_are_the_published_figures() -> None:
    claims = {claim.id: claim for claim in load_recipe("b200-nvfp4").claims}
    figures = {
        key: (c.targets, c.point.streams or c.point.concurrent, c.quantile, c.value_s, c.kind, c.hardware, c.precision)
        for key, c in claims.items()
    }
    assert figures == {
        "start-20": (["vanilla"], 20, 0.95, 1.0, "recollection", None, None),
        "b200-40": (["b200-nvfp4"], 40, 0.95, 0.5, "measured", "B200", "nvfp4"),
        "b200-60": (["b200-nvfp4"], 60, 0.95, 0.8, "measured", "B200", "nvfp4"),
        "h200-fp8-16-p50": (["h200-fp8"], 16, 0.5, 1.275, "measured", "H200", "fp8"),
        "h200-fp8-16-p90": (["h200-fp8"], 16, 0.9, 1.884, "measured", "H200", "fp8"),
        "b200-fp8-16-p50": (["b200-fp8"], 16, 0.5, 0.716, "measured", "B200", "fp8"),
        "b200-fp8-16-p90": (["b200-fp8"], 16, 0.9, 1.231, "measured", "B200", "fp8"),
        "nvfp4-over-fp8-40": (["b200-nvfp4"], 40, 0.95, 0.5, "measured", "B200", "nvfp4"),
    }
    assert (claims["nvfp4-over-fp8-40"].against, claims["nvfp4-over-fp8-40"].against_value_s) == ("b200-fp8", 0.6)
    for claim in claims.values():
        assert f"{claim.value_s:.3f}".rstrip("0") in claim.quote or f"{claim.value_s * 1000:,.0f}" in claim.quote


@pytest.mark.parametrize("target", [t for t in targets() if t.startswith(("vanilla", "b200", "h200"))])
def test_what_the_article_does_not_say_is_marked_as_an_assumption(target: str) -> None:
    sources = load_recipe(target).sources
    for key in ("load.turn_gap.mean_s", "workload.agents", "workload.shared_prefix_tokens", "workload.turns"):
        assert sources[key].kind == "assumption", key


@pytest.mark.parametrize("target", ["cpu", "cpu-mtp"])
def test_what_was_made_smaller_is_marked_as_scaled(target: str) -> None:
    recipe = load_recipe(target)
    for key in ("workload.prompt_tokens", "workload.output_tokens", "load.ladder", "hardware.kind"):
        assert recipe.sources[key].kind == "scaled", key
    assert recipe.checkpoint.real is False


def test_engine_arguments() -> None:
    arguments = engine_arguments(load_recipe("cpu-mtp"), model="/models/toy", host="127.0.0.1", port=8123)
    assert arguments[:8] == [
        "--model", "/models/toy", "--served-model-name", "cpu-mtp", "--host", "127.0.0.1", "--port", "8123",
    ]  # fmt: skip
    assert "--no-enable-prefix-caching" in arguments
    assert "--enforce-eager" in arguments
    spec = json.loads(arguments[arguments.index("--speculative-config") + 1])
    assert spec == {"method": "mtp", "num_speculative_tokens": 4}


def test_lists_and_revisions_on_the_command_line() -> None:
    recipe = load_recipe(
        "vanilla", {"checkpoint.revision": f"'{'a' * 40}'", "engine.flags.cudagraph_capture_sizes": "[1, 2]"}
    )
    shell = " ".join(shell_command(recipe))
    assert shell.startswith(f"vllm serve Qwen/Qwen3.5-35B-A3B-FP8 --revision {'a' * 40} ")
    assert "--cudagraph-capture-sizes 1 2" in shell
    assert f"--revision {'a' * 40}" in " ".join(engine_arguments(recipe, model="m", host="h", port=1))
