"""Small NVFP4 checkpoints and their sources, made with numpy from the format's definition.

Nothing here uses `quantize.audit`: names, shapes, number formats and the file format are written down a second time, so
that an error in one of the two shows. Tensors are numpy arrays; BF16 is held as bits (uint16), E4M3 as bytes.
"""

from __future__ import annotations

import copy
import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[Any]
Tensors: TypeAlias = dict[str, tuple[str, Array]]
"""(type, values) by name."""

MAGNITUDES = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
E4M3_POSITIVE = [
    (mantissa / 8 * 2.0**-6 if exponent == 0 else (1 + mantissa / 8) * 2.0 ** (exponent - 7))
    for exponent in range(16)
    for mantissa in range(8)
][:127]
"""Value of the bytes 0x00 to 0x7E."""

HIDDEN, VOCABULARY, EXPERTS, WIDTH, SHARED = 64, 96, 4, 32, 48
HEADS, KV_HEADS, HEAD, KEYS, VALUE_HEADS, VALUES, KERNEL = 2, 1, 32, 16, 2, 16, 4
VISION, VISION_WIDTH = 16, 32
TEXT = "model.language_model."
PRESETS = {
    "nvfp4_experts_only": ("experts.",),
    "nvfp4_mlp_only": ("experts.", "shared_expert."),
    "nvfp4": (
        "experts.", "shared_expert.", "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj",
        "linear_attn.in_proj_qkv", "linear_attn.in_proj_z", "linear_attn.out_proj",
    ),
}  # fmt: skip


def config() -> dict[str, Any]:
    """config.json of a Qwen3.5-MoE with a Gated DeltaNet layer and an attention layer."""
    text = {
        "model_type": "qwen3_5_moe_text", "vocab_size": VOCABULARY, "hidden_size": HIDDEN, "num_hidden_layers": 2,
        "layer_types": ["linear_attention", "full_attention"], "num_attention_heads": HEADS, "head_dim": HEAD,
        "num_key_value_heads": KV_HEADS, "attention_bias": False, "linear_num_key_heads": 1,
        "linear_num_value_heads": VALUE_HEADS, "linear_key_head_dim": KEYS, "linear_value_head_dim": VALUES,
        "linear_conv_kernel_dim": KERNEL, "num_experts": EXPERTS, "num_experts_per_tok": 2,
        "moe_intermediate_size": WIDTH, "shared_expert_intermediate_size": SHARED, "mtp_num_hidden_layers": 1,
    }  # fmt: skip
    vision = {
        "model_type": "qwen3_5_moe_vision", "depth": 1, "hidden_size": VISION, "intermediate_size": VISION_WIDTH,
        "num_heads": 1, "in_channels": 3, "patch_size": 2, "spatial_merge_size": 2, "temporal_patch_size": 2,
        "out_hidden_size": HIDDEN, "num_position_embeddings": 4,
    }  # fmt: skip
    return {
        "architectures": ["Qwen3_5MoeForConditionalGeneration"],
        "model_type": "qwen3_5_moe",
        "dtype": "bfloat16",
        "tie_word_embeddings": False,
        "text_config": text,
        "vision_config": vision,
    }


def shapes(*, fused: bool = True) -> dict[str, tuple[int, ...]]:
    """Every tensor of the unquantized model; experts of the decoder fused, or one by one."""
    found: dict[str, tuple[int, ...]] = {
        f"{TEXT}embed_tokens.weight": (VOCABULARY, HIDDEN),
        f"{TEXT}norm.weight": (HIDDEN,),
        "lm_head.weight": (VOCABULARY, HIDDEN),
    }
    mixed = 2 * KEYS + VALUE_HEADS * VALUES
    delta = {
        "A_log": (VALUE_HEADS,), "dt_bias": (VALUE_HEADS,), "norm.weight": (VALUES,),
        "conv1d.weight": (mixed, 1, KERNEL),
        "in_proj_qkv.weight": (mixed, HIDDEN), "in_proj_z.weight": (VALUE_HEADS * VALUES, HIDDEN),
        "in_proj_a.weight": (VALUE_HEADS, HIDDEN), "in_proj_b.weight": (VALUE_HEADS, HIDDEN),
        "out_proj.weight": (HIDDEN, VALUE_HEADS * VALUES),
    }  # fmt: skip
    found |= {f"{TEXT}layers.0.linear_attn.{name}": shape for name, shape in delta.items()}
    found |= _attention(f"{TEXT}layers.1.self_attn.")
    for layer in (0, 1):
        found |= _around(f"{TEXT}layers.{layer}.") | _experts(f"{TEXT}layers.{layer}.mlp.", fused=fused)
    found |= {f"mtp.{name}.weight": (HIDDEN,) for name in ("norm", "pre_fc_norm_hidden", "pre_fc_norm_embedding")}
    found["mtp.fc.weight"] = (HIDDEN, 2 * HIDDEN)
    found |= _around("mtp.layers.0.") | _attention("mtp.layers.0.self_attn.")
    found |= _experts("mtp.layers.0.mlp.", fused=False)
    return found | _vision()


