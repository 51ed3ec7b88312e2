"""One load with our client against the reference server: `python -m bench.peers.ours_client`.

A process of its own, so that what it costs is measured from outside, as for every other tool.
"""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Final

import orjson

from bench.load.clock import RunClock
from bench.load.http import Client
from bench.load.lag import quantile
from bench.load.plan import Closed, Model, Open, PointPlan, Streams
from bench.load.point import run_point
from bench.observe.observations import ClientSelf, PhaseStarted
from bench.peers.load import CHUNK_TOKENS, OUTPUT_TOKENS, PROMPT_TOKENS
from bench.records import Outcome, RequestRecord
from recipes.schema import TurnGap
from tests.truth.workload import TruthSource

RAMP_S: Final = 2.0
DRAIN_S: Final = 10.0
TIMEOUT_S: Final = 30.0

CALLERS: Final = 64
"""Conversations that the arrivals of an open loop are dealt to."""

_QUANTILES: Final = {"p50": 0.5, "p95": 0.95, "p99": 0.99}


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.peers.ours_client", description=__doc__.partition("\n")[0])
    parser.add_argument("--base-url", required=True, help="of the reference server")
    load = parser.add_mutually_exclusive_group(required=True)
    load.add_argument("--in-flight", type=int, help="closed loop: so many requests always open")
    load.add_argument("--streams", type=int, help="so many callers with gaps")
    load.add_argument("--rate", type=float, help="open loop: arrivals per second")
    parser.add_argument("--gap-s", type=float, default=2.0, help="with --streams: seconds of silence after a reply")
    parser.add_argument("--steady-s", type=float, required=True, help="length of the window")
    parser.add_argument("--result", type=Path, required=True, help="file to write")
    return parser.parse_args()


def _model(arguments: argparse.Namespace) -> Model:
    if arguments.in_flight is not None:
        return Closed(count=arguments.in_flight)
    if arguments.streams is not None:
        return Streams(count=arguments.streams, gap=TurnGap(distribution="fixed", mean_s=arguments.gap_s))
    return Open(rate=arguments.rate, arrivals="fixed", callers=CALLERS)


async def _run(base_url: str, plan: PointPlan) -> list[RequestRecord]:
    """The records of the steady window."""
    records: list[RequestRecord] = []
    observed: list[PhaseStarted | ClientSelf] = []
    source = TruthSource(
        prompt_tokens=PROMPT_TOKENS, output_tokens=OUTPUT_TOKENS, behaviour={"chunk_tokens": [CHUNK_TOKENS]}
    )
    clock = RunClock.start()
    async with Client(base_url, clock=clock, request_timeout_s=plan.request_timeout_s) as client:
        await run_point(plan, source, client, clock, records.append, observed.append, asyncio.Event())
    begin = {seen.phase: seen.t for seen in observed if isinstance(seen, PhaseStarted)}
    return [record for record in records if not record.primed and begin["steady"] <= record.intended_s < begin["drain"]]


def _percentiles(
    records: list[RequestRecord], value_s: Callable[[RequestRecord], float | None]
) -> dict[str, float | None]:
    values = [value for record in records if (value := value_s(record)) is not None]
    found = {name: quantile(values, q) for name, q in _QUANTILES.items()}
    return {name: None if value is None else value * 1e3 for name, value in found.items()}


def main() -> None:
    """Entry point."""
    arguments = _arguments()
    plan = PointPlan(
        point=0,
        run=0,
        seed=1,
        model=_model(arguments),
        ramp_s=RAMP_S,
        steady_s=arguments.steady_s,
        drain_s=DRAIN_S,
        request_timeout_s=TIMEOUT_S,
    )
    records = asyncio.run(_run(arguments.base_url, plan))
    whole = [record for record in records if record.outcome is Outcome.OK]
    result = {
        "succeeded": len(whole),
        "failed": len(records) - len(whole),
        "e2e_ms": _percentiles(whole, lambda record: record.e2e_s),
        "ttft_ms": _percentiles(whole, lambda record: record.ttft_s),
        "tags": [f"{r.point}/{r.stream}/{r.conversation}/{r.turn}" for r in records],
    }
    arguments.result.write_bytes(orjson.dumps(result))


if __name__ == "__main__":
    main()
