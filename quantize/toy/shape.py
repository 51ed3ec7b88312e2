"""The toy's shape: every width in one place, the engine's configuration and the tensors that follow from it.

The architecture is Qwen3.5-35B-A3B's, so that the engine runs the same code paths: three Gated DeltaNet layers and one
of full attention, a mixture of experts with a shared expert in each, and a multi-token-prediction (MTP) layer. The
widths are as small as the engine's kernels allow. Nothing here needs torch, so the client can check the file.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """Widths of the toy. Every matrix has sides that are multiples of 64, so that block formats (NVFP4) fit.

    Attributes:
        vocab: entries of the embedding, which is also the output projection.
        hidden: width of the residual stream.
        layers: decoder layers; every `attention_interval`-th one attends, the others are Gated DeltaNet.
        attention_interval: see `layers`.
        heads: query heads of an attention layer; each also has a gate of its own width.
        kv_heads: key and value heads of an attention layer.
        head_dim: width of an attention head.
        rotary_factor: share of a head that is rotated by position.
        mrope_section: how the rotated frequency pairs are split over time, height and width; adds up to all of them.
        rope_theta: base of the rotation.
        gdn_key_heads: key heads of a Gated DeltaNet layer.
        gdn_value_heads: value heads of a Gated DeltaNet layer.
        gdn_head_dim: width of both; the engine's CPU kernels know 128 only.
        conv_kernel: taps of the short convolution before the delta rule.
        experts: routed experts of a layer.
        experts_per_token: how many of them a token visits.
        expert_width: inner width of a routed expert.
        shared_width: inner width of the shared expert.
        context: longest sequence.
    """

    vocab: int = 2048
    hidden: int = 256
    layers: int = 4
    attention_interval: int = 4
    heads: int = 4
    kv_heads: int = 2
    head_dim: int = 64
    rotary_factor: float = 0.25
    mrope_section: tuple[int, int, int] = (3, 3, 2)
    rope_theta: float = 100_000.0
    gdn_key_heads: int = 1
    gdn_value_heads: int = 1
    gdn_head_dim: int = 128
    conv_kernel: int = 4
    experts: int = 8
    experts_per_token: int = 2
    expert_width: int = 64
    shared_width: int = 64
    context: int = 16_384

    @property
    def layer_types(self) -> list[str]:
        """Of each layer, "linear_attention" (Gated DeltaNet) or "full_attention"."""
        return [
            "full_attention" if (index + 1) % self.attention_interval == 0 else "linear_attention"
            for index in range(self.layers)
        ]

    @property
    def gdn_key_width(self) -> int:
        """All key heads of a Gated DeltaNet layer side by side."""
        return self.gdn_key_heads * self.gdn_head_dim

    @property
    def gdn_value_width(self) -> int:
        """All value heads of a Gated DeltaNet layer side by side."""
        return self.gdn_value_heads * self.gdn_head_dim


TOY: Final = Shape()
"""The shape of the committed checkpoint."""

LANGUAGE_PREFIX: Final = "model.language_model."
"""Before every tensor of the decoder in the checkpoint, as in Qwen3.5's own."""


def text_config(shape: Shape, *, end_token_id: int, pad_token_id: int) -> dict[str, Any]:
    """The language model's part of `config.json`.

    Args:
        shape: the widths.
        end_token_id: token that ends a reply.
        pad_token_id: token that ends a document.

    Returns:
        The keys of transformers' `Qwen3_5MoeTextConfig` and those that only the engine reads (`mtp_*`,
        `mamba_ssm_dtype`, `attn_output_gate`).
    """
    return {
        "model_type": "qwen3_5_moe_text",
        "dtype": "bfloat16",
        "vocab_size": shape.vocab,
        "hidden_size": shape.hidden,
        "num_hidden_layers": shape.layers,
        "full_attention_interval": shape.attention_interval,
        "layer_types": shape.layer_types,
        "num_attention_heads": shape.heads,
        "num_key_value_heads": shape.kv_heads,
        "head_dim": shape.head_dim,
        "attention_bias": False,
        "attention_dropout": 0.0,
        "attn_output_gate": True,
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": shape.rope_theta,
            "partial_rotary_factor": shape.rotary_factor,
            "mrope_section": list(shape.mrope_section),
            "mrope_interleaved": True,
        },
        "linear_num_key_heads": shape.gdn_key_heads,
        "linear_num_value_heads": shape.gdn_value_heads,
        "linear_key_head_dim": shape.gdn_head_dim,
        "linear_value_head_dim": shape.gdn_head_dim,
        "linear_conv_kernel_dim": shape.conv_kernel,
        "mamba_ssm_dtype": "float32",
        "num_experts": shape.experts,
        "num_experts_per_tok": shape.experts_per_token,
        "moe_intermediate_size": shape.expert_width,
        "shared_expert_intermediate_size": shape.shared_width,
        "router_aux_loss_coef": 0.001,
        "output_router_logits": False,
        "hidden_act": "silu",
        "rms_norm_eps": 1e-6,
        "initializer_range": 0.02,
        "max_position_embeddings": shape.context,
        "tie_word_embeddings": True,
        "use_cache": True,
        "mtp_num_hidden_layers": 1,
        "mtp_use_dedicated_embeddings": False,
        "bos_token_id": None,
        "eos_token_id": end_token_id,
        "pad_token_id": pad_token_id,
    }