def _around(prefix: str) -> dict[str, tuple[int, ...]]:
    return {f"{prefix}{name}.weight": (HIDDEN,) for name in ("input_layernorm", "post_attention_layernorm")}


def _attention(prefix: str) -> dict[str, tuple[int, ...]]:
    return {
        f"{prefix}q_proj.weight": (2 * HEADS * HEAD, HIDDEN),
        f"{prefix}k_proj.weight": (KV_HEADS * HEAD, HIDDEN),
        f"{prefix}v_proj.weight": (KV_HEADS * HEAD, HIDDEN),
        f"{prefix}o_proj.weight": (HIDDEN, HEADS * HEAD),
        f"{prefix}q_norm.weight": (HEAD,),
        f"{prefix}k_norm.weight": (HEAD,),
    }


def _experts(prefix: str, *, fused: bool) -> dict[str, tuple[int, ...]]:
    found: dict[str, tuple[int, ...]] = {
        f"{prefix}gate.weight": (EXPERTS, HIDDEN),
        f"{prefix}shared_expert_gate.weight": (1, HIDDEN),
        f"{prefix}shared_expert.gate_proj.weight": (SHARED, HIDDEN),
        f"{prefix}shared_expert.up_proj.weight": (SHARED, HIDDEN),
        f"{prefix}shared_expert.down_proj.weight": (HIDDEN, SHARED),
    }
    if fused:
        found[f"{prefix}experts.gate_up_proj"] = (EXPERTS, 2 * WIDTH, HIDDEN)
        found[f"{prefix}experts.down_proj"] = (EXPERTS, HIDDEN, WIDTH)
        return found
    for expert in range(EXPERTS):
        found[f"{prefix}experts.{expert}.gate_proj.weight"] = (WIDTH, HIDDEN)
        found[f"{prefix}experts.{expert}.up_proj.weight"] = (WIDTH, HIDDEN)
        found[f"{prefix}experts.{expert}.down_proj.weight"] = (HIDDEN, WIDTH)
    return found


def _vision() -> dict[str, tuple[int, ...]]:
    prefix = "model.visual."
    linears = {
        "blocks.0.attn.qkv": (3 * VISION, VISION), "blocks.0.attn.proj": (VISION, VISION),
        "blocks.0.mlp.linear_fc1": (VISION_WIDTH, VISION), "blocks.0.mlp.linear_fc2": (VISION, VISION_WIDTH),
        "merger.linear_fc1": (4 * VISION, 4 * VISION), "merger.linear_fc2": (HIDDEN, 4 * VISION),
    }  # fmt: skip
    found: dict[str, tuple[int, ...]] = {f"{prefix}pos_embed.weight": (4, VISION)}
    for name, shape in linears.items():
        found |= {f"{prefix}{name}.weight": shape, f"{prefix}{name}.bias": shape[:1]}
    for name in ("blocks.0.norm1", "blocks.0.norm2", "merger.norm"):
        found |= {f"{prefix}{name}.weight": (VISION,), f"{prefix}{name}.bias": (VISION,)}
    return found | {
        f"{prefix}patch_embed.proj.weight": (VISION, 3, 2, 2, 2),
        f"{prefix}patch_embed.proj.bias": (VISION,),
    }


def bf16(values: Array) -> NDArray[np.uint16]:
    """Bits of float32 values, cut to BF16."""
    return (np.ascontiguousarray(values, np.float32).view(np.uint32) >> 16).astype(np.uint16)


def floats(bits: NDArray[np.uint16]) -> NDArray[np.float32]:
    """And back."""
    return (bits.astype(np.uint32) << 16).view(np.float32)


def source_tensors(seed: int = 0, *, fused: bool = True) -> Tensors:
    """Random weights for every tensor."""
    random = np.random.default_rng(seed)
    return {
        name: ("BF16", bf16(random.standard_normal(shape, np.float32) * 0.02))
        for name, shape in shapes(fused=fused).items()
    }


