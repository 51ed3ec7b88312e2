"""The JSON Schema of `report.json`, published as `bench/report/report.schema.json`.

After a change of the model: `python -m bench.report.schema` writes it again.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from pydantic.json_schema import GenerateJsonSchema

from bench.report.folder_files import canonical_json
from bench.report.model import SCHEMA_VERSION, Report

PUBLISHED: Final = Path(__file__).with_name("report.schema.json")
DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"


class _EveryKey(GenerateJsonSchema):
    """A written report always has every key, those with a default included, but for what only some runs have."""

    def field_is_required(self, field: Any, total: bool) -> bool:  # noqa: ANN401, ARG002, FBT001  pydantic's signature
        return "serialization_exclude_if" not in field


def report_schema() -> dict[str, Any]:
    """The schema that the model has now."""
    schema = Report.model_json_schema(mode="serialization", schema_generator=_EveryKey)
    return {"$schema": DIALECT, "title": f"streamproof report {SCHEMA_VERSION}"} | {
        key: value for key, value in schema.items() if key != "title"
    }


if __name__ == "__main__":
    PUBLISHED.write_bytes(canonical_json(report_schema()))
