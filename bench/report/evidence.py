"""What a report is computed from. Everything in it can be read again from a report folder, without an engine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from bench.observe.observations import Observation
    from bench.report.model import Producer
    from recipes.schema import Recipe


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Evidence:
    """Raw samples and what was seen beside them.

    Attributes:
        recipe: resolved.
        fingerprint: `recipes.fingerprint.fingerprint` of the recipe and of what it pins.
        records: the request records, at least the columns `bench.report.table.REPORTED` of its `SCHEMA`, in any order:
            a million rows are columns, not objects. From `table_of` (in memory) or `read_parquet` (from a file).
        observations: in the order in which they were made.
        environment: `environment.json` as read: where it was measured. The report itself uses only the names of the
            GPUs in it.
        producer: the software that measured.
        started_at: UTC, ISO 8601.
    """

    recipe: Recipe
    fingerprint: str
    records: pa.Table
    observations: tuple[Observation, ...]
    environment: Mapping[str, Any]
    producer: Producer
    started_at: str
