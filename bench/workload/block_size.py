"""The block size of a hybrid model's prefix cache, from its shapes, before any engine is started.

A hit comes in whole blocks, so this number decides how long a shared prefix must be to be worth anything. A running
engine reports it (`block_size` of `vllm:cache_config_info`), and what it reports counts; this is for planning a recipe.

Source: `Platform._align_hybrid_block_size` in `vllm/platforms/interface.py` and `gated_delta_net_state_shape` in
`vllm/model_executor/layers/mamba/mamba_utils.py`, vLLM 0.26.0: attention blocks and recurrent states share one pool of
equal pages, so a block is as many tokens as it takes for their keys and values to be no smaller than one state.
"""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class HybridShapes:
    """The shapes that decide, named as in a Qwen3.5 `text_config`, for one GPU (no tensor parallelism).

    Attributes:
        num_key_value_heads: of an attention layer.
        head_dim: of an attention layer.
        linear_num_key_heads: of a gated-delta-net layer.
        linear_num_value_heads: of a gated-delta-net layer.
        linear_key_head_dim: of a gated-delta-net layer.
        linear_value_head_dim: of a gated-delta-net layer.
        linear_conv_kernel_dim: of a gated-delta-net layer.
    """

    num_key_value_heads: int
    head_dim: int
    linear_num_key_heads: int
    linear_num_value_heads: int
    linear_key_head_dim: int
    linear_value_head_dim: int
    linear_conv_kernel_dim: int

    def bytes_per_token(self, kv_bytes: int) -> int:
        """Keys and values of one token in one attention layer."""
        return 2 * self.num_key_value_heads * self.head_dim * kv_bytes

    def bytes_per_state(self, *, state_bytes: int, conv_bytes: int, draft_tokens: int) -> int:
        """One gated-delta-net layer: the state of its delta rule, and the inputs that its convolution looks at."""
        channels = (
            2 * self.linear_num_key_heads * self.linear_key_head_dim
            + self.linear_num_value_heads * self.linear_value_head_dim
        )
        # Draft tokens lengthen the window: a rejected one must be undone.
        convolution = channels * (self.linear_conv_kernel_dim - 1 + draft_tokens) * conv_bytes
        return convolution + (
            self.linear_num_value_heads * self.linear_value_head_dim * self.linear_key_head_dim * state_bytes
        )


def attention_block_size(  # noqa: PLR0913  five facts of the engine, each with a name, four with a default
    shapes: HybridShapes,
    *,
    kv_bytes: int,
    draft_tokens: int = 0,
    state_bytes: int = 4,
    conv_bytes: int = 2,
    alignment: int = 16,
) -> int:
    """Tokens of one block of a hybrid model with prefix caching in mode "align".

    Args:
        shapes: of the model.
        kv_bytes: bytes of one number in the KV cache: 2 for BF16, 1 for FP8.
        draft_tokens: `num_speculative_tokens`; 0 without speculative decoding.
        state_bytes: bytes of one number of the delta-rule state (`mamba_ssm_dtype`; Qwen3.5 says float32).
        conv_bytes: bytes of one number of the convolution's inputs: those of the model's activations.
        alignment: the larger of the engine's default block size and the smallest block that its attention kernel takes:
            16 for FlashAttention on a GPU, 128 on the CPU.
    """
    state = shapes.bytes_per_state(state_bytes=state_bytes, conv_bytes=conv_bytes, draft_tokens=draft_tokens)
    return alignment * math.ceil(state / (alignment * shapes.bytes_per_token(kv_bytes)))
