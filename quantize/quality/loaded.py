"""Which tensors of a checkpoint an engine must have named while it loaded them, and which it did not."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, TypeAlias, TypeVar

from quantize.quality.served import LoadedTensors

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from quantize.audit.header import Tensor
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


def compare(tensors: Mapping[str, Tensor], log: LoadLog) -> tuple[LoadedTensors, LoadedTensors, LoadedTensors | None]:
    """Routed experts, the rest of the decoder, and the drafter beside what the engine named.

    Args:
        tensors: of the checkpoint.
        log: of the engine's start, with the loaders speaking. Without a drafter, none of the MTP head is loaded.
    """
    experts: dict[ExpertKey, str] = {}
    plain: dict[bool, dict[str, str]] = {False: {}, True: {}}
    unseen = {False: 0, True: 0}
    for tensor in tensors.values():
        drafter = tensor.name.startswith("mtp.")
        if drafter and not log.drafting:
            continue
        keys = list(_expert_keys(tensor, drafter=drafter))
        if keys:
            experts |= dict.fromkeys(keys, tensor.name)
        elif _PACKED.search(tensor.name):
            unseen[drafter] += 1
        else:
            plain[drafter][_own_name(tensor.name)] = tensor.name
    mine = {key: name for key, name in experts.items() if not key[0]}
    drafted = {key: name for key, name in experts.items() if key[0]}
    return (
        _outcome(mine, log.experts, 0),
        _outcome(plain[False], log.decoder, unseen[False]),
        _drafter(plain[True], drafted, log, unseen[True]) if log.drafting else None,
    )


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


def _expert_keys(tensor: Tensor, *, drafter: bool) -> Iterable[ExpertKey]:
    if found := _SINGLE.match(tensor.name):
        shard = _SHARDS[found[4]]
        yield (drafter, int(found[2]), int(found[3]), shard, f"{_group(shard)}_{found[5]}")
    elif found := _FUSED.match(tensor.name):
        for expert in range(tensor.shape[0]):
            for shard in ("w1", "w3") if found[3] == "gate_up" else ("w2",):
                yield (drafter, int(found[2]), expert, shard, f"{_group(shard)}_weight")


def _group(shard: str) -> str:
    return "w2" if shard == "w2" else "w13"


def _own_name(name: str) -> str:
    for prefix in _PREFIXES:
        if name.startswith(prefix):
            return name.removeprefix(prefix)
    return name
