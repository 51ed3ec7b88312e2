"""The evidence of a report as files, written and read: one form for whoever makes a report and whoever verifies it.

`environment.json` holds what the measuring machine said of itself, under any keys, and under `provenance` what the
report needs: who measured, when, and the hashes that the recipe's names stood for. The fingerprint is never read: it is
computed again from recipe and hashes.
"""

from __future__ import annotations

import tomllib
from typing import TYPE_CHECKING, Annotated, Any, Final

import tomli_w
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from bench.errors import StreamproofError
from bench.observe.observations import OBSERVATION
from bench.report import folder_files as files
from bench.report.evidence import Evidence
from bench.report.model import Producer
from bench.report.table import read_parquet
from bench.report.verify_json import HostileJsonError, strict_loads
from recipes.fingerprint import Pinned, fingerprint
from recipes.schema import Recipe

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from typing import BinaryIO

    import pyarrow as pa

    from bench.observe.observations import Observation

PROVENANCE: Final = "provenance"


class EvidenceError(StreamproofError):
    """A file of the evidence cannot be read as what it should be.

    Args:
        file: its name.
        reason: what is wrong with it.
    """

    def __init__(self, file: str, reason: str) -> None:
        super().__init__(f"{file}: {reason}", remedy="It was changed or damaged after it was written.")
        self.file = file
        self.reason = reason


class Provenance(BaseModel):
    """Who measured, when, and with what.

    Attributes:
        producer: the software that measured.
        started_at: UTC, ISO 8601 with a Z, to the second.
        pinned: the hashes behind the recipe's names.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    producer: Producer
    started_at: Annotated[str, Field(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")]
    pinned: Pinned


def recipe_toml(recipe: Recipe) -> str:
    """The resolved recipe as `recipe.resolved.toml`: TOML has no null, so what is None is left out."""
    return tomli_w.dumps(recipe.model_dump(mode="json", exclude_none=True))


def environment_json(provenance: Provenance, environment: Mapping[str, Any]) -> bytes:
    """`environment.json`.

    Args:
        provenance: see above.
        environment: anything that JSON can hold, under any other key.
    """
    return files.canonical_json(dict(environment) | {PROVENANCE: provenance.model_dump(mode="json")})


def evidence_of(recipe: bytes, environment: bytes, observations: bytes, records: pa.Table) -> Evidence:
    """Reads evidence that may come from anybody; the caller has limited its size.

    Args:
        recipe: `recipe.resolved.toml`.
        environment: `environment.json`.
        observations: `observations.jsonl`; every line must end.
        records: from `read_records`.

    Raises:
        EvidenceError: names the file and what is wrong in it.
    """
    resolved = parse_recipe(recipe)
    machine, provenance = parse_environment(environment)
    seen = parse_observations(observations)
    return Evidence(
        recipe=resolved,
        fingerprint=fingerprint(resolved, provenance.pinned),
        records=records,
        observations=seen,
        environment=machine,
        producer=provenance.producer,
        started_at=provenance.started_at,
    )


def read_records(source: Path | BinaryIO) -> pa.Table:
    """Reads what the report needs of `requests.parquet`.

    Raises:
        EvidenceError: not Parquet, or not request records.
    """
    try:
        return read_parquet(source)
    except StreamproofError as error:
        raise EvidenceError(files.RECORDS, error.message) from error


def parse_recipe(raw: bytes) -> Recipe:
    """Reads a resolved recipe.

    Raises:
        EvidenceError: not TOML, or no recipe.
    """
    try:
        return Recipe.model_validate(tomllib.loads(raw.decode("utf-8")))
    except ValidationError as error:
        raise EvidenceError(files.RECIPE, f"is no recipe: {_first(error)}") from error
    except (ValueError, RecursionError) as error:  # no UTF-8, no TOML, nested too deep
        raise EvidenceError(files.RECIPE, f"is not TOML: {_line(error)}") from error


def parse_environment(raw: bytes) -> tuple[dict[str, Any], Provenance]:
    """Reads `environment.json`: all of it, and the provenance in it.

    Raises:
        EvidenceError: not JSON as we write it, or without provenance.
    """
    try:
        environment = strict_loads(raw)
        if not isinstance(environment, dict):
            raise EvidenceError(files.ENVIRONMENT, "is not a JSON object")
        return environment, Provenance.model_validate(environment.get(PROVENANCE))
    except HostileJsonError as error:
        raise EvidenceError(files.ENVIRONMENT, f"cannot be read: {error}") from error
    except ValidationError as error:
        raise EvidenceError(files.ENVIRONMENT, f"{PROVENANCE} is not right: {_first(error)}") from error


def parse_observations(raw: bytes) -> tuple[Observation, ...]:
    """Reads `observations.jsonl`.

    Raises:
        EvidenceError: names the line.
    """
    found: list[Observation] = []
    lines = raw.split(b"\n")
    if lines.pop():
        raise EvidenceError(files.OBSERVATIONS, f"its last line ({len(lines) + 1}) has no end")
    for number, line in enumerate(lines, start=1):
        try:
            found.append(OBSERVATION.validate_python(strict_loads(line)))
        except HostileJsonError as error:
            raise EvidenceError(files.OBSERVATIONS, f"line {number} cannot be read: {error}") from error
        except ValidationError as error:
            raise EvidenceError(files.OBSERVATIONS, f"line {number} is no observation: {_first(error)}") from error
    return tuple(found)


def _first(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    where = ".".join(str(step) for step in first["loc"])
    return f"{where[:200]}: {first['msg']}" if where else first["msg"]


def _line(error: BaseException) -> str:
    return str(error).split("\n", 1)[0][:200]
