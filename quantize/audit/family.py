"""The tensors that a Qwen3.5 model has, derived from its config.json.

Names and shapes are those of the hub's files: transformers 5.14 (models/qwen3_5_moe, models/qwen3_5) for decoder and
vision tower, and vLLM 0.26.0 (models/qwen3_5_mtp.py) for the multi-token prediction head, which transformers drops.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

MODEL_TYPES: Final = {"qwen3_5_moe": "Qwen3.5-MoE", "qwen3_5": "Qwen3.5"}
LAYER_LIMIT: Final = 1024
EXPERT_LIMIT: Final = 4096
"""More than any model has: a config.json from outside must not make us list millions of tensors."""


@dataclass(frozen=True, slots=True)
class Linear:
    """A linear layer.

    Attributes:
        module: its name; the weight is `<module>.weight`.
        rows: outputs.
        columns: inputs.
        part: "experts", "mlp", "attention", "head", or "kept" for what no preset of ModelOpt quantizes.
        group: of the layers that the engine packs into one, which therefore share one scale; empty for none.
    """

    module: str
    rows: int
    columns: int
    part: str
    group: str = ""


@dataclass(slots=True)
class Inventory:
    """What the model consists of.

    Attributes:
        name: of the family.
        linears: by module.
        others: shapes of all tensors that are no linear's weight, by name.
        attention: names of the attention layers of the decoder, which have a KV cache.
        vision: prefix of the vision tower; empty where the model has none.
        mtp_layers: of the multi-token prediction head.
        without_vision: the tower was dropped from what is expected, because nobody has it.
    """

    name: str
    linears: dict[str, Linear] = field(default_factory=dict)
    others: dict[str, tuple[int, ...]] = field(default_factory=dict)
    attention: list[str] = field(default_factory=list)
    vision: str = ""
    mtp_layers: int = 0
    without_vision: bool = False

    def add(self, linear: Linear) -> None:
        """Adds a linear layer."""
        self.linears[linear.module] = linear

    def plain_shapes(self) -> dict[str, tuple[int, ...]]:
        """Shapes of all tensors of the unquantized model, experts one by one."""
        weights = {f"{name}.weight": (linear.rows, linear.columns) for name, linear in self.linears.items()}
        return weights | self.others


def inventory_of(config: dict[str, Any]) -> Inventory | None:
    """The tensors of the model.

    Returns:
        None for another family, or for a config.json without the sizes that it takes.
    """
    name = MODEL_TYPES.get(str(config.get("model_type")).removesuffix("_text"))
    if name is None:
        return None
    try:
        return _inventory(name, config)
    except (KeyError, TypeError, ValueError):
        return None


def _inventory(name: str, config: dict[str, Any]) -> Inventory:
    inventory = Inventory(name)
    text = _Sizes(config.get("text_config", config))
    multimodal = "text_config" in config
    decoder = "model.language_model." if multimodal else "model."
    layers = _layer_types(text)
    hidden, vocabulary = text["hidden_size"], text["vocab_size"]
    inventory.others[f"{decoder}embed_tokens.weight"] = (vocabulary, hidden)
    inventory.others[f"{decoder}norm.weight"] = (hidden,)
    if not (config.get("tie_word_embeddings") or text.flag("tie_word_embeddings")):
        inventory.add(Linear("lm_head", vocabulary, hidden, "head"))
    for index, kind in enumerate(layers):
        prefix = f"{decoder}layers.{index}."
        if kind == "full_attention":
            inventory.attention.append(f"{prefix}self_attn")
        _add_layer(inventory, text, prefix, kind)
    _add_mtp(inventory, text)
    if multimodal and isinstance(config.get("vision_config"), dict):
        _add_vision(inventory, _Sizes(config["vision_config"]), "model.visual.")
    return inventory


class _Sizes:
    """Counts of a configuration from outside."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values

    def __getitem__(self, key: str) -> int:
        return self.get(key, None)

    def get(self, key: str, default: int | None) -> int:
        """A positive count.

        Raises:
            ValueError: it is missing without a default, or is none.
        """
        value = self._values.get(key, default)
        if type(value) is not int or not 0 < value < 1 << 31:
            raise ValueError(f"{key} is no positive count")
        return value

    def flag(self, key: str, *, default: bool = False) -> bool:
        return self._values.get(key, default) is True

    def raw(self, key: str) -> object:
        return self._values.get(key)