def model_config(shape: Shape, *, end_token_id: int, pad_token_id: int, vision_token_id: int) -> dict[str, Any]:
    """`config.json` of the whole checkpoint, in the layout that the engine loads Qwen3.5-MoE from.

    The engine knows this architecture only together with its vision tower. The checkpoint has no weights for one, so
    it must be served with `--language-model-only`; the tower described here is the smallest that the classes accept.

    Args:
        shape: the widths.
        end_token_id: token that ends a reply.
        pad_token_id: token that ends a document.
        vision_token_id: the first of four reserved tokens; no text contains them.

    Returns:
        The configuration, ready for JSON.
    """
    return {
        "architectures": ["Qwen3_5MoeForConditionalGeneration"],
        "model_type": "qwen3_5_moe",
        "dtype": "bfloat16",
        "tie_word_embeddings": True,
        "image_token_id": vision_token_id,
        "video_token_id": vision_token_id + 1,
        "vision_start_token_id": vision_token_id + 2,
        "vision_end_token_id": vision_token_id + 3,
        "text_config": text_config(shape, end_token_id=end_token_id, pad_token_id=pad_token_id),
        "vision_config": {
            "model_type": "qwen3_5_moe_vision",
            "depth": 1,
            "hidden_size": 64,
            "hidden_act": "gelu_pytorch_tanh",
            "intermediate_size": 64,
            "num_heads": 1,
            "in_channels": 3,
            "patch_size": 16,
            "spatial_merge_size": 2,
            "temporal_patch_size": 2,
            "num_position_embeddings": 64,
            "out_hidden_size": shape.hidden,
            "initializer_range": 0.02,
        },
    }


def tensor_shapes(shape: Shape) -> dict[str, tuple[int, ...]]:
    """Every tensor of the checkpoint by name, all BF16.

    The decoder's experts are fused (one tensor a projection); the MTP layer's are apart, one tensor an expert, as in
    the published Qwen3.5-MoE checkpoints. There is no `lm_head`: it is the embedding.

    Args:
        shape: the widths.

    Returns:
        Name to dimensions.
    """
    hidden = shape.hidden
    tensors: dict[str, tuple[int, ...]] = {
        f"{LANGUAGE_PREFIX}embed_tokens.weight": (shape.vocab, hidden),
        f"{LANGUAGE_PREFIX}norm.weight": (hidden,),
    }
    for index, kind in enumerate(shape.layer_types):
        layer = f"{LANGUAGE_PREFIX}layers.{index}."
        mixer = _attention(shape, layer) if kind == "full_attention" else _gated_delta_net(shape, layer)
        tensors |= mixer | _block(shape, layer)
        tensors[f"{layer}mlp.experts.gate_up_proj"] = (shape.experts, 2 * shape.expert_width, hidden)
        tensors[f"{layer}mlp.experts.down_proj"] = (shape.experts, hidden, shape.expert_width)
    layer = "mtp.layers.0."
    tensors |= _attention(shape, layer) | _block(shape, layer)
    for expert in range(shape.experts):
        tensors |= _feed_forward(f"{layer}mlp.experts.{expert}.", hidden, shape.expert_width)
    return tensors | {
        "mtp.fc.weight": (hidden, 2 * hidden),
        "mtp.norm.weight": (hidden,),
        "mtp.pre_fc_norm_embedding.weight": (hidden,),
        "mtp.pre_fc_norm_hidden.weight": (hidden,),
    }


def _block(shape: Shape, layer: str) -> dict[str, tuple[int, ...]]:
    """What every layer has besides its mixer and its routed experts."""
    return {
        f"{layer}input_layernorm.weight": (shape.hidden,),
        f"{layer}post_attention_layernorm.weight": (shape.hidden,),
        f"{layer}mlp.gate.weight": (shape.experts, shape.hidden),
        f"{layer}mlp.shared_expert_gate.weight": (1, shape.hidden),
    } | _feed_forward(f"{layer}mlp.shared_expert.", shape.hidden, shape.shared_width)


def _feed_forward(prefix: str, hidden: int, width: int) -> dict[str, tuple[int, ...]]:
    return {
        f"{prefix}gate_proj.weight": (width, hidden),
        f"{prefix}up_proj.weight": (width, hidden),
        f"{prefix}down_proj.weight": (hidden, width),
    }


def _attention(shape: Shape, layer: str) -> dict[str, tuple[int, ...]]:
    queries, keys = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    return {
        # Half of q_proj's rows are the output gate.
        f"{layer}self_attn.q_proj.weight": (2 * queries, shape.hidden),
        f"{layer}self_attn.k_proj.weight": (keys, shape.hidden),
        f"{layer}self_attn.v_proj.weight": (keys, shape.hidden),
        f"{layer}self_attn.o_proj.weight": (shape.hidden, queries),
        f"{layer}self_attn.q_norm.weight": (shape.head_dim,),
        f"{layer}self_attn.k_norm.weight": (shape.head_dim,),
    }


def _gated_delta_net(shape: Shape, layer: str) -> dict[str, tuple[int, ...]]:
    mixed = 2 * shape.gdn_key_width + shape.gdn_value_width
    return {
        f"{layer}linear_attn.in_proj_qkv.weight": (mixed, shape.hidden),
        f"{layer}linear_attn.in_proj_z.weight": (shape.gdn_value_width, shape.hidden),
        f"{layer}linear_attn.in_proj_a.weight": (shape.gdn_value_heads, shape.hidden),
        f"{layer}linear_attn.in_proj_b.weight": (shape.gdn_value_heads, shape.hidden),
        f"{layer}linear_attn.conv1d.weight": (mixed, 1, shape.conv_kernel),
        f"{layer}linear_attn.A_log": (shape.gdn_value_heads,),
        f"{layer}linear_attn.dt_bias": (shape.gdn_value_heads,),
        f"{layer}linear_attn.norm.weight": (shape.gdn_head_dim,),
        f"{layer}linear_attn.out_proj.weight": (shape.hidden, shape.gdn_value_width),
    }
