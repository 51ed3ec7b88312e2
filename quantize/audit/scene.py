"""Everything that the gates judge, read once: what the checkpoint holds, what it declares and what was measured."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

from bench.report.verify_files import shown
from quantize.audit import numbers
from quantize.audit.contents import Contents, sort_tensors
from quantize.audit.declared import Declaration, from_config, from_hf_quant_config
from quantize.audit.family import Inventory, inventory_of
from quantize.audit.measure import DTYPES, CopyJob, Extent, LinearJob, read
from quantize.audit.model import NAMED, Figure, Gate, GateName, Offender, Verdict
from quantize.audit.patterns import IgnoreList

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from quantize.audit.folder import Checkpoint
    from quantize.audit.header import Tensor
    from quantize.audit.measure import CopyResult, LinearResult
    from quantize.audit.work import Job

SCALAR_SHAPES: Final = frozenset({(), (1,)})
MATRIX: Final = 2
_NUMBERS: Final = {name: number for number, name in enumerate(GateName)}


@dataclass(slots=True)
class Original:
    """The checkpoint that the audited one was made from."""

    checkpoint: Checkpoint
    contents: Contents


@dataclass(slots=True)
class Scene:
    """What there is to judge.

    Attributes:
        checkpoint, contents: the audited one.
        inventory: what the model consists of; None for an unknown family.
        config: what config.json declares.
        hf_quant_config: what hf_quant_config.json declares.
        ignored: the ignore list that counts: config.json's, else the other one.
        original: the BF16 source; None where none was named.
        scalars: values of all FP32 scalars, by name; gate 2 names those that are none.
        linears: what was measured, by module.
        copies: likewise, by name.
    """

    checkpoint: Checkpoint
    contents: Contents
    inventory: Inventory | None
    config: Declaration | None
    hf_quant_config: Declaration | None
    ignored: IgnoreList
    original: Original | None
    scalars: dict[str, float] = field(default_factory=dict)
    linears: dict[str, LinearResult] = field(default_factory=dict)
    copies: dict[str, CopyResult] = field(default_factory=dict)

    @property
    def kv_cache(self) -> str | None:
        """The KV cache's declared format."""
        declared = self.config or self.hf_quant_config
        return None if declared is None else declared.kv_cache

    def shape_of(self, module: str) -> tuple[int, int] | None:
        """Rows and columns that a linear must have: from the family, else from the source."""
        if self.inventory is not None and module in self.inventory.linears:
            linear = self.inventory.linears[module]
            return linear.rows, linear.columns
        source = self.source_weight(module)
        return None if source is None else (source.shape[0], source.shape[1])

    def source_weight(self, module: str) -> Tensor | None:
        """The unquantized weight of a linear in the source."""
        if self.original is None:
            return None
        tensor = self.original.contents.plain.get(f"{module}.weight")
        return tensor if tensor is not None and len(tensor.shape) == MATRIX else None


def build_scene(checkpoint: Checkpoint, source: Checkpoint | None) -> Scene:
    """Sorts the tensors and reads the scalars."""
    config = from_config(checkpoint.config)
    hf_quant_config = from_hf_quant_config(checkpoint.hf_quant_config)
    lists = [declared.ignored for declared in (config, hf_quant_config) if declared and declared.ignored is not None]
    contents = sort_tensors(checkpoint.tensors.values())
    scene = Scene(
        checkpoint=checkpoint,
        contents=contents,
        inventory=inventory_of(checkpoint.config),
        config=config,
        hf_quant_config=hf_quant_config,
        ignored=IgnoreList(lists[0] if lists else ()),
        original=None if source is None else Original(source, sort_tensors(source.tensors.values())),
    )
    _settle_optional_parts(scene)
    for parts in contents.quantized.values():
        for part in ("weight_scale_2", "input_scale"):
            if part in parts:
                _read_scalar(scene, parts[part])
    for tensor in contents.kv_scales.values():
        _read_scalar(scene, tensor)
    return scene


def _settle_optional_parts(scene: Scene) -> None:
    """Drops the vision tower from what is expected where neither the source nor the checkpoint has any of it.

    A config.json keeps its `vision_config` when a model is published for text alone; serving text needs no tower.
    """
    inventory = scene.inventory
    if inventory is None or not inventory.vision:
        return
    held = [scene.contents.plain] + ([scene.original.contents.plain] if scene.original else [])
    if any(name.startswith(inventory.vision) for names in held for name in names):
        return
    for names in (inventory.linears, inventory.others):
        for name in [name for name in names if name.startswith(inventory.vision)]:
            del names[name]
    inventory.vision = ""
    inventory.without_vision = True


