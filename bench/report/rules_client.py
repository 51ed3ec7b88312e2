"""Rules about the client: it was never the bottleneck, and its records keep to their own definition.

Limits are constants on purpose: whoever could tune them could make any run valid.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from bench.report.checks import Finding, Verdict, per_point
from bench.stats.quantiles import rank_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench.observe.observations import ClientSelf
    from bench.report.measurement import Measurement
    from bench.report.model import Check

DELAY_S: Final = 0.005
DELAY_SHARE: Final = 0.01
"""What the client itself may add, at its 99th percentile: 5 ms, or 1 % of the median latency of the point where that is
more. The tightest published figure is 500 ms with a tolerance of 5 %: 25 ms. A client that adds at most a fifth of that
to one request in a hundred cannot decide it."""

STANDSTILL_S: Final = 0.05
STANDSTILL_SHARE: Final = 0.1
"""The longest that the client's event loop may stand still, once: 50 ms, or 10 % of the median latency where that is
more. It delays the stamps of that moment only, so it cannot move a percentile by more, and rarely by as much."""

BUSY_SHARE: Final = 0.7
"""CPU share of one core that a client process may use on average. The delay in a queue grows with busy / (1 - busy):
2.3 service times at 0.7 and 9 at 0.9. Above this, bursts wait."""

MORE_CLIENT: Final = "Give the client more processes, or another host than the engine's."


def complete_replies(measurement: Measurement) -> list[Check]:
    """Every reply that counts as complete is: status 200, finish reason, usage, all tokens, and times in order."""
    return per_point("complete replies are complete", _complete_replies, measurement)


def _complete_replies(measurement: Measurement, run: int, point: int) -> Finding:
    columns, rows = measurement.columns, measurement.all_of(run, point)
    rows = rows[columns.ok[rows]]
    in_order = (
        (columns.sent[rows] <= columns.first_token[rows])
        & (columns.first_token[rows] <= columns.last_token[rows])
        & (columns.last_token[rows] <= columns.done[rows])
        & (columns.intended[rows] <= columns.done[rows])
    )
    whole = (
        (columns.status[rows] == 200)
        & columns.has_finish[rows]
        & (columns.prompt[rows] == columns.prompt_expected[rows])
        & (columns.completion[rows] == columns.requested[rows])
        & (columns.primed[rows] | (columns.requested[rows] == measurement.recipe.workload.output_tokens))
    )
    wrong = int((~(in_order & whole)).sum())
    expected = "status 200, a finish reason, usage, the requested tokens, times in order"
    if wrong:
        return Finding(
            "broken",
            f"of {len(rows):,} replies counted as complete, {wrong:,} are not",
            expected,
            "The records were changed, or were written by another client: measure again.",
        )
    return Finding("kept", f"{len(rows):,} complete {'reply' if len(rows) == 1 else 'replies'}", expected)


def event_loop(measurement: Measurement) -> list[Check]:
    """The client's event loop was there when something arrived: its lag, usual and worst."""

    def judge(measurement: Measurement, run: int, point: int) -> Finding:
        usual = _allowed(measurement, point, DELAY_S, DELAY_SHARE)
        worst = _allowed(measurement, point, STANDSTILL_S, STANDSTILL_SHARE)

        def compare(client: ClientSelf) -> tuple[bool, str]:
            told = f"lag p99 {_ms(client.lag_p99_s)}, longest {_ms(client.lag_max_s)}"
            return client.lag_p99_s <= usual and client.lag_max_s <= worst, told

        return _about_client(
            measurement, run, point, f"p99 at most {_ms(usual)}, longest at most {_ms(worst)}", compare
        )

    return per_point("the client's event loop kept up", judge, measurement)


def sent_on_time(measurement: Measurement) -> list[Check]:
    """Requests left when they were meant to: actual minus intended send time."""
    return per_point("requests were sent on time", _delay(lambda client: client.send_delay_p99_s), measurement)


def stamped_on_time(measurement: Measurement) -> list[Check]:
    """Bytes were stamped when they arrived: from the kernel's arrival to our stamp."""
    return per_point("arrivals were stamped on time", _delay(lambda client: client.stamp_delay_p99_s), measurement)


def _delay(of: Callable[[ClientSelf], float | None]) -> Callable[[Measurement, int, int], Finding]:
    def judge(measurement: Measurement, run: int, point: int) -> Finding:
        allowed = _allowed(measurement, point, DELAY_S, DELAY_SHARE)

        def compare(client: ClientSelf) -> tuple[bool | None, str]:
            delay = of(client)
            if delay is None:
                return None, "the kernel or the client does not say"
            return delay <= allowed, f"p99 {_ms(delay)}"

        return _about_client(measurement, run, point, f"p99 at most {_ms(allowed)}", compare)

    return judge


def cpu_to_spare(measurement: Measurement) -> list[Check]:
    """No client process had its one core busy most of the time."""

    def judge(measurement: Measurement, run: int, point: int) -> Finding:
        def compare(client: ClientSelf) -> tuple[bool | None, str]:
            if not client.wall_s or not client.processes:
                return None, "the window has no length"
            busy = client.cpu_s / client.wall_s / client.processes
            return busy <= BUSY_SHARE, f"{busy * 100:.0f} % of a core in each of its processes ({client.processes})"

        return _about_client(measurement, run, point, f"at most {BUSY_SHARE * 100:g} % of a core each", compare)

    return per_point("the client had CPU to spare", judge, measurement)


def _allowed(measurement: Measurement, point: int, floor_s: float, share: float) -> float:
    """Seconds: the floor, or a share of the point's median latency where that is more."""
    latencies = np.sort(measurement.columns.e2e[measurement.in_window(point)])
    median = float(latencies[rank_of(len(latencies), 0.5) - 1]) if len(latencies) else 0.0
    return max(floor_s, share * median) if np.isfinite(median) else floor_s


def _about_client(
    measurement: Measurement,
    run: int,
    point: int,
    expected: str,
    compare: Callable[[ClientSelf], tuple[bool | None, str]],
) -> Finding:
    """From the client's own condition; `compare` says whether it is within limits (None: unknown), and tells it."""
    client = measurement.seen.clients.get((run, point))
    if client is None:
        return Finding("unknown", "the client did not report on this window", expected, "Let the point end.")
    within, told = compare(client)
    verdict: Verdict = "unknown" if within is None else "kept" if within else "broken"
    return Finding(verdict, told, expected, MORE_CLIENT)


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.3g} ms"