def _layer_types(text: _Sizes) -> list[str]:
    count, listed = text["num_hidden_layers"], text.raw("layer_types")
    if count > LAYER_LIMIT:
        raise ValueError("more layers than any model has")
    if listed is None:
        interval = text.get("full_attention_interval", 4)
        return ["linear_attention" if (index + 1) % interval else "full_attention" for index in range(count)]
    if not isinstance(listed, list) or len(listed) != count or set(listed) - {"linear_attention", "full_attention"}:
        raise ValueError("layer_types are not those of this family")
    return listed


def _add_layer(inventory: Inventory, text: _Sizes, prefix: str, kind: str, *, kept: bool = False) -> None:
    hidden = text["hidden_size"]
    inventory.others[f"{prefix}input_layernorm.weight"] = (hidden,)
    inventory.others[f"{prefix}post_attention_layernorm.weight"] = (hidden,)
    if kind == "full_attention":
        _add_attention(inventory, text, f"{prefix}self_attn.", kept=kept)
    else:
        _add_gated_delta_net(inventory, text, f"{prefix}linear_attn.")
    if text.raw("num_experts") is None:
        _add_mlp(inventory, f"{prefix}mlp.", hidden, text["intermediate_size"], "kept" if kept else "mlp")
    else:
        _add_experts(inventory, text, f"{prefix}mlp.", kept=kept)


def _add_attention(inventory: Inventory, text: _Sizes, prefix: str, *, kept: bool) -> None:
    hidden, width = text["hidden_size"], text["head_dim"]
    queries, keys = text["num_attention_heads"] * width, text["num_key_value_heads"] * width
    gate = 2 if text.flag("attn_output_gate", default=True) else 1
    part = "kept" if kept else "attention"
    for name, rows in (("q_proj", queries * gate), ("k_proj", keys), ("v_proj", keys)):
        inventory.add(Linear(f"{prefix}{name}", rows, hidden, part, f"{prefix}qkv_proj"))
        if text.flag("attention_bias"):
            inventory.others[f"{prefix}{name}.bias"] = (rows,)
    inventory.add(Linear(f"{prefix}o_proj", hidden, queries, part))
    if text.flag("attention_bias"):
        inventory.others[f"{prefix}o_proj.bias"] = (hidden,)
    inventory.others[f"{prefix}q_norm.weight"] = (width,)
    inventory.others[f"{prefix}k_norm.weight"] = (width,)


def _add_gated_delta_net(inventory: Inventory, text: _Sizes, prefix: str) -> None:
    hidden, heads = text["hidden_size"], text["linear_num_value_heads"]
    values = heads * text["linear_value_head_dim"]
    mixed = 2 * text["linear_num_key_heads"] * text["linear_key_head_dim"] + values
    inventory.add(Linear(f"{prefix}in_proj_qkv", mixed, hidden, "attention", f"{prefix}in_proj_qkvz"))
    inventory.add(Linear(f"{prefix}in_proj_z", values, hidden, "attention", f"{prefix}in_proj_qkvz"))
    inventory.add(Linear(f"{prefix}in_proj_b", heads, hidden, "kept", f"{prefix}in_proj_ba"))
    inventory.add(Linear(f"{prefix}in_proj_a", heads, hidden, "kept", f"{prefix}in_proj_ba"))
    inventory.add(Linear(f"{prefix}out_proj", hidden, values, "attention"))
    inventory.others[f"{prefix}conv1d.weight"] = (mixed, 1, text["linear_conv_kernel_dim"])
    inventory.others[f"{prefix}A_log"] = (heads,)
    inventory.others[f"{prefix}dt_bias"] = (heads,)
    inventory.others[f"{prefix}norm.weight"] = (text["linear_value_head_dim"],)


