"""What an engine's log says of its own memory: the measured side of a plan.

The lines are those of vLLM 0.26.0 (`gpu_model_runner.py`, `gpu_worker.py`, `kv_cache_utils.py`, `interface.py`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from bench.engine.log_lines import LineSplitter
from bench.errors import StreamproofError

if TYPE_CHECKING:
    from pathlib import Path

_CHUNK: Final = 1 << 20
_READ_AT_MOST: Final = 256 << 20
"""Bytes of a log. What a start says stands in its first few."""

_GIB = r"(-?[\d.]+)"


@dataclass(frozen=True, slots=True, kw_only=True)
class StartFacts:
    """What one start said; None where it said nothing. Memory in GiB, as the engine rounds it.

    Attributes:
        weights: "Model loading took".
        block_size: of attention blocks, in tokens.
        piecewise, full: numbers of graphs.
        largest, largest_full: tokens of the largest of each.
        pool_estimated, pool_actual: memory of the graphs.
        capture_s: seconds that capturing them took.
        available: memory for the KV cache.
        kv_tokens: "GPU KV cache size".
        sequences: "Maximum concurrency".
        total, non_torch, peak: of the card.
    """

    weights: float | None = None
    block_size: int | None = None
    piecewise: int | None = None
    full: int | None = None
    largest: int | None = None
    largest_full: int | None = None
    pool_estimated: float | None = None
    pool_actual: float | None = None
    capture_s: float | None = None
    available: float | None = None
    kv_tokens: int | None = None
    sequences: float | None = None
    total: float | None = None
    non_torch: float | None = None
    peak: float | None = None

    @property
    def graphs(self) -> int | None:
        """Graphs of both kinds."""
        return None if self.piecewise is None and self.full is None else (self.piecewise or 0) + (self.full or 0)


_NUMBERS: Final[tuple[tuple[re.Pattern[str], tuple[str, ...]], ...]] = (
    (re.compile(rf"Model loading took {_GIB} GiB"), ("weights",)),
    (re.compile(r"Setting attention block size to (\d+) tokens"), ("block_size",)),
    (re.compile(r"Profiling CUDA graph memory:.*\bPIECEWISE=(\d+) \(largest=(\d+)\)"), ("piecewise", "largest")),
    (re.compile(r"Profiling CUDA graph memory:.*\bFULL=(\d+) \(largest=(\d+)\)"), ("full", "largest_full")),
    (re.compile(rf"Estimated CUDA graph memory: {_GIB} GiB"), ("pool_estimated",)),
    (re.compile(rf"Graph capturing finished in ([\d.]+) secs?, took {_GIB} GiB"), ("capture_s", "pool_actual")),
    (re.compile(rf"Available KV cache memory: {_GIB} GiB"), ("available",)),
    (re.compile(rf"\({_GIB}/[\d.]+\) GiB for KV cache on node"), ("available",)),  # CPU
    (re.compile(r"GPU KV cache size: ([\d,]+) tokens"), ("kv_tokens",)),
    (re.compile(r"Maximum concurrency for [\d,]+ tokens per request: ([\d.]+)x"), ("sequences",)),
    (re.compile(rf"Free memory on device \([\d.]+/{_GIB} GiB\) on startup\. Desired"), ("total",)),
    (
        re.compile(rf"GiB for weight, {_GIB} GiB for peak activation, {_GIB} GiB for non-torch memory"),
        ("peak", "non_torch"),
    ),
)
_WHOLE: Final = frozenset({"block_size", "piecewise", "full", "largest", "largest_full", "kv_tokens"})


def start_facts(path: Path) -> StartFacts:
    """Reads a log; of several starts in one file the last word counts.

    Raises:
        StreamproofError: it cannot be read.
    """
    splitter, facts, left = LineSplitter(), StartFacts(), _READ_AT_MOST
    try:
        with path.open("rb") as file:
            while left > 0 and (data := file.read(min(_CHUNK, left))):
                left -= len(data)
                for line in splitter.feed(data):
                    facts = _noted(facts, line.message)
    except OSError as error:
        raise StreamproofError(
            f"cannot read {path}: {error.strerror}", remedy="Name a report's folder or an engine's log."
        ) from error
    return facts if (last := splitter.flush()) == [] else _noted(facts, last[0].message)


def _noted(facts: StartFacts, message: str) -> StartFacts:
    if "GiB" not in message and "tokens" not in message and "largest=" not in message:
        return facts
    found: dict[str, float | int] = {}
    for pattern, names in _NUMBERS:
        if match := pattern.search(message):
            for name, text in zip(names, match.groups(), strict=True):
                plain = text.replace(",", "")
                found[name] = int(plain) if name in _WHOLE else float(plain)
    return replace(facts, **found) if found else facts  # type: ignore[arg-type]  # names and kinds as listed above