def matrices(source: Tensors) -> dict[str, NDArray[np.uint16]]:
    """Every weight by its linear's name, fused experts taken apart."""
    found: dict[str, NDArray[np.uint16]] = {}
    for name, (_, values) in source.items():
        if name.endswith("experts.gate_up_proj"):
            for expert, both in enumerate(values):
                found[name.replace("gate_up_proj", f"{expert}.gate_proj")] = both[: len(both) // 2]
                found[name.replace("gate_up_proj", f"{expert}.up_proj")] = both[len(both) // 2 :]
        elif name.endswith("experts.down_proj"):
            found |= {name.replace("down_proj", f"{expert}.down_proj"): value for expert, value in enumerate(values)}
        elif name.endswith(".weight") and values.ndim == 2:
            found[name.removesuffix(".weight")] = values
    return found


def nearest_e4m3(value: float) -> int:
    """The byte of the nearest positive E4M3 value, ties to even."""
    value = min(max(value, E4M3_POSITIVE[1]), E4M3_POSITIVE[-1])
    return min(range(1, 127), key=lambda code: (abs(E4M3_POSITIVE[code] - value), code & 1))


def nearest_e2m1(value: float) -> int:
    """The code of the nearest E2M1 value, ties to even."""
    code = min(range(8), key=lambda code: (abs(MAGNITUDES[code] - abs(value)), code & 1))
    return code | (8 if math.copysign(1, value) < 0 else 0)


def quantize(weight: Array, scale_2: float) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """NVFP4 by max calibration, from its definition.

    Args:
        weight: float32 [rows, columns].
        scale_2: of the tensor.

    Returns:
        Packed weights [rows, columns / 2] and block scales [rows, columns / 16].
    """
    rows, columns = weight.shape
    blocks = weight.reshape(rows, columns // 16, 16).astype(np.float32)
    scales = np.abs(blocks).max(axis=2) / np.float32(np.float32(6) * np.float32(scale_2))
    table = np.array(E4M3_POSITIVE, np.float32)
    codes = np.array([[nearest_e4m3(float(s)) if s else 0x38 for s in row] for row in scales], np.uint8)
    scaled = blocks / (table[codes] * np.float32(scale_2))[:, :, None]
    middles = np.array([0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0], np.float32)
    magnitude = np.searchsorted(middles, np.abs(scaled))
    on_middle = np.isin(np.abs(scaled), middles[1::2])  # a tie above an odd code goes up to the even one
    nibbles = (magnitude + on_middle + np.where(scaled < 0, 8, 0)).astype(np.uint8).reshape(rows, columns)
    return (nibbles[:, 0::2] | (nibbles[:, 1::2] << 4)).astype(np.uint8), codes


def dequantize(packed: Array, codes: Array, scale_2: float) -> NDArray[np.float64]:
    """The values that a packed weight stands for."""
    values = np.array([*MAGNITUDES, *(-value for value in MAGNITUDES)])
    nibbles = np.stack([packed & 15, packed >> 4], axis=2).reshape(len(packed), -1)
    scales = np.repeat(np.array(E4M3_POSITIVE)[codes], 16, axis=1)
    found: NDArray[np.float64] = values[nibbles] * scales * float(scale_2)
    return found


def scale_2_of(weights: list[Array]) -> np.float32:
    """`weight_scale_2` of weights that share one: amax / 2688."""
    return np.float32(max(np.abs(weight).max() for weight in weights) / np.float32(2688))


def packed_with(module: str) -> list[str]:
    """The linears that share a scale with this one."""
    for leaves in (("gate_proj", "up_proj"), ("q_proj", "k_proj", "v_proj"), ("in_proj_qkv", "in_proj_z")):
        prefix, _, leaf = module.rpartition(".")
        if leaf in leaves:
            return [f"{prefix}.{other}" for other in leaves]
    return [module]


def write_safetensors(path: Path, tensors: Tensors, *, metadata: dict[str, str] | None = None) -> None:
    """One safetensors file, tensors in the given order."""
    header: dict[str, Any] = {} if metadata is None else {"__metadata__": metadata}
    data = bytearray()
    for name, (dtype, values) in tensors.items():
        raw = np.ascontiguousarray(values).tobytes()
        header[name] = {
            "dtype": dtype, "shape": list(values.shape), "data_offsets": [len(data), len(data) + len(raw)]
        }  # fmt: skip
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)


@dataclass
class Folder:
    """A checkpoint that is still in memory, to be damaged before it is written.

    Attributes:
        tensors: all of them.
        config: config.json.
        hf_quant_config: hf_quant_config.json; None for a folder without one.
        shards: how many files to spread the tensors over.
    """

    tensors: Tensors
    config: dict[str, Any] = field(default_factory=config)
    hf_quant_config: dict[str, Any] | None = None
    shards: int = 2

    def copy(self) -> Folder:
        """An independent copy."""
        return copy.deepcopy(self)

    def ignore(self) -> list[str]:
        """The ignore list of config.json."""
        found: list[str] = self.config["quantization_config"]["ignore"]
        return found

    def exclude(self) -> list[str]:
        """That of hf_quant_config.json."""
        assert self.hf_quant_config is not None
        found: list[str] = self.hf_quant_config["quantization"]["exclude_modules"]
        return found

    def write(self, path: Path) -> Path:
        """Writes shards, index and configurations."""
        path.mkdir(parents=True)
        (path / "config.json").write_text(json.dumps(self.config))
        if self.hf_quant_config is not None:
            (path / "hf_quant_config.json").write_text(json.dumps(self.hf_quant_config))
        names = list(self.tensors)
        index: dict[str, str] = {}
        for number in range(self.shards):
            file = f"model-{number + 1:05d}-of-{self.shards:05d}.safetensors"
            part = names[number :: self.shards]
            write_safetensors(path / file, {name: self.tensors[name] for name in part}, metadata={"format": "pt"})
            index |= dict.fromkeys(part, file)
        total = sum(values.nbytes for _, values in self.tensors.values())
        content = {"metadata": {"total_size": total}, "weight_map": index}
        (path / "model.safetensors.index.json").write_text(json.dumps(content))
        return path


def exported(source: Tensors, preset: str = "nvfp4_experts_only", kv_cache: str = "fp8_cast") -> Folder:
    """What ModelOpt and the carrying over of MTP make of a source."""
    weights = matrices(source)
    wanted = PRESETS[preset]
    chosen = [name for name in weights if name.startswith(TEXT) and any(part in name for part in wanted)]
    tensors: Tensors = {}
    for module in chosen:
        values = {name: floats(weights[name]) for name in packed_with(module)}
        scale_2 = scale_2_of(list(values.values()))
        packed, scales = quantize(values[module], float(scale_2))
        tensors[f"{module}.weight"] = ("U8", packed)
        tensors[f"{module}.weight_scale"] = ("F8_E4M3", scales)
        tensors[f"{module}.weight_scale_2"] = ("F32", np.array(scale_2, np.float32))
        tensors[f"{module}.input_scale"] = ("F32", np.array(0.002, np.float32))
    gone = {f"{module}.weight" for module in chosen} | {f"{module.rpartition('.')[0]}" for module in chosen}
    fused = {name for name in source if name.endswith(("experts.gate_up_proj", "experts.down_proj"))}
    tensors |= {name: value for name, value in source.items() if name not in gone and name not in fused}
    if kv_cache == "fp8":
        tensors[f"{TEXT}layers.1.self_attn.k_proj.k_scale"] = ("F32", np.array(0.0126, np.float32))
        tensors[f"{TEXT}layers.1.self_attn.v_proj.v_scale"] = ("F32", np.array(0.0066, np.float32))
    return Folder(tensors, config() | {"quantization_config": _declared(preset)}, _legacy(preset))


def ignore_list(preset: str) -> list[str]:
    """As ModelOpt 0.47 writes it."""
    found = ["lm_head", f"{TEXT}embed_tokens"]
    for layer in (0, 1):
        mlp = f"{TEXT}layers.{layer}.mlp."
        found += [f"{mlp}gate", f"{mlp}shared_expert_gate"]
        if preset == "nvfp4_experts_only":
            found.append(f"{mlp}shared_expert*")
    if preset == "nvfp4":
        found += [f"{TEXT}layers.0.linear_attn.{name}" for name in ("conv1d", "in_proj_a", "in_proj_b")]
    else:
        found += [f"{TEXT}layers.0.linear_attn*", f"{TEXT}layers.1.self_attn*"]
    return sorted([*found, "model.visual*", "mtp*"])


def _declared(preset: str) -> dict[str, Any]:
    number = {"dynamic": False, "num_bits": 4, "type": "float", "group_size": 16}
    return {
        "config_groups": {"group_0": {"input_activations": number, "weights": number, "targets": ["Linear"]}},
        "ignore": ignore_list(preset),
        "quant_algo": "NVFP4",
        "kv_cache_scheme": {"dynamic": False, "num_bits": 8, "type": "float"},
        "producer": {"name": "modelopt", "version": "0.47.0"},
        "quant_method": "modelopt",
    }


def _legacy(preset: str) -> dict[str, Any]:
    quantization = {
        "quant_algo": "NVFP4",
        "kv_cache_quant_algo": "FP8",
        "group_size": 16,
        "exclude_modules": ignore_list(preset),
    }
    return {"producer": {"name": "modelopt", "version": "0.47.0"}, "quantization": quantization}