def _add_experts(inventory: Inventory, text: _Sizes, prefix: str, *, kept: bool) -> None:
    hidden, count = text["hidden_size"], text["num_experts"]
    if count > EXPERT_LIMIT:
        raise ValueError("more experts than any model has")
    inventory.add(Linear(f"{prefix}gate", count, hidden, "kept"))
    inventory.add(Linear(f"{prefix}shared_expert_gate", 1, hidden, "kept"))
    for index in range(count):
        width, part = text["moe_intermediate_size"], "kept" if kept else "experts"
        _add_mlp(inventory, f"{prefix}experts.{index}.", hidden, width, part)
    width, part = text["shared_expert_intermediate_size"], "kept" if kept else "mlp"
    _add_mlp(inventory, f"{prefix}shared_expert.", hidden, width, part)


def _add_mlp(inventory: Inventory, prefix: str, hidden: int, width: int, part: str) -> None:
    inventory.add(Linear(f"{prefix}gate_proj", width, hidden, part, f"{prefix}gate_up_proj"))
    inventory.add(Linear(f"{prefix}up_proj", width, hidden, part, f"{prefix}gate_up_proj"))
    inventory.add(Linear(f"{prefix}down_proj", hidden, width, part))


def _add_mtp(inventory: Inventory, text: _Sizes) -> None:
    declared = text.raw("mtp_num_hidden_layers")
    if not isinstance(declared, int) or not 0 < declared <= LAYER_LIMIT:
        return
    inventory.mtp_layers, hidden = declared, text["hidden_size"]
    inventory.add(Linear("mtp.fc", hidden, 2 * hidden, "kept"))
    for name in ("norm", "pre_fc_norm_embedding", "pre_fc_norm_hidden"):
        inventory.others[f"mtp.{name}.weight"] = (hidden,)
    for index in range(declared):
        _add_layer(inventory, text, f"mtp.layers.{index}.", "full_attention", kept=True)


def _add_vision(inventory: Inventory, vision: _Sizes, prefix: str) -> None:
    inventory.vision = prefix
    hidden, width, out = vision["hidden_size"], vision["intermediate_size"], vision["out_hidden_size"]
    merged = hidden * vision["spatial_merge_size"] ** 2
    patch, frames = vision["patch_size"], vision["temporal_patch_size"]
    others = inventory.others
    others[f"{prefix}patch_embed.proj.weight"] = (hidden, vision["in_channels"], frames, patch, patch)
    others[f"{prefix}patch_embed.proj.bias"] = (hidden,)
    others[f"{prefix}pos_embed.weight"] = (vision["num_position_embeddings"], hidden)
    linears = [("merger.linear_fc1", merged, merged), ("merger.linear_fc2", out, merged)]
    norms = ["merger.norm"]
    if vision["depth"] > LAYER_LIMIT:
        raise ValueError("more layers than any model has")
    for index in range(vision["depth"]):
        block = f"blocks.{index}."
        linears += [(f"{block}attn.qkv", 3 * hidden, hidden), (f"{block}attn.proj", hidden, hidden)]
        linears += [(f"{block}mlp.linear_fc1", width, hidden), (f"{block}mlp.linear_fc2", hidden, width)]
        norms += [f"{block}norm1", f"{block}norm2"]
    for name, rows, columns in linears:
        inventory.add(Linear(f"{prefix}{name}", rows, columns, "kept"))
        others[f"{prefix}{name}.bias"] = (rows,)
    for name in norms:
        others[f"{prefix}{name}.weight"] = others[f"{prefix}{name}.bias"] = (hidden,)
