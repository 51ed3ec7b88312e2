"""The shapes of a model, from its `config.json`: the part of it that decides memory and work.

Names are those of transformers' `Qwen3_5MoeConfig` and `Qwen3_5Config`. What vLLM builds from them is read in
`vllm/model_executor/models/qwen3_5.py` and `qwen3_5_mtp.py`, vLLM 0.26.0.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from bench.errors import UsageError
from bench.explain.preflight.quantization import Quantization, quantization_of
from bench.workload.block_size import HybridShapes

if TYPE_CHECKING:
    from pathlib import Path

ARCHITECTURES: Final = (
    "Qwen3_5MoeForConditionalGeneration",
    "Qwen3_5MoeForCausalLM",
    "Qwen3_5ForConditionalGeneration",
    "Qwen3_5ForCausalLM",
)
"""Those whose layers `bench.explain.preflight.weights` knows."""

_STATE_BYTES: Final = {"float32": 4, "bfloat16": 2, "float16": 2}
_HALF: Final = ("bfloat16", "float16")


@dataclass(frozen=True, slots=True, kw_only=True)
class Experts:
    """A mixture-of-experts layer.

    Attributes:
        count: routed experts.
        per_token: of these, how many a token uses.
        width: intermediate size of one.
        shared_width: intermediate size of the shared expert; 0 without one.
        gathered: data-parallel ranks whose tokens come together in a layer.
    """

    count: int
    per_token: int
    width: int
    shared_width: int
    gathered: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Vision:
    """The vision tower, which `--language-model-only` leaves out."""

    depth: int
    width: int
    mlp_width: int
    patch_values: int
    positions: int
    merged: int
    out_width: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelShapes:
    """What decides memory and work.

    Attributes:
        architecture: as the configuration names it.
        hidden: width of the residual stream.
        vocabulary: rows of the embedding.
        layer_types: "linear_attention" (gated delta net, GDN) or "full_attention", in order.
        heads: query heads of an attention layer.
        gated: whether an attention layer's queries come with an output gate of the same size.
        hybrid: the shapes that decide cache blocks.
        experts: None for a dense model.
        mlp_width: intermediate size of a dense model's MLP; 0 with experts.
        mtp_layers: draft layers in the checkpoint.
        tied: the LM head is the embedding.
        vision: None where the checkpoint has none.
        positions: `max_position_embeddings`.
        rotary: dimensions of a head that rotate.
        multimodal_rope: positions have three parts; vLLM then makes a table four times as long.
        state_bytes: bytes of one number of a GDN state (`mamba_ssm_dtype`).
        quantization: how linear layers are stored.
        tensor: GPUs that share embedding, LM head and the rest of a rank; above 1 the shapes are one GPU's part
            (`bench.explain.preflight.sharding`), but for `vocabulary`.
    """

    architecture: str
    hidden: int
    vocabulary: int
    layer_types: tuple[str, ...]
    heads: int
    gated: bool
    hybrid: HybridShapes
    experts: Experts | None
    mlp_width: int
    mtp_layers: int
    tied: bool
    vision: Vision | None
    positions: int
    rotary: int
    multimodal_rope: bool
    state_bytes: int
    quantization: Quantization
    tensor: int = 1

    @property
    def vocabulary_rows(self) -> int:
        """Rows of the embedding, and of the LM head, on one GPU."""
        return math.ceil(self.vocabulary / self.tensor)

    @property
    def attention_layers(self) -> int:
        """Layers with keys and values, the draft layers left out."""
        return self.layer_types.count("full_attention")

    @property
    def gdn_layers(self) -> int:
        """Layers with a recurrent state."""
        return self.layer_types.count("linear_attention")


class _Table:
    """A table of the configuration, asked by key; a missing or wrong value names itself."""

    def __init__(self, values: Mapping[str, Any], where: str) -> None:
        self._values = values
        self._where = where

    def number(self, key: str, default: int | None = None) -> int:
        value = self._values.get(key, default)
        if value is None:
            raise UsageError(
                f"{self._where} has no {key}.",
                remedy="Name the model's own config.json, as it lies beside its weights: --config PATH",
            )
        if isinstance(value, bool) or not isinstance(value, int) or value < (0 if default is not None else 1):
            raise UsageError(f"{self._where}: {key} is {value!r}, which is no count.", remedy="Is the file damaged?")
        return value


def read_config(path: Path) -> dict[str, Any]:
    """Reads a `config.json`.

    Raises:
        UsageError: not there, or not a JSON object.
    """
    try:
        raw = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}", remedy="Name a model's config.json.") from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path} is not JSON.", remedy="Name a model's config.json, not its weights.") from error
    if not isinstance(raw, dict):
        raise UsageError(f"{path} is not a model's configuration.", remedy="Name a model's config.json.")
    return raw


def shapes_of(config: Mapping[str, Any], where: str) -> ModelShapes:
    """The shapes of a configuration.

    Args:
        config: a `config.json`, parsed.
        where: what to call it in an error.

    Raises:
        UsageError: an architecture that is not known here, a key that is missing, a value that cannot be.
    """
    architecture = _architecture(config, where)
    text = config.get("text_config", config)
    if not isinstance(text, Mapping):
        raise UsageError(f"{where}: text_config is no table.", remedy="Is the file damaged?")
    table = _Table(text, f"{where}, text_config" if "text_config" in config else where)
    heads, hidden = table.number("num_attention_heads"), table.number("hidden_size")
    head_dim = table.number("head_dim", hidden // heads)
    rope = text.get("rope_parameters") or {}
    vision = config.get("vision_config")
    return ModelShapes(
        architecture=architecture,
        hidden=hidden,
        vocabulary=table.number("vocab_size"),
        layer_types=_layer_types(text, table, where),
        heads=heads,
        gated=bool(text.get("attn_output_gate", True)),
        hybrid=HybridShapes(
            num_key_value_heads=table.number("num_key_value_heads"),
            head_dim=head_dim,
            linear_num_key_heads=table.number("linear_num_key_heads"),
            linear_num_value_heads=table.number("linear_num_value_heads"),
            linear_key_head_dim=table.number("linear_key_head_dim"),
            linear_value_head_dim=table.number("linear_value_head_dim"),
            linear_conv_kernel_dim=table.number("linear_conv_kernel_dim"),
        ),
        experts=_experts(table) if "Moe" in architecture else None,
        mlp_width=0 if "Moe" in architecture else table.number("intermediate_size"),
        mtp_layers=table.number("mtp_num_hidden_layers", 0),
        tied=bool(text.get("tie_word_embeddings", config.get("tie_word_embeddings", False))),
        vision=_vision(_Table(vision, f"{where}, vision_config")) if isinstance(vision, Mapping) else None,
        positions=table.number("max_position_embeddings"),
        rotary=int(head_dim * float(rope.get("partial_rotary_factor", 1.0))),
        multimodal_rope="mrope_section" in rope,
        state_bytes=_state_bytes(text, where),
        quantization=quantization_of(config.get("quantization_config"), where),
    )


def _architecture(config: Mapping[str, Any], where: str) -> str:
    names = config.get("architectures")
    name = names[0] if isinstance(names, list) and names else None
    if name not in ARCHITECTURES:
        said = f"the architecture {name}" if name else "no architecture"
        raise UsageError(
            f"{where} names {said}, whose memory is not known here.",
            remedy=f"Known: {', '.join(ARCHITECTURES)}. An engine's own log tells what any other model takes.",
        )
    return str(name)


def _layer_types(text: Mapping[str, Any], table: _Table, where: str) -> tuple[str, ...]:
    count, listed = table.number("num_hidden_layers"), text.get("layer_types")
    if listed is None:  # as transformers fills it in
        every = table.number("full_attention_interval", 4)
        return tuple("full_attention" if (i + 1) % every == 0 else "linear_attention" for i in range(count))
    if (
        not isinstance(listed, list)
        or len(listed) != count
        or not {"full_attention"} <= set(listed) <= {"full_attention", "linear_attention"}
    ):
        raise UsageError(
            f"{where}: layer_types does not name {count} layers of linear_attention and full_attention.",
            remedy="Take the model's own config.json; a model without attention layers is not known here.",
        )
    return tuple(listed)


def _experts(table: _Table) -> Experts:
    return Experts(
        count=table.number("num_experts"),
        per_token=table.number("num_experts_per_tok"),
        width=table.number("moe_intermediate_size"),
        shared_width=table.number("shared_expert_intermediate_size", 0),
    )


def _vision(table: _Table) -> Vision:
    merge = table.number("spatial_merge_size")
    return Vision(
        depth=table.number("depth"),
        width=table.number("hidden_size"),
        mlp_width=table.number("intermediate_size"),
        patch_values=table.number("in_channels")
        * table.number("temporal_patch_size")
        * table.number("patch_size") ** 2,
        positions=table.number("num_position_embeddings"),
        merged=merge * merge,
        out_width=table.number("out_hidden_size"),
    )


def _state_bytes(text: Mapping[str, Any], where: str) -> int:
    dtype = text.get("dtype", text.get("torch_dtype", "bfloat16"))
    if dtype not in _HALF:
        raise UsageError(
            f"{where}: dtype is {dtype!r}; plans are made for {' and '.join(_HALF)}.",
            remedy="Plan with the configuration that is served.",
        )
    state = text.get("mamba_ssm_dtype", "float32")
    if state not in _STATE_BYTES:
        raise UsageError(f"{where}: mamba_ssm_dtype is {state!r}.", remedy=f"Known: {', '.join(_STATE_BYTES)}.")
    return _STATE_BYTES[state]
