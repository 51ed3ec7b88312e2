"""What a checkpoint says it is: `quantization_config` of config.json and hf_quant_config.json, both from outside."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from bench.report.verify_files import shown
from quantize.audit.model import Format, Kind

if TYPE_CHECKING:
    from quantize.audit.folder import Checkpoint

NVFP4: Final = "NVFP4"
WEIGHT_ONLY: Final = "W4A16_NVFP4"
MIXED: Final = "MIXED_PRECISION"
ENGINE: Final = "modelopt_fp4"
FP8_BITS: Final = 8
NOT_NVFP4: Final = "not an NVFP4 checkpoint of ModelOpt"


@dataclass(frozen=True, slots=True)
class Declaration:
    """What one of the two files says.

    Attributes:
        where: its name.
        quant_algo: upper case; None where it is missing or no string.
        group_size: None as above.
        kv_cache: "FP8" and the like; None for an unquantized KV cache.
        ignored: the ignore list; None where there is none.
        layers: algorithms of single layers ("FP8", "NVFP4"), where it lists them.
        producer: "modelopt 0.47.0", or empty.
        missing: keys without which vLLM refuses the file.
    """

    where: str
    quant_algo: str | None
    group_size: int | None
    kv_cache: str | None
    ignored: tuple[str, ...] | None
    layers: frozenset[str]
    producer: str
    missing: tuple[str, ...] = ()


def from_config(config: dict[str, Any]) -> Declaration | None:
    """What config.json says; None where it has no `quantization_config` of ModelOpt."""
    quantization = _mapping(config.get("quantization_config"))
    if not _method(quantization).startswith("modelopt"):
        return None
    if "quantization" in quantization:  # an older way: hf_quant_config.json as it is, inside config.json
        return _legacy("config.json", quantization)
    scheme = quantization.get("kv_cache_scheme")
    return Declaration(
        where="config.json",
        quant_algo=_upper(quantization.get("quant_algo")),
        group_size=_group_size(quantization),
        kv_cache=_scheme(scheme),
        ignored=_strings(quantization.get("ignore")),
        layers=_layers(quantization),
        producer=_producer(quantization.get("producer")),
    )


def from_hf_quant_config(content: dict[str, Any] | None) -> Declaration | None:
    """What hf_quant_config.json says; None where it is not there."""
    return None if content is None else _legacy("hf_quant_config.json", content)


def format_of(checkpoint: Checkpoint) -> Format:
    """Names what a checkpoint is, and says it in a sentence. config.json counts first, as in vLLM."""
    if checkpoint.pickles and not checkpoint.shards:
        return _other(
            "pickle",
            f"{NOT_NVFP4}: its weights are pickles ({shown(checkpoint.pickles[0])}), which run code when loaded",
        )
    quantization = _mapping(checkpoint.config.get("quantization_config"))
    method = _method(quantization)
    declared = from_config(checkpoint.config) or from_hf_quant_config(checkpoint.hf_quant_config)
    if declared is None or (method and not method.startswith("modelopt")):
        return _of_others(method, quantization)
    kind, says = _of_modelopt(declared)
    engines: dict[Kind, str] = {"nvfp4": ENGINE, "nvfp4-weight-only": ENGINE, "mixed": "modelopt_mixed"}
    return Format(
        kind=kind,
        says=says,
        quant_algo=declared.quant_algo,
        group_size=declared.group_size,
        kv_cache=declared.kv_cache,
        producer=declared.producer,
        engine=engines.get(kind, ""),
    )


def _of_modelopt(declared: Declaration) -> tuple[Kind, str]:
    algo, layers = declared.quant_algo or "", declared.layers
    if algo == MIXED or len(layers) > 1 or (layers and layers != {algo}):
        named = f" ({', '.join(sorted(layers))})" if layers else ""
        return "mixed", (
            f"{NOT_NVFP4} in a single format: it mixes formats{named}; vLLM takes it as modelopt_mixed and "
            "refuses it as modelopt_fp4"
        )
    if algo == NVFP4:
        return "nvfp4", "an NVFP4 checkpoint of ModelOpt"
    if algo == WEIGHT_ONLY:
        return "nvfp4-weight-only", f"{NOT_NVFP4} with 4-bit activations: it is weight-only NVFP4 ({WEIGHT_ONLY})"
    if "AWQ" in algo:
        return "awq", f"{NOT_NVFP4}: it is AWQ of ModelOpt ({algo}), whose weights carry a pre_quant_scale"
    if algo.startswith("FP8"):
        return "fp8", f"{NOT_NVFP4}: it is FP8 of ModelOpt ({algo})"
    return "modelopt-other", f"{NOT_NVFP4} as vLLM's modelopt_fp4 takes it: it is {algo or 'without a quant_algo'}"


def _of_others(method: str, quantization: dict[str, Any]) -> Format:
    if not quantization:
        return _other("unquantized", f"{NOT_NVFP4}: neither config.json nor hf_quant_config.json declares one")
    if method == "compressed-tensors":
        packing = quantization.get("format")
        named = f" ({shown(packing)[:40]})" if isinstance(packing, str) else ""
        same = ": the same numbers under other names, for vLLM's compressed-tensors loader" if "nvfp4" in named else ""
        return _other("compressed-tensors", f"{NOT_NVFP4}: it is compressed-tensors{named}{same}")
    known: dict[str, Kind] = {"fp8": "fp8", "awq": "awq", "gptq": "gptq", "mxfp4": "mxfp4"}
    name = shown(method)[:40] or "a quantization without a quant_method"
    return _other(known.get(method, "other"), f"{NOT_NVFP4}: it is {name}")


def _other(kind: Kind, says: str) -> Format:
    return Format(kind=kind, says=says)


def _legacy(where: str, content: dict[str, Any]) -> Declaration:
    quantization = _mapping(content.get("quantization"))
    required = ("quant_algo", "group_size", "kv_cache_quant_algo", "exclude_modules")
    return Declaration(
        where=where,
        quant_algo=_upper(quantization.get("quant_algo")),
        group_size=_group_size(quantization),
        kv_cache=_upper(quantization.get("kv_cache_quant_algo")),
        ignored=_strings(quantization.get("exclude_modules")),
        layers=_layers(quantization),
        producer=_producer(content.get("producer")),
        missing=tuple(key for key in required if key not in quantization),
    )


def _mapping(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _method(quantization: dict[str, Any]) -> str:
    method = quantization.get("quant_method")
    return method.lower() if isinstance(method, str) else ""


def _upper(value: object) -> str | None:
    """A name in upper case, as vLLM compares them, and safe to show."""
    return shown(value.upper())[:40] if isinstance(value, str) else None


def _strings(value: object) -> tuple[str, ...] | None:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        return None
    return tuple(value)


def _group_size(quantization: dict[str, Any]) -> int | None:
    """From the key itself, or, as newer files have it, from the groups."""
    groups = _mapping(quantization.get("config_groups")).values()
    weights = [_mapping(_mapping(group).get("weights")) for group in groups]
    sizes = [quantization.get("group_size"), *(weight.get("group_size") for weight in weights)]
    return next((size for size in sizes if type(size) is int), None)


def _scheme(scheme: object) -> str | None:
    """`kv_cache_scheme`, as ModelOpt writes it: an object for FP8, a name for the others."""
    if isinstance(scheme, dict) and scheme.get("type") == "float" and scheme.get("num_bits") == FP8_BITS:
        return "FP8"
    return _upper(scheme) if not isinstance(scheme, dict) else "UNKNOWN"


def _layers(quantization: dict[str, Any]) -> frozenset[str]:
    layers = _mapping(quantization.get("quantized_layers")).values()
    return frozenset(filter(None, (_upper(_mapping(layer).get("quant_algo")) for layer in layers)))


def _producer(value: object) -> str:
    producer = _mapping(value)
    words = (producer.get("name"), producer.get("version"))
    return shown(" ".join(word for word in words if isinstance(word, str)))[:60]
