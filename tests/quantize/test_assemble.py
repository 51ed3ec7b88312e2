import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.errors import StreamproofError
from quantize.assemble import ignored, replaced, shards, with_ignored

LAYER = "model.language_model.layers.0."


def test_experts_take_the_place_of_the_fused_tensors() -> None:
    exported = [f"{LAYER}mlp.experts.7.{p}_proj.{t}" for p in ("gate", "up", "down") for t in ("weight", "input_scale")]
    source = {f"{LAYER}mlp.experts.gate_up_proj", f"{LAYER}mlp.experts.down_proj", f"{LAYER}mlp.gate.weight"}
    assert replaced(exported, source) == source - {f"{LAYER}mlp.gate.weight"}


def test_linears_take_their_own_place_and_kv_scales_none() -> None:
    exported = [f"{LAYER}self_attn.q_proj.weight", f"{LAYER}self_attn.k_proj.k_scale"]
    assert replaced(exported, {f"{LAYER}self_attn.q_proj.weight"}) == {f"{LAYER}self_attn.q_proj.weight"}


def test_a_weight_that_belongs_nowhere() -> None:
    with pytest.raises(StreamproofError, match="the source has no"):
        replaced([f"{LAYER}mlp.experts.0.gate_proj.weight"], {"other"})


def test_what_transformers_never_shows_modelopt_is_ignored_too() -> None:
    names = {"model.language_model.embed_tokens.weight", "mtp.fc.weight"}
    found = ignored([f"{LAYER}mlp.gate"], names, {"vision_config": {}})
    assert found == ["lm_head", "model.language_model.embed_tokens", f"{LAYER}mlp.gate", "model.visual*", "mtp*"]


def test_both_lists_are_the_same() -> None:
    hf, quantization = with_ignored(
        {"producer": 1, "quantization": {"quant_algo": "NVFP4", "exclude_modules": ["a"]}},
        {"quant_method": "modelopt", "ignore": ["a"]},
        ["b", "mtp*"],
    )
    assert hf["quantization"] == {"quant_algo": "NVFP4", "exclude_modules": ["b", "mtp*"]}
    assert quantization == {"quant_method": "modelopt", "ignore": ["b", "mtp*"]}


@given(st.lists(st.integers(0, 100), max_size=30), st.integers(1, 120))
def test_shards_keep_the_order_and_the_limit(sizes: list[int], limit: int) -> None:
    named = {str(number): size for number, size in enumerate(sizes)}
    groups = shards(named, limit)
    assert [name for group in groups for name in group] == list(named)
    assert all(groups)
    for group in groups:
        assert len(group) == 1 or sum(named[name] for name in group) <= limit
