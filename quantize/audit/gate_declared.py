"""Gates 6 and 7: what the checkpoint declares is what it holds."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Final

from bench.report.verify_files import shown
from quantize.audit import numbers
from quantize.audit.contents import KV_SCALES
from quantize.audit.model import Gate, GateName
from quantize.audit.scene import Findings, Scene, is_scale

if TYPE_CHECKING:
    from quantize.audit.declared import Declaration
    from quantize.audit.family import Inventory
    from quantize.audit.model import Figure

MTP_PATTERN: Final = "mtp*"
MTP: Final = "mtp."
_EXPERTS: Final = ".experts."


def ignored_gate(scene: Scene) -> Gate:
    """Gate 6: both ignore lists are the same, contain `mtp*`, and are true."""
    findings = Findings(GateName.IGNORED)
    _check_files(scene, findings)
    _check_modules(scene, findings)
    if scene.inventory is not None:
        _check_engine(scene, scene.inventory, findings)
    figures: dict[str, Figure] = {
        "patterns": len(scene.ignored.patterns),
        "quantized linears": len(scene.contents.quantized),
        "what is quantized": _preset(scene),
    }
    unknown = "" if scene.inventory else "the lists agree, but which tensors are linears is not known for this model"
    return findings.gate(
        "both lists are the same, and true of every linear", "the ignore lists are not true", figures, unchecked=unknown
    )


def _check_files(scene: Scene, findings: Findings) -> None:
    config, other = scene.config, scene.hf_quant_config
    if config is None:
        findings.add("config.json", "has no quantization_config of ModelOpt")
    if other is None:
        findings.add("hf_quant_config.json", "is missing")
    for declared in (config, other):
        if declared is None:
            continue
        for key in declared.missing:
            findings.add(declared.where, f"lacks {key}, without which vLLM refuses it")
        if declared.ignored is None:
            findings.add(declared.where, "has no ignore list")
        if declared.group_size not in (None, numbers.BLOCK):
            findings.add(declared.where, f"declares groups of {declared.group_size}; NVFP4 has {numbers.BLOCK}")
    if config is not None and other is not None:
        _check_agreement(config, other, findings)
    has_mtp = any(name.startswith(MTP) for name in scene.checkpoint.tensors)
    expects_mtp = scene.inventory is not None and scene.inventory.mtp_layers
    if (has_mtp or expects_mtp) and MTP_PATTERN not in scene.ignored.patterns:
        findings.add(MTP_PATTERN, "is not in the ignore list")


def _check_agreement(config: Declaration, other: Declaration, findings: Findings) -> None:
    ours, theirs = set(config.ignored or ()), set(other.ignored or ())
    if config.ignored is not None and other.ignored is not None:
        for pattern in sorted(ours - theirs):
            findings.add(pattern, "is ignored in config.json, not in hf_quant_config.json")
        for pattern in sorted(theirs - ours):
            findings.add(pattern, "is ignored in hf_quant_config.json, not in config.json")
    for what, here, there in (
        ("quant_algo", config.quant_algo, other.quant_algo),
        ("the KV cache's format", config.kv_cache, other.kv_cache),
    ):
        if here != there:
            findings.add("config.json", f"has {what} {here}; hf_quant_config.json has {there}")


def _check_modules(scene: Scene, findings: Findings) -> None:
    """Each ignored module is unquantized, each linear that is not ignored is quantized."""
    for module in scene.contents.quantized:
        pattern = scene.ignored.covering(module) if scene.ignored.leaves_out(module) else None
        if pattern is not None:
            findings.add(module, f"is quantized, and ignored by {shown(pattern)!r}")
    if scene.inventory is None:
        return
    for module in scene.inventory.linears:
        weight = scene.contents.plain.get(f"{module}.weight")
        if weight is not None and not scene.ignored.leaves_out(module):
            findings.add(module, f"is {weight.dtype}, and not ignored")


def _check_engine(scene: Scene, inventory: Inventory, findings: Findings) -> None:
    """The engine builds packed layers, and all experts of a layer, as one: they are all quantized or none is."""
    members: dict[str, list[str]] = defaultdict(list)
    for module, linear in inventory.linears.items():
        if scene.contents.holds(module):
            layer = f"{module.partition(_EXPERTS)[0]}.experts" if _EXPERTS in module else linear.group or module
            members[layer].append(module)
    for layer, modules in members.items():
        quantized = [module for module in modules if module in scene.contents.quantized]
        if 0 < len(quantized) < len(modules):
            some = next(module for module in modules if module not in scene.contents.quantized)
            findings.add(layer, f"is one layer for vLLM, but only partly quantized: {some} is not")
            continue
        left_out = scene.ignored.engine_leaves_out(layer, modules)
        said = {scene.ignored.leaves_out(module) for module in modules} == {left_out}  # by `_check_modules`
        if left_out == bool(quantized) and not said:
            here, there = ("quantized", "unquantized") if quantized else ("unquantized", "quantized")
            findings.add(layer, f"is {here}, but vLLM 0.26.0 reads it as {there}")


def _preset(scene: Scene) -> str:
    """Which parts of the model are quantized, in ModelOpt's words where it has one."""
    if scene.inventory is None:
        return "unknown"
    parts = {linear.part for module, linear in scene.inventory.linears.items() if module in scene.contents.quantized}
    named = {
        frozenset({"experts"}): "experts only (nvfp4_experts_only)",
        frozenset({"experts", "mlp"}): "experts and shared experts (nvfp4_mlp_only)",
        frozenset({"mlp"}): "feed-forward layers (nvfp4_mlp_only)",
        frozenset({"experts", "mlp", "attention"}): "all linears (nvfp4)",
        frozenset({"mlp", "attention"}): "all linears (nvfp4)",
    }
    return named.get(frozenset(parts), " and ".join(sorted(parts)) or "nothing")


def kv_gate(scene: Scene) -> Gate:
    """Gate 7: two scales an attention layer where the KV cache was calibrated, none where it was cast."""
    findings = Findings(GateName.KV_CACHE)
    found = scene.contents.kv_scales
    for name in found:
        value = scene.scalars.get(name)
        if value is not None and not is_scale(value):
            findings.add(name, f"is {value:g}, not a positive number")
    attention = None if scene.inventory is None else scene.inventory.attention
    if found and scene.kv_cache is None:
        findings.add("kv_cache_scheme", f"is not declared, but there are {len(found):,} KV scales")
    elif found and attention is not None:
        for layer in attention:
            for ending in KV_SCALES:
                if layer + ending not in found:
                    findings.add(layer + ending, "is missing; other layers have theirs")
    expected = None if attention is None else len(attention) * len(KV_SCALES)
    how = "calibrated" if found else "cast: the engine uses 1.0" if scene.kv_cache else "unquantized"
    figures = {"KV scales": len(found), "of a calibrated cache": expected, "declared": scene.kv_cache or "none"}
    unknown = "which layers are attention layers is not known for this model" if found and attention is None else ""
    return findings.gate(f"the KV cache is {how}", "KV scales are missing or broken", figures, unchecked=unknown)
