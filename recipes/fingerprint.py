"""The fingerprint: a hash over everything that decides the numbers. Two reports with the same one are repeats.

In it: hardware, checkpoint (its files, not only its name), engine (release, flags, environment, closure, image digest),
workload (and the version of the text generator), load. Not in it: titles, sources and claims, which change no number,
and how many runs were made, which only makes it more certain.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from recipes.schema import Recipe

_NO_CODE: Final = {
    "flags": ("gpu_memory_utilization", "kv_cache_memory_bytes", "num_gpu_blocks_override", "cudagraph_metrics"),
    "env": ("VLLM_LOG_STATS_INTERVAL",),
}
"""What no compiled code depends on, by the table of `engine`: sizes of the KV cache, and what is told of a step.

vLLM 0.26.0 leaves them out of the names of what it compiles, too (`compute_hash` in vllm/config/cache.py and
observability.py)."""


@dataclass(frozen=True, kw_only=True)
class Pinned:
    """What a recipe names and other files pin.

    Attributes:
        lock_sha256: of the engine environment's closure (docker/locks); None where the engine runs from an image, or is
            somebody else's.
        image_digest: of the engine's image: the hash of its definition where it is built from our pins, since builds of
            one definition may differ in bytes that decide nothing (labels with the commit); its id where it was given
            by hand; None where no image is used.
        checkpoint_sha256: over the checkpoint's files (`folder_sha256`); None where only the server knows.
        workload_version: of the text generator.
    """

    lock_sha256: str | None
    image_digest: str | None
    checkpoint_sha256: str | None
    workload_version: str


def fingerprint(recipe: Recipe, pinned: Pinned) -> str:
    """64 hex digits: SHA-256 of canonical JSON (sorted keys, no spaces)."""
    # What is left open is left out: a key that a later version adds does not change the fingerprints of today.
    decides = recipe.model_dump(
        mode="json", include={"hardware", "checkpoint", "engine", "workload", "load"}, exclude_none=True
    )
    del decides["load"]["runs"]
    _unplace(decides, recipe, pinned)
    for point in decides["load"]["ladder"]:
        if "trace_sha256" in point:  # what the trace says decides, and not where it lies
            del point["trace"]
    return _sha256({"recipe": decides, "pinned": asdict(pinned)})


def engine_fingerprint(recipe: Recipe, pinned: Pinned) -> str:
    """As `fingerprint`, over hardware, checkpoint and engine alone: recipes of the same one start the same engine.

    What an engine compiles is kept under it, so that it starts warm for another ladder or workload too. Each of several
    replicas is the engine that one alone would be on its share of the GPUs, and one of several engines on a card is the
    engine that would have the card for itself.
    """
    decides = recipe.model_dump(mode="json", include={"hardware", "checkpoint", "engine"}, exclude_none=True)
    del decides["engine"]["ready_timeout_s"]
    if decides["engine"].pop("replicas", None) and recipe.hardware.kind == "gpu":
        decides["hardware"]["count"] //= recipe.replicas
    for table, keys in _NO_CODE.items():
        for key in keys:
            decides["engine"].get(table, {}).pop(key, None)
    _unplace(decides, recipe, pinned)
    hashes = {name: value for name, value in asdict(pinned).items() if name != "workload_version"}
    return _sha256({"recipe": decides, "pinned": hashes})


def _unplace(decides: dict[str, Any], recipe: Recipe, pinned: Pinned) -> None:
    if recipe.checkpoint.kind == "folder" and pinned.checkpoint_sha256:  # its files decide, and not where they lie
        del decides["checkpoint"]["name"]


def _sha256(data: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(data, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def folder_sha256(folder: Path) -> str:
    """SHA-256 over a folder: the sorted lines "sha256  path" of all its files, as sha256sum prints them."""
    paths = sorted((p for p in folder.rglob("*") if p.is_file()), key=lambda p: p.relative_to(folder).as_posix())
    lines = [f"{file_sha256(path)}  {path.relative_to(folder).as_posix()}\n" for path in paths]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def file_sha256(path: Path) -> str:
    """SHA-256 of one file, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
