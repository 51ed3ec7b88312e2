from __future__ import annotations

from array import array

from bench.load.selfcheck import SelfSamples, observation


def doubles(*values: float) -> array[float]:
    return array("d", values)


def test_quantiles_over_processes_are_of_all_their_samples() -> None:
    """Two processes, one of them late: the p99 of both is not the mean of their p99s."""
    quick = SelfSamples(
        lag=doubles(*[0.001] * 900),
        stamp_delays=doubles(*[0.002] * 900),
        send_delays=doubles(*[0.003] * 900),
        cpu_s=1.0,
        wall_s=10.0,
        generated_late=2,
    )
    late = SelfSamples(
        lag=doubles(*[0.5] * 5, *[0.001] * 95),
        stamp_delays=doubles(*[0.5] * 5, *[0.002] * 95),
        send_delays=doubles(*[0.5] * 5, *[0.003] * 95),
        cpu_s=2.0,
        wall_s=11.0,
        generated_late=3,
    )
    seen = observation([quick, late], run=1, point=2, t=99.0)
    assert (seen.lag_p50_s, seen.lag_p99_s, seen.lag_max_s) == (0.001, 0.001, 0.5)
    assert seen.stamp_delay_p99_s == 0.002
    assert (seen.send_delay_p50_s, seen.send_delay_p99_s) == (0.003, 0.003)
    assert (seen.cpu_s, seen.wall_s, seen.generated_late, seen.processes) == (3.0, 11.0, 5, 2)
    assert (seen.run, seen.point, seen.t) == (1, 2, 99.0)


def test_what_is_not_known_is_null() -> None:
    seen = observation([SelfSamples(lag=doubles(0.001), wall_s=1.0)], run=0, point=0, t=1.0)
    assert seen.stamp_delay_p99_s is None
    assert seen.send_delay_p50_s is None


def test_a_window_too_short_for_a_tick_may_have_been_late_all_the_time() -> None:
    seen = observation([SelfSamples(wall_s=0.004)], run=0, point=0, t=1.0)
    assert (seen.lag_p50_s, seen.lag_p99_s, seen.lag_max_s) == (0.004, 0.004, 0.004)
