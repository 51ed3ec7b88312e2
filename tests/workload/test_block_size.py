"""Against block sizes that vLLM 0.26.0 printed: "Setting attention block size to N tokens"."""

from __future__ import annotations

import pytest

from bench.workload.block_size import HybridShapes, attention_block_size

QWEN35_35B_A3B = HybridShapes(
    num_key_value_heads=2,
    head_dim=256,
    linear_num_key_heads=16,
    linear_num_value_heads=32,
    linear_key_head_dim=128,
    linear_value_head_dim=128,
    linear_conv_kernel_dim=4,
)


def toy(key_heads: int, value_heads: int) -> HybridShapes:
    return HybridShapes(
        num_key_value_heads=2,
        head_dim=64,
        linear_num_key_heads=key_heads,
        linear_num_value_heads=value_heads,
        linear_key_head_dim=128,
        linear_value_head_dim=128,
        linear_conv_kernel_dim=4,
    )


@pytest.mark.parametrize(
    ("kv_bytes", "draft_tokens", "measured"),
    [
        pytest.param(2, 0, 1056, id="BF16 KV on an H200"),
        pytest.param(1, 4, 2160, id="FP8 KV and MTP4 on an H200"),
        pytest.param(1, 0, 2096, id="FP8 KV, from public logs"),
    ],
)
def test_real_model(kv_bytes: int, draft_tokens: int, measured: int) -> None:
    assert attention_block_size(QWEN35_35B_A3B, kv_bytes=kv_bytes, draft_tokens=draft_tokens) == measured


@pytest.mark.parametrize(
    ("shapes", "state_bytes", "measured"),
    [
        pytest.param(toy(1, 1), 4, 256, id="the bundled toy"),
        pytest.param(toy(2, 4), 4, 640, id="four value heads"),
        pytest.param(toy(2, 4), 2, 384, id="four value heads, BF16 state"),
    ],
)
def test_toys_on_the_cpu(shapes: HybridShapes, state_bytes: int, measured: int) -> None:
    assert attention_block_size(shapes, kv_bytes=2, state_bytes=state_bytes, alignment=128) == measured


def test_a_state_that_fits_exactly_needs_no_further_block() -> None:
    shapes = toy(1, 1)
    state = shapes.bytes_per_state(state_bytes=4, conv_bytes=2, draft_tokens=0)
    per_token = shapes.bytes_per_token(2)
    assert state == 67_840
    assert per_token == 512
    assert attention_block_size(shapes, kv_bytes=2, alignment=1) == -(-state // per_token)
