"""Ignore lists. What vLLM reads was compared with vLLM 0.26.0 itself (`is_layer_excluded`) on the lists below."""

from __future__ import annotations

import pytest

from quantize.audit.patterns import IgnoreList

LAYER = "model.language_model.layers.1."
EXPERTS = [f"{LAYER}mlp.experts.{expert}.up_proj" for expert in (0, 1)]
QKV = [f"{LAYER}self_attn.{name}_proj" for name in "qkv"]


@pytest.mark.parametrize(
    ("pattern", "module", "left_out"),
    [
        ("lm_head", "lm_head", True),
        ("lm_head*", "lm_head", True),
        ("mtp*", "mtp.fc", True),
        ("mtp.layers.0*", "mtp.fc", False),
        ("mtp.layers.0*", "mtp.layers.0.mlp.experts.3.up_proj", True),
        (f"{LAYER}mlp.shared_expert*", f"{LAYER}mlp.shared_expert_gate", True),
        (f"{LAYER}mlp.gate", f"{LAYER}mlp.gate_proj", False),
        (f"{LAYER}mlp.gate", "model.language_model.layers.11.mlp.gate", False),
        ("*linear_attn*", f"{LAYER}linear_attn.out_proj", True),
        ("mlp.experts", EXPERTS[0], False),
        ("*.[ab]", "x.a", True),
        ("LM_HEAD", "lm_head", False),
    ],
)
def test_a_module_is_left_out_as_modelopt_means_it(pattern: str, module: str, left_out: bool) -> None:
    ignored = IgnoreList(["other", pattern])
    assert ignored.leaves_out(module) is left_out
    assert ignored.covering(module) == (pattern if left_out else None)


@pytest.mark.parametrize(
    ("patterns", "layer", "members", "left_out"),
    [
        (["mlp.experts"], f"{LAYER}mlp.experts", EXPERTS, True),
        ([f"{LAYER}mlp.experts.0.up_proj"], f"{LAYER}mlp.experts", EXPERTS, True),
        (["*experts*"], f"{LAYER}mlp.experts", EXPERTS, True),
        ([f"{LAYER}mlp.gate"], f"{LAYER}mlp.experts", EXPERTS, False),
        ([f"{LAYER}mlp.shared_expert*"], f"{LAYER}mlp.experts", EXPERTS, False),
        (QKV, f"{LAYER}self_attn.qkv_proj", QKV, True),
        ([f"{LAYER}self_attn*"], f"{LAYER}self_attn.qkv_proj", QKV, True),
        ([f"{LAYER}linear_attn*"], f"{LAYER}self_attn.qkv_proj", QKV, False),
        (["model.visual*"], "model.visual.blocks.0.attn.qkv", ["model.visual.blocks.0.attn.qkv"], True),
        (["mtp*"], "mtp.layers.0.mlp.experts", ["mtp.layers.0.mlp.experts.0.up_proj"], True),
        (["mtp.layers.0*"], "mtp.fc", ["mtp.fc"], False),
        (["lm_head*"], "lm_head", ["lm_head"], True),
        (["o_proj"], f"{LAYER}self_attn.o_proj", [f"{LAYER}self_attn.o_proj"], True),
        ([], "lm_head", ["lm_head"], False),
    ],
)
def test_a_layer_is_left_out_as_vllm_reads_it(
    patterns: list[str], layer: str, members: list[str], left_out: bool
) -> None:
    assert IgnoreList(patterns).engine_leaves_out(layer, members) is left_out
