"""What differs between two reports, value by value, in groups that people ask about."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from bench.explain.compare.outcome import Difference
from recipes.layers import flatten

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from bench.explain.compare.outcome import Group
    from bench.explain.compare.side import Side

_PREFIXES: Final[tuple[tuple[str, Group], ...]] = (
    ("engine.flags.", "flags"),
    ("engine.env.", "environment variables"),
    ("environment.variables.", "environment variables"),
    ("pinned.checkpoint", "checkpoint"),
    ("pinned.workload", "workload"),
    ("pinned.", "image and packages"),
    ("started.", "image and packages"),
    ("engine.", "image and packages"),
    ("checkpoint.", "checkpoint"),
    ("hardware.", "hardware"),
    ("environment.host.", "hardware"),
    ("environment.gpus", "hardware"),
    ("environment.driver", "driver"),
    ("workload.", "workload"),
    ("load.", "load"),
    ("producer.", "client"),
    ("environment.client.", "client"),
)
GROUPS: Final[tuple[Group, ...]] = (
    "flags",
    "environment variables",
    "image and packages",
    "checkpoint",
    "hardware",
    "driver",
    "workload",
    "load",
    "client",
    "recipe",
)
"""In this order they are told."""

_OF_THE_MOMENT: Final = (
    "environment.host.load_average",
    "environment.host.memory_available_bytes",
    "environment.client.commit",  # the producer's, told once
    "environment.client.dirty",
    "load.runs",
)
"""Values that change between any two runs, or that only make a figure surer."""
_OF_A_CARD: Final = ("memory_free_bytes", "sm_clock_mhz", "memory_clock_mhz", "processes")
"""Likewise, of each GPU."""
LONGEST: Final = 120
"""Letters of a value that are told; the reports have it whole."""


def differences(base: Side, other: Side) -> tuple[Difference, ...]:
    """Every value that differs, group by group, in order of its key."""
    one, two = dict(_values(base)), dict(_values(other))
    found = [
        Difference(group=_group(key), key=key, base=_words(one.get(key)), other=_words(two.get(key)))
        for key in one.keys() | two.keys()
        if one.get(key) != two.get(key) and not _is_of_the_moment(key)
    ]
    return tuple(sorted(found, key=lambda each: (GROUPS.index(each.group), each.key)))


def _values(side: Side) -> Iterator[tuple[str, Any]]:
    """Every value that can decide a number, by a dotted key."""
    recipe = side.evidence.recipe.model_dump(
        mode="json", exclude_none=True, include={"hardware", "checkpoint", "engine", "workload", "load"}
    )
    environment = dict(side.evidence.environment)
    pinned = (environment.pop("provenance", None) or {}).get("pinned") or {}
    producer = side.report.producer.model_dump(mode="json")
    tables = recipe | {"pinned": pinned, "producer": producer, "environment": _numbered(environment)}
    yield from ((key, value) for key, value in flatten(tables) if value != {})
    yield "engine.kind", side.report.engine_kind
    started = next((start for _, start in sorted(side.measurement.seen.started.items())), None)
    if started is not None:
        yield "started.version", started.version
        yield "started.packages_sha256", started.packages_sha256
        yield "started.cold", started.cold
        yield "started.image_id", None if started.container is None else started.container.image_id


def _numbered(value: Mapping[str, Any]) -> dict[str, Any]:
    """Lists of tables as tables by their number."""
    return {
        key: {str(number): item for number, item in enumerate(inner)}
        if isinstance(inner, list) and any(isinstance(item, dict) for item in inner)
        else inner
        for key, inner in value.items()
    }


def _group(key: str) -> Group:
    return next((group for prefix, group in _PREFIXES if key.startswith(prefix)), "recipe")


def _is_of_the_moment(key: str) -> bool:
    return key in _OF_THE_MOMENT or (key.startswith("environment.gpus.") and key.rsplit(".", 1)[-1] in _OF_A_CARD)


def _words(value: Any) -> str | None:  # noqa: ANN401  a recipe's value may have any JSON type
    if value is None:
        return None
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."