def _read_scalar(scene: Scene, tensor: Tensor) -> None:
    if is_scalar(tensor):
        scene.scalars[tensor.name] = float(np.frombuffer(read(extent(scene.checkpoint, tensor)), "<f4")[0])


def is_scalar(tensor: Tensor) -> bool:
    """Whether a tensor is one FP32 number."""
    return tensor.dtype == "F32" and tensor.shape in SCALAR_SHAPES


def extent(checkpoint: Checkpoint, tensor: Tensor) -> Extent:
    """Where a tensor's bytes are."""
    return Extent(str(checkpoint.path), tensor.shard, tensor.offset, tensor.size)


def jobs_of(scene: Scene) -> list[Job]:
    """All that has to be read: the scales, with a source also weights and copies. In the files' order."""
    jobs: list[Job] = []
    jobs += filter(None, (linear_job(scene, module) for module in scene.contents.quantized))
    if scene.original is not None:
        originals = scene.original.contents.plain
        for name, tensor in scene.contents.plain.items():
            other = originals.get(name)
            if other is not None and (other.dtype, other.shape) == (tensor.dtype, tensor.shape):
                there = extent(scene.original.checkpoint, other)
                jobs.append(CopyJob(name, extent(scene.checkpoint, tensor), there))
    return sorted(jobs, key=_place)


def _place(job: Job) -> tuple[str, int]:
    first = job.scale if isinstance(job, LinearJob) else job.here
    return first.shard, first.offset


def linear_job(scene: Scene, module: str) -> LinearJob | None:
    """What to measure of a linear; None where its parts are not what they must be: gates 1 and 2 name it."""
    parts = scene.contents.quantized[module]
    weight, scale = parts.get("weight"), parts.get("weight_scale")
    if weight is None or scale is None or not packed_matches(weight, scale):
        return None
    rows, columns = weight.shape[0], weight.shape[1] * 2
    checkpoint = scene.checkpoint
    job = LinearJob(module, rows, columns, extent(checkpoint, weight), extent(checkpoint, scale))
    source = scene.source_weight(module)
    scale_2 = parts.get("weight_scale_2")
    value = math.nan if scale_2 is None else scene.scalars.get(scale_2.name, math.nan)
    comparable = source is not None and source.dtype in DTYPES and source.shape == (rows, columns)
    if scene.original is None or source is None or not comparable or not is_scale(value):
        return job
    there = extent(scene.original.checkpoint, source)
    return LinearJob(module, rows, columns, job.weight, job.scale, value, there, source.dtype)


def packed_matches(weight: Tensor, scale: Tensor) -> bool:
    """Whether a packed weight and its block scales have the format's types and fitting, non-empty shapes."""
    if (weight.dtype, scale.dtype) != ("U8", "F8_E4M3") or len(weight.shape) != MATRIX or 0 in weight.shape:
        return False
    rows, half = weight.shape
    return scale.shape == (rows, half * 2 // numbers.BLOCK) and half * 2 % numbers.BLOCK == 0


def is_scale(value: float) -> bool:
    """Finite and above zero."""
    return math.isfinite(value) and value > 0


class Findings:
    """Collects what offends at one gate: counts all, keeps the first, and makes the gate.

    Args:
        name: of the gate.
    """

    def __init__(self, name: GateName) -> None:
        self._name = name
        self._kept: list[Offender] = []
        self.count = 0
        self.notes: list[str] = []

    def add(self, name: str, reason: str, *, counts: int = 1) -> None:
        """Notes one; `counts` for one line that stands for several tensors."""
        self.add_all([Offender(name=shown(name), reason=reason)])
        self.count += counts - 1

    def add_all(self, offenders: Sequence[Offender]) -> None:
        """Notes several, whose names are safe to show already."""
        self.count += len(offenders)
        self._kept += offenders[: NAMED - len(self._kept)]

    def gate(self, passed: str, failed: str, figures: Mapping[str, Figure], *, unchecked: str = "") -> Gate:
        """The gate.

        Args:
            passed: what to say then.
            failed: likewise.
            figures: its numbers.
            unchecked: why not all of it could be checked. Such a gate can fail, but never pass.
        """
        verdict, says = Verdict.PASSED, passed
        if unchecked:
            verdict, says = Verdict.NOT_CHECKED, unchecked
        if self.count:
            verdict, says = Verdict.FAILED, failed
        return Gate(
            number=_NUMBERS[self._name],
            name=self._name,
            verdict=verdict,
            says=says,
            figures=dict(figures),
            offending=self.count,
            offenders=tuple(self._kept),
            notes=tuple(self.notes),
        )


def not_checked(name: GateName, why: str) -> Gate:
    """A gate that was left out."""
    return Gate(number=_NUMBERS[name], name=name, verdict=Verdict.NOT_CHECKED, says=why)
