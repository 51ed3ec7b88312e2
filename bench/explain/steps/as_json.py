"""Where the time of a reply goes, for scripts."""

from __future__ import annotations

from dataclasses import asdict
from math import isinf
from typing import TYPE_CHECKING, Any, Final

from bench.explain.steps.words import ONE

if TYPE_CHECKING:
    from bench.explain.steps.analysis import Analysis, PointSteps

SCHEMA: Final = "streamproof.steps/1"


def as_data(analysis: Analysis) -> dict[str, Any]:
    """The analysis as JSON can hold it: all times in seconds, null where there is nothing to say."""
    return {
        "schema": SCHEMA,
        "report": analysis.folder,
        "target": analysis.target,
        "title": analysis.title,
        "valid": analysis.valid,
        "stream_interval": analysis.stream_interval,
        "no_floors": analysis.no_floors or None,
        "points": [_point(point) for point in analysis.points],
    }


def _point(point: PointSteps) -> dict[str, Any]:
    kinds, stood = point.kinds, point.stood
    return {
        "index": point.index,
        "label": point.label,
        "runs": point.runs,
        "replies": point.replies,
        "requests": point.requests,
        "e2e_s": point.e2e_s,
        "slowest_e2e_s": point.slowest_e2e_s,
        "chunks": point.chunks,
        "parts": [asdict(part) for part in point.parts],
        "kinds": kinds
        and {
            "together_s": kinds.together_s,
            "cut_s": kinds.cut_s,
            "rare_s": None if isinf(kinds.rare_s) else kinds.rare_s,
            "one": kinds.one and {"why": kinds.one, "words": ONE[kinds.one]},
        },
        "standstill": stood and {"run": stood.run, "at_s": stood.at_s, **asdict(stood.standstill)},
        "known": asdict(point.known),
    }
