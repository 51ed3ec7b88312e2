"""What an audit found: one verdict a gate, with its figures and the tensors that offend.

`audit.json` is this model. It holds no time and no path, so that auditing the same bytes again gives the same file.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Final, Literal, Self, TypeAlias

import orjson
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from bench.errors import Exit, StreamproofError
from bench.report.verify_json import HostileJsonError, strict_loads

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA_VERSION: Final = "1.0"
NAMED: Final = 20
"""Offenders that a gate names; all are counted."""
FILE_NAME: Final = "audit.json"
READ_LIMIT: Final = 16 << 20
"""Bytes of an `audit.json` that is read back; ours have some kilobytes."""

Kind: TypeAlias = Literal[
    "nvfp4", "nvfp4-weight-only", "mixed", "modelopt-other", "fp8", "compressed-tensors", "awq", "gptq", "mxfp4",
    "other", "unquantized", "pickle",
]  # fmt: skip
"""What a checkpoint can be; `nvfp4` is what the gates are for, all others are named and not audited."""
Figure: TypeAlias = int | Annotated[float, Field(allow_inf_nan=False)] | str | None


class Verdict(StrEnum):
    """Of one gate."""

    PASSED = "passed"
    FAILED = "failed"
    NOT_CHECKED = "not checked"


class GateName(StrEnum):
    """The gates, in their order. `FILES` comes first because nothing can be said of bytes that cannot be trusted."""

    FILES = "files"
    INVENTORY = "inventory"
    SIZES = "shapes and sizes"
    SCALES = "scales"
    DEQUANTIZED = "dequantized"
    UNQUANTIZED = "unquantized"
    IGNORED = "ignore lists"
    KV_CACHE = "KV scales"
    SERVED = "served"


NEEDS_MORE: Final = frozenset({GateName.DEQUANTIZED, GateName.UNQUANTIZED, GateName.SERVED})
"""Gates that need more than the checkpoint: the BF16 source, or a run that served it."""


class Part(BaseModel):
    """Base: frozen, no unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Offender(Part):
    """One thing that is wrong.

    Attributes:
        name: of the tensor, module or file.
        reason: what is wrong with it.
    """

    name: str
    reason: str


class Gate(Part):
    """One gate.

    Attributes:
        number: 0 for the files, then as in the list of gates.
        name: which one.
        verdict: of this gate.
        says: one sentence: what was found, or why it was not checked.
        figures: numbers by name.
        offending: how many offenders there are.
        offenders: the first `NAMED` of them.
        notes: what is worth knowing and no fault.
    """

    number: int
    name: GateName
    verdict: Verdict
    says: str
    figures: dict[str, Figure] = {}
    offending: int = 0
    offenders: tuple[Offender, ...] = ()
    notes: tuple[str, ...] = ()


class Format(Part):
    """What the checkpoint says it is, and what its tensors say.

    Attributes:
        kind: which of them.
        says: one sentence for people.
        quant_algo: as declared; null where nothing is.
        group_size: values that share a scale.
        kv_cache: `FP8` and the like; null for an unquantized KV cache.
        producer: "modelopt 0.47.0"; empty where unknown.
        engine: the `--quantization` under which vLLM takes it; empty where it is not for vLLM's ModelOpt loader.
    """

    kind: Kind
    says: str
    quant_algo: str | None = None
    group_size: int | None = None
    kv_cache: str | None = None
    producer: str = ""
    engine: str = ""

    @property
    def is_nvfp4(self) -> bool:
        """Whether the gates apply."""
        return self.kind == "nvfp4"


class Audit(Part):
    """The outcome.

    Attributes:
        checkpoint: name of the audited folder, without its path.
        family: model family whose inventory was derived from `config.json`; null where it is unknown.
        format: what it is.
        tensors: in the checkpoint's shards.
        data_bytes: of these tensors.
        gates: all of them, in order.
        passed: it is an NVFP4 checkpoint of ModelOpt, no gate failed, and every gate that needs nothing but the
            checkpoint was checked.
        complete: moreover no gate was left out.
    """

    schema_version: Literal["1.0"] = SCHEMA_VERSION
    checkpoint: str
    family: str | None
    format: Format
    tensors: int
    data_bytes: int
    gates: tuple[Gate, ...]
    passed: bool
    complete: bool

    @classmethod
    def of(  # noqa: PLR0913  the fields that are not derived
        cls,
        *,
        checkpoint: str,
        family: str | None,
        format_: Format,
        tensors: int,
        data_bytes: int,
        gates: tuple[Gate, ...],
    ) -> Self:
        """An audit whose overall verdicts follow from its gates."""
        return cls(
            checkpoint=checkpoint,
            family=family,
            format=format_,
            tensors=tensors,
            data_bytes=data_bytes,
            gates=gates,
            passed=_passed(format_, gates),
            complete=_complete(format_, gates),
        )

    @model_validator(mode="after")
    def _verdicts_follow(self) -> Self:
        if tuple(gate.name for gate in self.gates) != tuple(GateName):
            raise ValueError("these are not all gates in their order")
        if (self.passed, self.complete) != (_passed(self.format, self.gates), _complete(self.format, self.gates)):
            raise ValueError("passed or complete is not what the gates say")
        return self

    def gate(self, name: GateName) -> Gate:
        """The gate of that name."""
        return next(gate for gate in self.gates if gate.name == name)

    @property
    def failed(self) -> tuple[Gate, ...]:
        """The gates that failed."""
        return tuple(gate for gate in self.gates if gate.verdict is Verdict.FAILED)

    @property
    def exit_code(self) -> Exit:
        """0 when it passed, else 3."""
        return Exit.OK if self.passed else Exit.CLAIM_FAILED


def _passed(format_: Format, gates: tuple[Gate, ...]) -> bool:
    allowed = {gate.name: {Verdict.PASSED} for gate in gates}
    for name in NEEDS_MORE:
        allowed[name] = {Verdict.PASSED, Verdict.NOT_CHECKED}
    return format_.is_nvfp4 and all(gate.verdict in allowed[gate.name] for gate in gates)


def _complete(format_: Format, gates: tuple[Gate, ...]) -> bool:
    return format_.is_nvfp4 and all(gate.verdict is Verdict.PASSED for gate in gates)


def audit_json(audit: Audit) -> bytes:
    """`audit.json`: the same audit gives the same bytes."""
    options = orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS | orjson.OPT_APPEND_NEWLINE
    return orjson.dumps(audit.model_dump(mode="json"), option=options)


def write_audit(audit: Audit, path: Path) -> None:
    """Writes `audit.json`, whole or not at all: a file of this name is never half an audit."""
    partial = path.with_name(f".{path.name}.partial")
    partial.write_bytes(audit_json(audit))
    partial.replace(path)


def read_audit(path: Path) -> Audit:
    """Reads an `audit.json` that anybody may have written.

    Raises:
        StreamproofError: it is not there, or is no audit.
    """
    remedy = "Make it anew: just quantize audit DIR --json-file FILE"
    try:
        with path.open("rb") as file:
            raw = file.read(READ_LIMIT + 1)
    except OSError as error:
        raise StreamproofError(f"{path} cannot be read: {error.strerror}.", remedy=remedy) from error
    if len(raw) > READ_LIMIT:
        raise StreamproofError(f"{path} is larger than an audit can be.", remedy=remedy)
    try:
        return Audit.model_validate(strict_loads(raw))
    except (HostileJsonError, ValidationError) as error:
        raise StreamproofError(f"{path} is no audit: {str(error).splitlines()[0]}.", remedy=remedy) from error
