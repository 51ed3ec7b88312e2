"""Bytes of a model's weights, part by part, from its shapes.

The linears are those that vLLM 0.26.0 builds (`qwen3_5.py`, `qwen3_next.py`, `qwen3_5_mtp.py`, `qwen3_vl.py` in
`vllm/model_executor/models`). Names are the checkpoint's, so that its list of what is not quantized applies.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias

from bench.explain.preflight.shapes import ModelShapes, Vision

Part: TypeAlias = Literal[
    "routed experts", "MLP and routers", "attention", "GDN", "embedding", "LM head", "norms", "MTP", "vision"
]

_TEXT: Final = "model.language_model"
BF16: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Tensor:
    """Equal tensors of a checkpoint.

    Attributes:
        part: where they belong.
        module: name of the (first) module.
        rows, columns: of one; a vector has one row.
        copies: how many.
        linear: may be quantized.
    """

    part: Part
    module: str
    rows: int
    columns: int
    copies: int = 1
    linear: bool = False

    @property
    def values(self) -> int:
        """Numbers in all of them."""
        return self.rows * self.columns * self.copies


@dataclass(frozen=True, slots=True, kw_only=True)
class PartWeights:
    """Bytes of one part.

    Attributes:
        part: its name.
        parameters: numbers.
        quantized: bytes of values that are quantized.
        scales: bytes of their scales.
        plain: bytes of what stays as it was trained, two for a number.
    """

    part: Part
    parameters: int
    quantized: int
    scales: int
    plain: int

    @property
    def total(self) -> int:
        """Bytes of the part."""
        return self.quantized + self.scales + self.plain


def weights(shapes: ModelShapes, *, draft: bool, vision: bool) -> tuple[PartWeights, ...]:
    """Bytes of every part that is loaded.

    Args:
        shapes: of the model.
        draft: the MTP layers are loaded (speculative decoding is on).
        vision: the vision tower is loaded (no `--language-model-only`).
    """
    tensors = list(tensors_of(shapes, draft=draft, vision=vision))
    parts = dict.fromkeys(tensor.part for tensor in tensors)
    return tuple(_sum(part, [t for t in tensors if t.part == part], shapes) for part in parts)


def tensors_of(shapes: ModelShapes, *, draft: bool, vision: bool) -> Iterator[Tensor]:
    """Every tensor that is loaded. Embedding and LM head are shared with the draft layers."""
    for index, kind in enumerate(shapes.layer_types):
        yield from _layer(shapes, f"{_TEXT}.layers.{index}", attention=kind == "full_attention")
    yield Tensor(part="embedding", module=f"{_TEXT}.embed_tokens", rows=shapes.vocabulary_rows, columns=shapes.hidden)
    yield Tensor(part="norms", module=f"{_TEXT}.norm", rows=1, columns=shapes.hidden)
    if not shapes.tied:
        yield Tensor(part="LM head", module="lm_head", rows=shapes.vocabulary_rows, columns=shapes.hidden, linear=True)
    if draft:
        yield from _draft(shapes)
    if vision and shapes.vision is not None:
        yield from _vision(shapes.vision)


def rotary_table_bytes(shapes: ModelShapes) -> int:
    """The table of sines and cosines: as long as the longest context, four times that with positions of three parts.

    Source: `RotaryEmbedding` and `MRotaryEmbedding` in vllm/model_executor/layers/rotary_embedding, vLLM 0.26.0.
    """
    return shapes.positions * (4 if shapes.multimodal_rope else 1) * shapes.rotary * BF16


def _sum(part: Part, tensors: Sequence[Tensor], shapes: ModelShapes) -> PartWeights:
    quantized = scales = plain = 0
    for tensor in tensors:
        if tensor.linear and shapes.quantization.covers(tensor.module):
            one, its_scales = shapes.quantization.bytes_of(tensor.rows, tensor.columns)
            quantized += one * tensor.copies
            scales += its_scales * tensor.copies
        else:
            plain += tensor.values * BF16
    parameters = sum(tensor.values for tensor in tensors)
    return PartWeights(part=part, parameters=parameters, quantized=quantized, scales=scales, plain=plain)


def _layer(shapes: ModelShapes, name: str, *, attention: bool) -> Iterator[Tensor]:
    yield from _attention(shapes, f"{name}.self_attn") if attention else _gdn(shapes, f"{name}.linear_attn")
    yield from _mlp(shapes, f"{name}.mlp")
    yield Tensor(part="norms", module=f"{name}.input_layernorm", rows=1, columns=shapes.hidden, copies=2)


def _attention(shapes: ModelShapes, name: str) -> Iterator[Tensor]:
    hybrid = shapes.hybrid
    queries, keys = shapes.heads * hybrid.head_dim, hybrid.num_key_value_heads * hybrid.head_dim
    yield _linear("attention", f"{name}.q_proj", queries * (2 if shapes.gated else 1), shapes.hidden)
    yield _linear("attention", f"{name}.k_proj", keys, shapes.hidden)
    yield _linear("attention", f"{name}.v_proj", keys, shapes.hidden)
    yield _linear("attention", f"{name}.o_proj", shapes.hidden, queries)
    yield Tensor(part="norms", module=f"{name}.q_norm", rows=1, columns=hybrid.head_dim, copies=2)


def _gdn(shapes: ModelShapes, name: str) -> Iterator[Tensor]:
    hybrid = shapes.hybrid
    keys = hybrid.linear_num_key_heads * hybrid.linear_key_head_dim
    heads = hybrid.linear_num_value_heads
    values = heads * hybrid.linear_value_head_dim
    yield _linear("GDN", f"{name}.in_proj_qkv", 2 * keys + values, shapes.hidden)
    yield _linear("GDN", f"{name}.in_proj_z", values, shapes.hidden)
    yield _linear("GDN", f"{name}.in_proj_b", heads, shapes.hidden)
    yield _linear("GDN", f"{name}.in_proj_a", heads, shapes.hidden)
    yield _linear("GDN", f"{name}.out_proj", shapes.hidden, values)
    yield Tensor(part="GDN", module=f"{name}.conv1d", rows=2 * keys + values, columns=hybrid.linear_conv_kernel_dim)
    yield Tensor(part="GDN", module=f"{name}.dt_bias", rows=1, columns=heads, copies=2)  # A_log beside it
    yield Tensor(part="norms", module=f"{name}.norm", rows=1, columns=hybrid.linear_value_head_dim)


def _mlp(shapes: ModelShapes, name: str) -> Iterator[Tensor]:
    experts, hidden = shapes.experts, shapes.hidden
    if experts is None:
        yield from _gated_mlp("MLP and routers", name, hidden, shapes.mlp_width)
        return
    yield from _gated_mlp("routed experts", f"{name}.experts", hidden, experts.width, copies=experts.count)
    yield Tensor(part="MLP and routers", module=f"{name}.gate", rows=experts.count, columns=hidden)
    if experts.shared_width:
        yield from _gated_mlp("MLP and routers", f"{name}.shared_expert", hidden, experts.shared_width)
        yield Tensor(part="MLP and routers", module=f"{name}.shared_expert_gate", rows=1, columns=hidden)


def _gated_mlp(part: Part, name: str, hidden: int, width: int, *, copies: int = 1) -> Iterator[Tensor]:
    module = f"{name}.0" if part == "routed experts" else name  # the first of them
    yield _linear(part, f"{module}.up_proj", width, hidden, 2 * copies)  # and the gate of the same shape
    yield _linear(part, f"{module}.down_proj", hidden, width, copies)


def _draft(shapes: ModelShapes) -> Iterator[Tensor]:
    for index in range(shapes.mtp_layers):
        for tensor in _layer(shapes, f"mtp.layers.{index}", attention=True):
            yield replace(tensor, part="MTP")
    yield _linear("MTP", "mtp.fc", shapes.hidden // shapes.tensor, 2 * shapes.hidden)
    yield Tensor(part="MTP", module="mtp.norm", rows=1, columns=shapes.hidden, copies=3)  # and one before each input


def _vision(vision: Vision) -> Iterator[Tensor]:
    width, merged = vision.width, vision.width * vision.merged
    depth = vision.depth
    yield _vision_linear("qkv", 3 * width, width, depth)
    yield _vision_linear("proj", width, width, depth)
    yield _vision_linear("fc1", vision.mlp_width, width, depth)
    yield _vision_linear("fc2", width, vision.mlp_width, depth)
    yield Tensor(part="vision", module="model.visual.norm", rows=1, columns=width, copies=4 * depth + 2)
    yield _vision_linear("patch_embed", width, vision.patch_values, 1)
    yield Tensor(part="vision", module="model.visual.pos_embed", rows=vision.positions, columns=width)
    yield _vision_linear("merger.fc1", merged, merged, 1)
    yield _vision_linear("merger.fc2", vision.out_width, merged, 1)


def _vision_linear(name: str, rows: int, columns: int, copies: int) -> Tensor:
    # One column more for the bias; no checkpoint of this family quantizes the tower.
    return Tensor(part="vision", module=f"model.visual.{name}", rows=rows, columns=columns + 1, copies=copies)


def _linear(part: Part, module: str, rows: int, columns: int, copies: int = 1) -> Tensor:
    return Tensor(part=part, module=module, rows=rows, columns=columns, copies=copies, linear=True)
