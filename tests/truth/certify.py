"""Certify the client against known truth: `python -m tests.truth.certify`.

The reference server runs on one core, the client on another, each scenario in a client process of its own. What the
client reports is compared with what the server did: the error of each percentile, requests that were lost or taken for
something else, and what it cost. Prints a table; `--json FILE` writes the same. Exit code 1 if a limit is broken.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from itertools import cycle
from pathlib import Path
from typing import Any, Final

import orjson

from bench.load.clock import RunClock
from bench.load.http import Client
from bench.load.lag import quantile
from bench.load.plan import Closed, Model, PointPlan, Streams
from bench.load.point import run_point
from bench.observe.observations import ClientSelf, PhaseStarted
from bench.records import Outcome, RequestRecord
from bench.workload.turn import Turn
from recipes.schema import TurnGap
from tests.truth.faults import FAULTS, WHOLE
from tests.truth.process import running
from tests.truth.workload import TruthSource

QUANTILES: Final = (0.5, 0.95, 0.99)
LAW: Final = {"e2e_p50_s": 0.600, "e2e_p95_s": 0.765}

ERROR_LIMIT_MS: Final = 1.0
CPU_LIMIT_S: Final = 5.0
IN_FLIGHT_LIMIT: Final = 0.01
FIRST_LIMIT_S: Final = 3.0
LAG_LIMIT_MS: Final = 5.0
MEMORY_LIMIT_MB: Final = 2000.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One load on one script.

    Attributes:
        name: for the table.
        model: which load.
        ramp_s, steady_s: its phases.
        turns: of every call.
        prompt_tokens: of every prompt, four bytes each.
        faults: every turn has another fate of `tests.truth.faults`.
        idle: mostly silent streams: judged by lag and memory too.
    """

    name: str
    model: Model
    ramp_s: float = 5.0
    steady_s: float = 40.0
    turns: int = 4
    prompt_tokens: int = 10_000
    faults: bool = False
    idle: bool = False


def exponential(mean_s: float) -> TurnGap:
    """A memoryless caller."""
    return TurnGap(distribution="exponential", mean_s=mean_s)


SCENARIOS: Final = {
    scenario.name: scenario
    for scenario in (
        Scenario(name="60 streams", model=Streams(count=60, gap=exponential(2.0))),
        Scenario(name="60 in flight", model=Closed(count=60)),
        Scenario(name="16 in flight", model=Closed(count=16)),
        Scenario(
            name="faults",
            model=Streams(count=70, gap=TurnGap(distribution="fixed", mean_s=0.5)),
            steady_s=20.0,
            prompt_tokens=1_000,
            faults=True,
        ),
        Scenario(
            name="10,000 silent streams",
            model=Streams(count=10_000, gap=exponential(49.4)),
            ramp_s=20.0,
            turns=1,
            idle=True,
        ),
    )
}


