"""What a plan says, as `--json` writes it."""

from __future__ import annotations

from typing import Literal

from bench.report.model import Number, Part


class FleetCase(Part):
    """The fleet if one replica holds so many streams; see `bench.explain.fleet.need.Fleet`."""

    case: Literal["certified", "likely", "refuted"]
    says: str
    per_replica: int
    replicas: int
    at_random: int | None
    gpus: int
    per_hour: Number | None
    per_stream_hour: Number | None


class FleetPlan(Part):
    """All of it.

    Attributes:
        streams: asked for.
        report, title, fingerprint, target: planned from.
        slo: in words.
        confidence: of the certificate.
        unit: what is counted and paid: "GPU" or "host".
        price: of one for an hour; null where none was given.
        cases: the certified one first.
        caveats: what the plan takes for granted.
    """

    schema_version: Literal["1.0"] = "1.0"
    streams: int
    report: str
    title: str
    target: str
    fingerprint: str
    slo: str
    source: str
    confidence: Number
    unit: Literal["GPU", "host"]
    price: Number | None
    cases: tuple[FleetCase, ...]
    caveats: tuple[str, ...]
