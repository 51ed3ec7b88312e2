"""Which tensors of a checkpoint an engine must have named while it loaded them, and which it did not."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

from quantize.audit.family import inventory_of
from quantize.quality.served import LoadedTensors

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from quantize.audit.folder import Checkpoint
    from quantize.quality.load_log import LoadLog

NAMED: Final = 20
"""Missing tensors that are named; all are counted."""

_SINGLE: Final = re.compile(r"^(.*?)layers\.(\d+)\.mlp\.experts\.(\d+)\.(gate|up|down)_proj\.(\w+)$")
_FUSED: Final = re.compile(r"^(.*?)layers\.(\d+)\.mlp\.experts\.(gate_up|down)_proj$")
_SHARDS: Final = {"gate": "w1", "up": "w3", "down": "w2"}
_PREFIXES: Final = ("model.language_model.", "language_model.model.", "model.", "mtp.")
"""What stands before a decoder's or a drafter's own names."""

_PACKED: Final = re.compile(
    r"\.(?:[qkv]_proj|in_proj_\w+|shared_expert\.(?:gate|up)_proj)\.\w+$|\.[kv]_scale$|^(?:model\.)?visual\."
)
"""Loaded without a line of their own: see `quantize.quality.load_log`. The vision tower is not loaded at all."""

ExpertKey: TypeAlias = tuple[bool, int, int, str, str]
"""(drafter?, layer, expert, shard, parameter), as the engine names it."""

_KeyT = TypeVar("_KeyT")


def compare(checkpoint: Checkpoint, log: LoadLog) -> tuple[LoadedTensors, LoadedTensors, LoadedTensors | None]:
    """Routed experts, the rest of the decoder, and the drafter beside what the engine named.

    Args:
        checkpoint: that was served. What its configuration says the model has is expected too, so that a tensor that
            the checkpoint lost is missed; of a family that the audit does not know, only what is there.
        log: of the engine's start, with the loaders speaking. Without a drafter, none of the MTP head is loaded.
    """
    experts: dict[ExpertKey, str] = {}
    plain: dict[bool, dict[str, str]] = {False: {}, True: {}}
    unseen = {False: 0, True: 0}
    for name, count in _expected(checkpoint).items():
        drafter = name.startswith("mtp.")
        if drafter and not log.drafting:
            continue
        keys = list(_expert_keys(name, count, drafter=drafter))
        if keys:
            experts |= dict.fromkeys(keys, name)
        elif _PACKED.search(name):
            unseen[drafter] += 1
        else:
            plain[drafter][_own_name(name)] = name
    mine = {key: name for key, name in experts.items() if not key[0]}
    drafted = {key: name for key, name in experts.items() if key[0]}
    return (
        _outcome(mine, log.experts, 0),
        _outcome(plain[False], log.decoder, unseen[False]),
        _drafter(plain[True], drafted, log, unseen[True]) if log.drafting else None,
    )


def _expected(checkpoint: Checkpoint) -> dict[str, int]:
    """Names of all tensors, each with its first dimension: what the model has, then what the checkpoint has."""
    expected: dict[str, int] = {}
    inventory = inventory_of(checkpoint.config)
    if inventory is not None:
        # Where one expert of the decoder has scales, every one must.
        found = {match[5] for name in checkpoint.tensors if (match := _SINGLE.match(name)) and match[1] != "mtp."}
        for name in inventory.plain_shapes():
            single = _SINGLE.match(name)
            if single and single[1] != "mtp.":
                expected |= {f"{name.removesuffix('weight')}{part}": 1 for part in found | {"weight"}}
            elif not name.startswith("model.visual."):
                expected[name] = 1
    return expected | {name: (tensor.shape or (1,))[0] for name, tensor in checkpoint.tensors.items()}


def _drafter(plain: Mapping[str, str], experts: Mapping[ExpertKey, str], log: LoadLog, unseen: int) -> LoadedTensors:
    rest, routed = _outcome(plain, log.drafter, unseen), _outcome(experts, log.experts, 0)
    return LoadedTensors(
        expected=rest.expected + routed.expected,
        loaded=rest.loaded + routed.loaded,
        missing=(*rest.missing, *routed.missing)[:NAMED],
        unseen=unseen,
    )


def _outcome(wanted: Mapping[_KeyT, str], seen: Iterable[_KeyT], unseen: int) -> LoadedTensors:
    missing = wanted.keys() - set(seen)
    names = sorted(f"{wanted[key]}{_which(key)}" for key in missing)
    return LoadedTensors(
        expected=len(wanted), loaded=len(wanted) - len(missing), missing=tuple(names[:NAMED]), unseen=unseen
    )


def _which(key: object) -> str:
    """Of a fused tensor, the part."""
    return f" (expert {key[2]}, {key[3]})" if isinstance(key, tuple) else ""


def _expert_keys(name: str, count: int, *, drafter: bool) -> Iterable[ExpertKey]:
    """The parts of a routed expert's tensor; of one with all experts, `count` times as many. Nothing for others."""
    if found := _SINGLE.match(name):
        shard = _SHARDS[found[4]]
        yield (drafter, int(found[2]), int(found[3]), shard, f"{_group(shard)}_{found[5]}")
    elif found := _FUSED.match(name):
        for expert in range(count):
            for shard in ("w1", "w3") if found[3] == "gate_up" else ("w2",):
                yield (drafter, int(found[2]), expert, shard, f"{_group(shard)}_weight")


def _group(shard: str) -> str:
    return "w2" if shard == "w2" else "w13"


def _own_name(name: str) -> str:
    for prefix in _PREFIXES:
        if name.startswith(prefix):
            return name.removeprefix(prefix)
    return name
