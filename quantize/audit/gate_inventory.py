"""Gates 0 to 2: the files are sound, every tensor is there and no other, and each has its shape and size."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from quantize.audit.contents import KV_SCALES, PARTS
from quantize.audit.folder import INDEX
from quantize.audit.header import BITS
from quantize.audit.model import Gate, GateName
from quantize.audit.numbers import BLOCK
from quantize.audit.scene import Findings, Scene, is_scalar

if TYPE_CHECKING:
    from quantize.audit.folder import Checkpoint
    from quantize.audit.header import Tensor

FLOATING: Final = frozenset({"BF16", "F16", "F32"})
MTP: Final = "mtp."
TENSOR_SCALE_BYTES: Final = 8
"""weight_scale_2 and input_scale of a linear."""
UNKNOWN: Final = "what this model consists of is not known here (no Qwen3.5 config.json), and no source was named"


def files_gate(checkpoint: Checkpoint) -> Gate:
    """Gate 0: headers, offsets, index, links."""
    findings = Findings(GateName.FILES)
    findings.add_all(checkpoint.faults)
    for name in checkpoint.pickles:
        findings.add(name, "is a pickle, which runs code when it is loaded")
    size = sum(checkpoint.shards.values())
    figures = {"shards": len(checkpoint.shards), "tensors": len(checkpoint.tensors), "file bytes": size}
    return findings.gate(
        "every shard is whole, and the index and the shards agree", "the files cannot be trusted", figures
    )


def inventory_gate(scene: Scene) -> Gate:
    """Gate 1: nothing missing, nothing unexpected."""
    findings = Findings(GateName.INVENTORY)
    missing = _missing(scene)
    _add_missing_mtp(scene, findings, missing)
    for name in missing:
        findings.add(name, "is missing")
    for name in _unexpected(scene):
        findings.add(name, "is not in the source" if scene.original else "is not a tensor of this model")
    if scene.inventory is not None and scene.inventory.without_vision:
        findings.notes.append("config.json declares a vision tower that is not there: serve with --language-model-only")
    figures = {
        "tensors": len(scene.checkpoint.tensors),
        "quantized linears": len(scene.contents.quantized),
        "of these experts": sum(".experts." in module for module in scene.contents.quantized),
        "MTP tensors": sum(name.startswith(MTP) for name in scene.checkpoint.tensors),
    }
    unknown = scene.inventory is None and scene.original is None
    return findings.gate(
        "every tensor of the model is there, and no other",
        "tensors are missing or do not belong here",
        figures,
        unchecked=UNKNOWN if unknown else "",
    )


def _missing(scene: Scene) -> list[str]:
    """Tensors of the family, of the source, and parts of quantized linears, that are not there."""
    contents, inventory = scene.contents, scene.inventory
    missing = [
        f"{module}.{part}" for module, parts in contents.quantized.items() for part in PARTS if part not in parts
    ]
    expected = set(inventory.plain_shapes()) if inventory else set()
    if scene.original is not None:
        expected |= scene.original.contents.plain.keys()
    there = contents.plain.keys() | {f"{module}.weight" for module in contents.quantized}
    return sorted({*missing, *(expected - there)})


def _add_missing_mtp(scene: Scene, findings: Findings, missing: list[str]) -> None:
    """A head of which nothing is there is one finding, not hundreds."""
    lost = [name for name in missing if name.startswith(MTP)]
    if lost and not any(name.startswith(MTP) for name in scene.checkpoint.tensors):
        findings.add(
            "mtp.*", f"the whole multi-token prediction head is missing ({len(lost):,} tensors)", counts=len(lost)
        )
        missing[:] = [name for name in missing if not name.startswith(MTP)]


def _unexpected(scene: Scene) -> list[str]:
    """With a source whatever is not in it, else whatever the family does not have."""
    contents, inventory = scene.contents, scene.inventory
    if scene.original is not None:
        known = set(scene.original.contents.plain)
    elif inventory is not None:
        known = set(inventory.plain_shapes())
    else:
        return []
    names = contents.plain.keys() - known
    for module, parts in contents.quantized.items():
        if f"{module}.weight" not in known:
            names |= {f"{module}.{part}" for part in parts}
    for name in contents.kv_scales:
        ending = next((ending for ending in KV_SCALES if name.endswith(ending)), None)
        if ending is None or (inventory is not None and name.removesuffix(ending) not in inventory.attention):
            names.add(name)
    return sorted(names)


def sizes_gate(scene: Scene) -> Gate:
    """Gate 2: the type and shape of every tensor, and the sum of all sizes to the byte."""
    findings = Findings(GateName.SIZES)
    predicted, values = 0, 0
    for module, parts in scene.contents.quantized.items():
        rows, columns = scene.shape_of(module) or _declared_shape(parts)
        values += rows * columns
        for part, tensor in parts.items():
            predicted += _check_part(findings, part, tensor, rows, columns)
    for name, tensor in scene.contents.plain.items():
        predicted += _check_plain(scene, findings, name, tensor)
    for tensor in scene.contents.kv_scales.values():
        predicted += 4
        if not is_scalar(tensor):
            findings.add(tensor.name, f"is {_named(tensor)}, not one F32")
    actual = scene.checkpoint.data_bytes
    said = scene.checkpoint.total_size
    if said is not None and said != actual:
        findings.add(INDEX, f"says total_size {said:,}; the tensors have {actual:,} bytes")
    unknown = scene.inventory is None and scene.original is None
    stored = sum(part.size for parts in scene.contents.quantized.values() for part in parts.values())
    figures = {
        "predicted bytes": predicted,
        "data bytes": actual,
        "quantized values": values,
        "bytes a quantized value": round(stored / values, 6) if values else None,
    }
    return findings.gate(
        "every tensor has the format's type and shape; the sizes add up to the byte",
        "types, shapes or sizes are not those of the format",
        figures,
        unchecked="types and shapes fit each other, but " + UNKNOWN if unknown else "",
    )


def _declared_shape(parts: dict[str, Tensor]) -> tuple[int, int]:
    """Rows and columns that the packed weight itself has."""
    weight = parts.get("weight")
    if weight is None or len(weight.shape) != len(("rows", "columns")):
        return 0, 0
    return weight.shape[0], weight.shape[1] * 2


def _check_part(findings: Findings, part: str, tensor: Tensor, rows: int, columns: int) -> int:
    """Checks one part of a quantized linear; returns the bytes that it must have."""
    if part in ("weight", "weight_scale"):
        per = 2 if part == "weight" else BLOCK
        dtype = "U8" if part == "weight" else "F8_E4M3"
        shape: tuple[int, ...] = (rows, columns // per)
        if columns % BLOCK:
            findings.add(tensor.name, f"belongs to a linear with {columns} inputs, no multiple of {BLOCK}")
        if (tensor.dtype, tensor.shape) != (dtype, shape):
            findings.add(tensor.name, f"is {_named(tensor)}, not {dtype} {list(shape)}")
        return rows * columns // per
    if not is_scalar(tensor):
        findings.add(tensor.name, f"is {_named(tensor)}, not one F32")
    return 4


def _check_plain(scene: Scene, findings: Findings, name: str, tensor: Tensor) -> int:
    """Checks an unquantized tensor; returns the bytes that it must have.

    With a source its type is the source's business (gate 5); without one it has to be a floating-point type.
    """
    shape = tensor.shape
    inventory = scene.inventory
    if inventory is not None:
        module = name.removesuffix(".weight")
        linear = inventory.linears.get(module)
        expected = (linear.rows, linear.columns) if linear is not None else inventory.others.get(name)
        if expected is not None and expected != shape:
            findings.add(name, f"has the shape {list(shape)}, not {list(expected)}")
            return _bytes(expected, tensor.dtype)
        if linear is not None and linear.part != "kept" and not scene.ignored.leaves_out(module):
            findings.add(name, f"is {tensor.dtype}, {tensor.size:,} bytes, and is declared NVFP4")
            return linear.rows * (linear.columns // 2 + linear.columns // BLOCK) + TENSOR_SCALE_BYTES
    elif scene.original is not None and (other := scene.original.contents.plain.get(name)) is not None:
        if other.shape != shape:
            findings.add(name, f"has the shape {list(shape)}, not the source's {list(other.shape)}")
        return _bytes(other.shape, tensor.dtype)
    if tensor.dtype not in FLOATING and scene.original is None:
        findings.add(name, f"is {tensor.dtype}, neither NVFP4 nor a floating-point type")
    return tensor.size


def _bytes(shape: tuple[int, ...], dtype: str) -> int:
    size = BITS[dtype]
    for dimension in shape:
        size *= dimension
    return size // 8


def _named(tensor: Tensor) -> str:
    return f"{tensor.dtype} {list(tensor.shape)}"
