"""What capturing CUDA graphs costs at an engine's start."""

from __future__ import annotations

from typing import Final

CAPTURE_FIXED_S: Final = 10.0
CAPTURE_PER_GRAPH_S: Final = 0.23
"""Through two starts of the full-size 35B-A3B on one H200 with vLLM 0.26.0: 20 graphs in 14 s, and 102 in 150 s, of
which one took 116 s because a kernel was tuned on the way."""

CAPTURE_SOURCE: Final = "two H200 starts of this model; in one of them tuning a kernel on the way took 116 s more"


def capture_seconds(graphs: int, *, measured_s: float | None = None, measured_graphs: int = 0) -> float:
    """What capturing so many graphs is expected to take, in seconds; no graphs take nothing.

    Args:
        graphs: of both kinds.
        measured_s: what a start took on the same host.
        measured_graphs: for so many graphs.
    """
    if not graphs:
        return 0.0
    if measured_s is not None and measured_graphs:
        return measured_s * graphs / measured_graphs
    return CAPTURE_FIXED_S + CAPTURE_PER_GRAPH_S * graphs