@dataclass(frozen=True)
class FaultySource(TruthSource):
    """Every turn has another fate; its tag names it."""

    fates: dict[str, Outcome] = field(default_factory=dict)

    def calls(self, stream: int) -> Iterator[Sequence[Turn]]:
        """One turn a call."""
        scripts = {name: (behaviour, Outcome.OK) for name, behaviour in WHOLE.items()} | FAULTS
        names = list(scripts)
        for conversation, name in enumerate(cycle(names[stream % len(names) :] + names[: stream % len(names)])):
            behaviour, outcome = scripts[name]
            tag = f"{stream}/{conversation}/0"
            self.fates[f"{self.point}/{tag}"] = outcome
            yield [self.turn(tag, self.agents[0], conversation, 0, behaviour)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What one client made of one scenario. Errors are client minus truth, milliseconds.

    Attributes:
        client: whose.
        scenario: which.
        requests: in the window.
        miscounted: requests of the whole point that the client lost, or whose outcome or tokens it took for others.
        truth_ms: p50, p95, p99 of the server's own E2E.
        e2e_error_ms, ttft_error_ms: of p50, p95, p99.
        cpu_s: client CPU seconds per 1,000 requests.
        in_flight: mean number of open requests in the window as the server saw it.
        asked: number of requests in flight that was asked for; null for streams.
        first_s: seconds from the start until the server received the first request.
        memory_mb: peak memory of the client process.
        lag_p99_ms, stamp_p99_ms, send_p99_ms: the client's own certificate; null where it has none.
        reconnected: requests sent again on a fresh connection.
    """

    client: str
    scenario: str
    requests: int
    miscounted: int
    truth_ms: tuple[float, ...]
    e2e_error_ms: tuple[float, ...]
    ttft_error_ms: tuple[float, ...]
    cpu_s: float
    in_flight: float
    asked: int | None
    first_s: float
    memory_mb: float
    lag_p99_ms: float | None
    stamp_p99_ms: float | None
    send_p99_ms: float | None
    reconnected: int

    def broken(self, scenario: Scenario) -> list[str]:
        """The limits that this row breaks."""
        limits = {
            "miscounted": (self.miscounted, 0),
            "CPU": (self.cpu_s, CPU_LIMIT_S),
            "first request": (self.first_s, FIRST_LIMIT_S),
        }
        if not scenario.faults:
            limits["E2E error"] = (max(map(abs, self.e2e_error_ms)), ERROR_LIMIT_MS)
            limits["TTFT error"] = (max(map(abs, self.ttft_error_ms)), ERROR_LIMIT_MS)
        if self.asked is not None and not scenario.faults:
            limits["in flight"] = (abs(self.in_flight / self.asked - 1), IN_FLIGHT_LIMIT)
        if scenario.idle:
            limits["lag p99"] = (self.lag_p99_ms or 0.0, LAG_LIMIT_MS)
            limits["memory"] = (self.memory_mb, MEMORY_LIMIT_MB)
        return [f"{name} {value:.3g} > {limit:g}" for name, (value, limit) in limits.items() if value > limit]


def measure(scenario: Scenario, *, core: int | None, server_core: int | None) -> Row:
    """Run one scenario in this process, against a server in another one."""
    source, fates = _source(scenario)
    plan = PointPlan(
        point=0,
        run=0,
        seed=1,
        model=scenario.model,
        ramp_s=scenario.ramp_s,
        steady_s=scenario.steady_s,
        drain_s=10.0,
        request_timeout_s=30.0,
    )
    records: list[RequestRecord] = []
    observed: list[PhaseStarted | ClientSelf] = []

    async def main(base_url: str) -> tuple[RunClock, int]:
        clock = RunClock.start()
        async with Client(base_url, clock=clock, request_timeout_s=plan.request_timeout_s) as client:
            await run_point(plan, source, client, clock, records.append, observed.append, asyncio.Event())
            return clock, client.resent

    script = {} if scenario.faults else {"law": LAW}
    with tempfile.TemporaryDirectory() as folder, running(script, folder=Path(folder), core=server_core) as server:
        if core is not None:
            os.sched_setaffinity(0, {core})
        begin = time.monotonic()
        clock, resent = asyncio.run(main(server.base_url))
        truths = server.truth()
    memory_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    starts = {seen.phase: clock.monotonic(seen.t) for seen in observed if isinstance(seen, PhaseStarted)}
    (own,) = (seen for seen in observed if isinstance(seen, ClientSelf))
    by_tag = {truth["tag"]: truth for truth in truths if truth["ended"] != "cut" or truth["fault"] != "dead_keepalive"}
    window = [
        record
        for record in records
        if not record.primed and starts["steady"] <= clock.monotonic(record.intended_s) < starts["drain"]
    ]
    pairs = [(record, by_tag[_tag(record)]) for record in window if _tag(record) in by_tag]
    whole = [(record, truth) for record, truth in pairs if record.outcome is Outcome.OK]
    return Row(
        client="ours",
        scenario=scenario.name,
        requests=len(window),
        miscounted=_miscounted(records, by_tag, fates),
        truth_ms=_milliseconds([truth["done_s"] - truth["received_s"] for _, truth in whole]),
        e2e_error_ms=_errors(
            [record.e2e_s for record, _ in whole], [truth["done_s"] - truth["received_s"] for _, truth in whole]
        ),
        ttft_error_ms=_errors(
            [record.ttft_s or 0.0 for record, _ in whole],
            [truth["first_token_s"] - truth["received_s"] for _, truth in whole],
        ),
        cpu_s=own.cpu_s / max(1, len(window)) * 1000,
        in_flight=_in_flight(truths, starts["steady"], starts["drain"]),
        asked=scenario.model.count if isinstance(scenario.model, Closed) else None,
        first_s=min(truth["received_s"] for truth in truths) - begin,
        memory_mb=memory_mb,
        lag_p99_ms=own.lag_p99_s * 1e3,
        stamp_p99_ms=None if own.stamp_delay_p99_s is None else own.stamp_delay_p99_s * 1e3,
        send_p99_ms=None if own.send_delay_p99_s is None else own.send_delay_p99_s * 1e3,
        reconnected=resent,
    )


def _source(scenario: Scenario) -> tuple[TruthSource, dict[str, Outcome]]:
    if scenario.faults:
        faulty = FaultySource(prompt_tokens=scenario.prompt_tokens)
        return faulty, faulty.fates
    source = TruthSource(
        prompt_tokens=scenario.prompt_tokens,
        output_tokens=100,
        turns=scenario.turns,
        behaviour={"chunk_tokens": [3]},
    )
    return source, {}


def _tag(record: RequestRecord) -> str:
    if record.primed:
        return f"{record.point}/prime/{record.agent}"
    return f"{record.point}/{record.stream}/{record.conversation}/{record.turn}"


def _miscounted(records: list[RequestRecord], truths: dict[str, dict[str, Any]], fates: dict[str, Outcome]) -> int:
    """Requests that only one side knows, that have another outcome than scripted, or other tokens than were made."""
    ours = {_tag(record): record for record in records}
    wrong = len(records) - len(ours) + len(ours.keys() ^ truths.keys())
    for tag in ours.keys() & truths.keys():
        record, truth = ours[tag], truths[tag]
        expected = fates.get(tag, Outcome.OK)
        tokens = (record.prompt_tokens, record.completion_tokens) == (truth["prompt_tokens"], truth["generated_tokens"])
        wrong += record.outcome is not expected or (expected is Outcome.OK and not tokens)
    return wrong


def _milliseconds(seconds: list[float]) -> tuple[float, ...]:
    return tuple(round((quantile(seconds, q) or 0.0) * 1e3, 3) for q in QUANTILES)


def _errors(ours: list[float], truth: list[float]) -> tuple[float, ...]:
    return tuple(round(a - b, 3) for a, b in zip(_milliseconds(ours), _milliseconds(truth), strict=True))


def _in_flight(truths: list[dict[str, Any]], begin: float, end: float) -> float:
    """Mean number of requests open at the server between two times."""
    open_s: float = sum(max(0.0, min(truth["ended_s"], end) - max(truth["received_s"], begin)) for truth in truths)
    return float(open_s / (end - begin))


def table(rows: list[Row]) -> str:
    """The rows for people."""
    head = (
        f"{'scenario':<22}{'n':>7}{'wrong':>6}  {'truth E2E p50/95/99':<22}{'E2E error':<21}{'TTFT error':<21}"
        f"{'CPU':>6}{'in flight':>11}{'first':>7}{'MB':>6}{'lag99':>7}{'stamp99':>8}{'send99':>7}"
    )
    lines = [head]
    for row in rows:
        asked = "" if row.asked is None else f"/{row.asked}"
        lines.append(
            f"{row.scenario:<22}{row.requests:>7}{row.miscounted:>6}  {_three(row.truth_ms, 0):<22}"
            f"{_three(row.e2e_error_ms, 2):<21}{_three(row.ttft_error_ms, 2):<21}{row.cpu_s:>6.2f}"
            f"{f'{row.in_flight:.2f}{asked}':>11}{row.first_s:>7.2f}{row.memory_mb:>6.0f}"
            f"{_or_dash(row.lag_p99_ms):>7}{_or_dash(row.stamp_p99_ms):>8}{_or_dash(row.send_p99_ms):>7}"
        )
    lines.append("Errors, lag, stamp and send delays in ms; CPU in client seconds per 1,000 requests; first in s.")
    return "\n".join(lines)


def _three(values: tuple[float, ...], digits: int) -> str:
    return " / ".join(f"{value:.{digits}f}" for value in values)


def _or_dash(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.truth.certify", description=__doc__.partition("\n")[0])
    parser.add_argument("scenarios", nargs="*", metavar="SCENARIO", help=f"of: {', '.join(SCENARIOS)}; all by default")
    parser.add_argument("--json", type=Path, help="also write the rows to this file")
    parser.add_argument("--core", type=int, default=0, help="of the client; -1 pins nothing")
    parser.add_argument("--server-core", type=int, default=1, help="of the server; -1 pins nothing")
    parser.add_argument("--row", action="store_true", help="run one scenario in this process and print its row as JSON")
    return parser.parse_args()


def main() -> int:
    """Entry point."""
    arguments = _arguments()
    names = arguments.scenarios or list(SCENARIOS)
    cores = {"core": arguments.core, "server_core": arguments.server_core}
    if arguments.row:
        row = measure(SCENARIOS[names[0]], **{name: None if core < 0 else core for name, core in cores.items()})
        sys.stdout.write(orjson.dumps(asdict(row)).decode() + "\n")
        return 0
    rows = []
    for name in names:
        command = [sys.executable, "-m", "tests.truth.certify", "--row", name]
        command += ["--core", str(arguments.core), "--server-core", str(arguments.server_core)]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE)
        values = orjson.loads(done.stdout)
        for key in ("truth_ms", "e2e_error_ms", "ttft_error_ms"):
            values[key] = tuple(values[key])
        rows.append(Row(**values))
    sys.stdout.write(table(rows) + "\n")
    if arguments.json is not None:
        arguments.json.write_bytes(orjson.dumps([asdict(row) for row in rows], option=orjson.OPT_INDENT_2))
    broken = [f"{row.scenario}: {limit}" for row in rows for limit in row.broken(SCENARIOS[row.scenario])]
    sys.stdout.write("".join(f"BROKEN {text}\n" for text in broken))
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
