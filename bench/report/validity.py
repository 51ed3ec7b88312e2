"""What makes a measurement one: every rule, applied. One broken rule and its figures prove nothing.

Too few samples is not among them: that is for the claims to say. What cannot be known stays unknown, and unknown is not
broken.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.report import rules_barge_in, rules_client, rules_engine, rules_probe, rules_window, rules_workload

if TYPE_CHECKING:
    from bench.report.measurement import Measurement
    from bench.report.model import Check
    from bench.report.prefix import Hits
    from bench.report.seen import RunPoint


def checks(measurement: Measurement, predicted: dict[RunPoint, Hits]) -> tuple[Check, ...]:
    """All rules on all points that were begun.

    Args:
        measurement: sorted evidence.
        predicted: prefix hits, by `bench.report.prefix.predict`.
    """
    return (
        *rules_client.complete_replies(measurement),
        *rules_engine.totals(measurement),
        *rules_engine.kept_to_ranks(measurement),
        *rules_engine.prefix_hits(measurement, predicted),
        *rules_engine.nothing_compiled(measurement),
        *rules_engine.nobody_preempted(measurement),
        *rules_barge_in.generation_stopped(measurement),
        *rules_window.beginning_decides_nothing(measurement),
        *rules_workload.fresh_prompts(measurement),
        *rules_probe.same_answers(measurement),
        *rules_client.event_loop(measurement),
        *rules_client.sent_on_time(measurement),
        *rules_client.stamped_on_time(measurement),
        *rules_client.cpu_to_spare(measurement),
        *rules_window.as_many_in_flight(measurement),
        *rules_window.as_many_arrivals(measurement),
    )
