"""One GPU's part of a model: what tensor and data parallel divide, and what every GPU has whole.

- Tensor parallel divides the heads of attention and GDN, the widths of MLPs, the rows of embedding and LM head, and
  with the heads the keys, values and states; keys and values of fewer heads than GPUs are there several times. Norms,
  routers and the rotary table are whole everywhere.
- Data-parallel ranks have all of that for themselves, but not the routed experts: those are divided among all GPUs of
  all ranks, each expert by its width (with `--enable-expert-parallel` whole experts, which are the same bytes), and the
  tokens of all ranks come together in them.

Source: `Qwen3NextAttention` in vllm/model_executor/models/qwen3_next.py, `gated_delta_net_state_shape` in
vllm/model_executor/layers/mamba/mamba_utils.py, `flatten_tp_across_dp_and_pcp` in
vllm/model_executor/layers/fused_moe/config.py, `Fp8MoEMethod.create_weights` in
vllm/model_executor/layers/quantization/fp8.py, vLLM 0.26.0.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from bench.explain.preflight.settings import Settings
    from bench.explain.preflight.shapes import ModelShapes


def one_gpu(shapes: ModelShapes, settings: Settings) -> ModelShapes:
    """The shapes of one GPU's part; the model's own on a single GPU. What does not divide is rounded down.

    Args:
        shapes: of the whole model.
        settings: of the engine.
    """
    tensor, everywhere = settings.tensor, settings.tensor * settings.data
    hybrid, experts = shapes.hybrid, shapes.experts
    if experts is not None:
        experts = replace(
            experts,
            width=max(1, experts.width // everywhere),
            shared_width=experts.shared_width // tensor,
            gathered=settings.data,
        )
    return replace(
        shapes,
        heads=max(1, shapes.heads // tensor),
        hybrid=replace(
            hybrid,
            num_key_value_heads=max(1, hybrid.num_key_value_heads // tensor),
            linear_num_key_heads=max(1, hybrid.linear_num_key_heads // tensor),
            linear_num_value_heads=max(1, hybrid.linear_num_value_heads // tensor),
        ),
        experts=experts,
        mlp_width=shapes.mlp_width // tensor,
        tensor=tensor,
    )


def indivisible(shapes: ModelShapes, settings: Settings) -> Iterator[str]:
    """What the engine will refuse to divide, each with its numbers.

    Args:
        shapes: of the whole model.
        settings: of the engine.
    """
    tensor, hybrid, experts = settings.tensor, shapes.hybrid, shapes.experts
    for what, count in (
        ("attention heads", shapes.heads),
        ("GDN key heads", hybrid.linear_num_key_heads),
        ("GDN value heads", hybrid.linear_num_value_heads),
    ):
        if count % tensor:
            yield f"{count} {what} over {tensor} GPUs"
    keys = hybrid.num_key_value_heads
    if keys % tensor and tensor % keys:
        yield f"{keys} heads of keys and values over {tensor} GPUs"
    if experts is not None:
        everywhere = 1 if settings.expert_parallel else tensor * settings.data
        yield from _in_blocks("experts", experts.width, everywhere, shapes)
        yield from _in_blocks("the shared expert", experts.shared_width, tensor, shapes)
        if settings.expert_parallel and experts.count % (tensor * settings.data):
            yield f"{experts.count} experts over {tensor * settings.data} GPUs"
    else:
        yield from _in_blocks("the MLP", shapes.mlp_width, tensor, shapes)


def _in_blocks(what: str, width: int, gpus: int, shapes: ModelShapes) -> Iterator[str]:
    block = max(shapes.quantization.block or (1, 1))
    if gpus > 1 and width % (gpus * block):
        in_blocks = f", in blocks of {block}" if block > 1 else ""
        yield f"{what} of width {width} over {gpus} GPUs{in_blocks}"
