"""Rules about the engine: it counted what we counted, hit what was predicted, compiled nothing, preempted nobody."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bench.report.checks import Finding, per_point
from bench.report.counters import TOTALS, client_finished_by_rank, client_totals, increase, increase_by_rank
from bench.report.measurement import Place
from bench.report.prefix import measured as measured_hits
from bench.workload.prefix_cache_rules import HIT_TOLERANCE

if TYPE_CHECKING:
    from bench.report.measurement import Measurement
    from bench.report.model import Check
    from bench.report.prefix import Hits
    from bench.report.seen import RunPoint

_OTHER_RANK: Final = (
    "The engine did not take the header x-data-parallel-rank: is something between it and the client that drops "
    "headers, or its load balancer another one than vLLM's own?"
)
_OTHER_REPLICA: Final = (
    "Somebody else used a replica, or it was started anew: measure engines that nobody else talks to."
)

NO_COUNTERS: Final = "the engine's counters before or after this point are missing"
COUNTERS_ADVICE: Final = (
    "Serve with metrics on (vLLM does by default, at /metrics) and let the point end; then what the client says "
    "can be checked against the engine."
)


def totals(measurement: Measurement) -> list[Check]:
    """Client totals equal the engine's own counters over each point, priming and drain included.

    Exactly, where every request brought its usage. A request that ended without usage leaves bounds: outside of them
    the rule is broken; inside, equality cannot be shown and the rule is unknown.
    """
    return per_point("client totals equal the engine's", _totals, measurement)


def _totals(measurement: Measurement, run: int, point: int) -> Finding:
    ours = client_totals(measurement, run, point)
    theirs = {total: increase(measurement, run, point, total) for total in TOTALS}
    expected = ", ".join(f"{ours[total]} {words}" for total, words in TOTALS.items())
    known = {total: value for total, value in theirs.items() if value is not None}
    if len(known) < len(TOTALS):
        return Finding("unknown", NO_COUNTERS, f"the client's own: {expected}", COUNTERS_ADVICE)
    counted = ", ".join(f"{known[total]:,.0f} {words}" for total, words in TOTALS.items())
    if any(known[total] not in ours[total] for total in TOTALS):
        return Finding(
            "broken",
            f"the engine counted {counted}",
            f"the client's own: {expected}",
            "Somebody else used the engine, it was started anew, or requests got lost between it and us: measure an "
            "engine that nobody else talks to, without a proxy that retries.",
        )
    if all(ours[total].exact for total in TOTALS):
        return Finding("kept", f"the engine counted {counted}", f"the client's own: {expected}")
    return Finding(
        "unknown",
        f"the engine counted {counted}",
        f"the client's own: {expected}",
        "Some requests ended without usage, so their tokens are known only within these bounds; see the failures.",
    )


def kept_to_ranks(measurement: Measurement) -> list[Check]:
    """Every rank (`bench.affinity`) finished the requests that were pinned to it. No rule where nothing is pinned."""
    if measurement.recipe.pinned_ranks == 1:
        return []
    if measurement.recipe.rank_name == "replica":
        return per_point("calls stayed at their replica", _kept_to_ranks, measurement)
    return per_point("calls stayed at their rank", _kept_to_ranks, measurement)


def _kept_to_ranks(measurement: Measurement, run: int, point: int) -> Finding:
    ours, theirs = client_finished_by_rank(measurement, run, point), increase_by_rank(measurement, run, point)
    name = measurement.recipe.rank_name
    expected = f"stream s at {name} s modulo {len(ours)}: {', '.join(map(str, ours))} requests"
    if theirs is None:
        return Finding("unknown", f"the engine does not count its {name}s apart", expected, COUNTERS_ADVICE)
    counted = f"the {name}s finished {', '.join(f'{count:,.0f}' for count in theirs)} requests"
    if len(theirs) != len(ours) or any(count not in bounds for count, bounds in zip(theirs, ours, strict=True)):
        return Finding(
            "broken",
            counted,
            expected,
            _OTHER_REPLICA if measurement.recipe.ranks_each == 1 else _OTHER_RANK,
        )
    return Finding("kept", counted, expected)


def prefix_hits(measurement: Measurement, predicted: dict[RunPoint, Hits]) -> list[Check]:
    """Measured prefix hits are those predicted from the workload and the block size.

    Kept within 2 % of the prediction. Where requests overlap so that the order in which the engine looked them up
    matters, the prediction is a range, and what lies within 2 % of the range but not of the prediction is unknown.
    """

    def judge(measurement: Measurement, run: int, point: int) -> Finding:
        hits, found = predicted.get((run, point)), measured_hits(measurement, run, point)
        recipe = measurement.recipe
        if recipe.pinned_ranks != recipe.ranks:
            return Finding(
                "unknown",
                "no prediction: the engine's load balancer chose the rank, and so the cache, of each request",
                "hits within 2 % of the prediction",
                'load.affinity = "rank" pins calls to ranks.',
            )
        if hits is None:
            return Finding(
                "unknown",
                "no prediction: the engine does not say its block size or whether it caches prefixes, "
                "or the run has too many requests to predict",
                "hits within 2 % of the prediction",
                "Serve with metrics on: vllm:cache_config_info names the block size.",
            )
        certain = hits.least == hits.most
        expected = f"{hits.expected:,} hit tokens predicted" + (
            "" if certain else f" ({hits.least:,} to {hits.most:,}, as the engine ordered overlapping requests)"
        )
        if found is None:
            return Finding("unknown", NO_COUNTERS, expected, COUNTERS_ADVICE)
        counted = f"the engine counted {found:,.0f} hit tokens"
        if abs(found - hits.expected) <= HIT_TOLERANCE * hits.expected:
            return Finding("kept", counted, expected)
        if not certain and hits.least * (1 - HIT_TOLERANCE) <= found <= hits.most * (1 + HIT_TOLERANCE):
            return Finding(
                "unknown",
                counted,
                expected,
                "Open each point with priming requests that end before the first call, so that no order matters.",
            )
        return Finding(
            "broken",
            counted,
            expected,
            "More hits than predicted: the cache was warm, start a fresh engine. Fewer: the cache was too small and "
            "blocks were given up, or the engine's block size is not the one it reported.",
        )

    return per_point("prefix hits are as predicted", judge, measurement)


def nothing_compiled(measurement: Measurement) -> list[Check]:
    """No kernel was compiled and no graph captured from the start of the window to the end of its last request.

    Two witnesses: the lines of the engine's log, and the times of the files of compiled code in its caches, since not
    all that compiles says so (DeepGEMM). Reports that were made before anybody looked into the caches have the first.
    """
    return per_point("nothing was compiled or captured in the window", _nothing_compiled, measurement)


def _nothing_compiled(measurement: Measurement, run: int, point: int) -> Finding:
    expected = "no compilation and no graph capture while requests of the window were open"
    started, window = measurement.seen.started.get(run), measurement.windows.get((run, point))
    if started is None or started.kind_of_engine == "external":
        return Finding("unknown", "the engine's log is not ours to read", expected, "Let streamproof start the engine.")
    if window is None:
        return Finding("unknown", "the window was never reached", expected, "Let the point end.")
    rows = measurement.placed(run, point, Place.WINDOW)
    end = max(window.end, float(measurement.columns.done[rows].max(initial=window.end)))
    events = [
        event
        for event in measurement.seen.events
        if event.run == run and event.event in ("jit", "graph_capture") and window.start <= event.t <= end
    ]
    looks = measurement.seen.compiled.get((run, point), {}).values()
    files = [(file, look) for look in looks for file in look.files if window.start <= file.t <= end]
    told = []
    if events:
        first = events[0]
        line = f", line {first.line_number}" if first.line_number is not None else ""
        when = _first(first.t - window.start, first.replica)
        told.append(f"{len(events)} in the engine's log, {when}{line}: {first.line[:200]}")
    if files:
        oldest, look = min(files, key=lambda found: found[0].t)
        more = " or more" if any(look.left_out for _, look in files) else ""
        some = f"{len(files):,}{more} {'file' if len(files) == 1 else 'files'} of compiled code"
        when = _first(oldest.t - window.start, look.replica)
        told.append(f"{some} in the engine's caches, {when}: {oldest.cache}, {oldest.path}")
    if told:
        return Finding(
            "broken",
            "; ".join(told),
            expected,
            "Run again with the compile caches that this run has filled; if it comes back, lengthen load.ramp_s or let "
            "the engine warm up the shapes of this workload.",
        )
    if why_not := next((look.why_not for look in looks if look.why_not is not None), None):
        return Finding(
            "unknown",
            f"none in the engine's log; its caches could not be looked into: {why_not}",
            expected,
            "Not all that compiles says so in the log: have the caches readable for whoever runs streamproof.",
        )
    return Finding("kept", f"none in the engine's log{' and none in its caches' if looks else ''}", expected)


def _first(into_s: float, replica: int | None) -> str:
    return f"the first {into_s:.1f} s into the window" + ("" if replica is None else f", at replica {replica}")


def nobody_preempted(measurement: Measurement) -> list[Check]:
    """No request was preempted. The counter covers the whole point, so a preemption in its ramp breaks the rule too."""
    return per_point("no request was preempted", _nobody_preempted, measurement)


def _nobody_preempted(measurement: Measurement, run: int, point: int) -> Finding:
    expected = "none over the whole point"
    count = increase(measurement, run, point, "preemptions")
    phases = measurement.seen.phases.get((run, point))
    logged = [
        event
        for event in measurement.seen.events
        if event.run == run
        and event.event == "preemption"
        and phases is not None
        and phases.prime is not None
        and phases.prime <= event.t <= (measurement.seen.last_s if phases.done is None else phases.done)
    ]
    if count is None and not logged:
        return Finding("unknown", NO_COUNTERS, expected, COUNTERS_ADVICE)
    if not count and not logged:
        return Finding("kept", "preemptions: 0", expected)
    return Finding(
        "broken",
        f"preemptions: {max(len(logged), round(count or 0)):,}",
        expected,
        "The KV cache is too small for this load: give it more memory, or lower engine.flags.max_num_seqs or the "
        "number of streams.",
    )
