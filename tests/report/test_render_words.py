import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.report.model import Estimate
from bench.report.render import words


def estimate(
    value: float | None, low: float | None, high: float | None, *, n: int = 100, failed: bool = False
) -> Estimate:
    return Estimate(value=value, low=low, high=high, confidence=0.95, n=n, among_failures=failed)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0 s"),
        (0.00072, "0.720 ms"),
        (0.0072, "7.20 ms"),
        (0.5123, "512 ms"),
        (0.9994, "999 ms"),
        (0.9996, "1.00 s"),
        (1.2754, "1.28 s"),
        (61.44, "61.4 s"),
        (1234.5, "1,230 s"),
        (None, words.ABSENT),
    ],
)
def test_seconds(value: float | None, text: str) -> None:
    assert words.seconds(value) == text


@given(st.floats(1e-6, 1e5))
def test_seconds_are_right_to_three_digits(value: float) -> None:
    digits, unit = words.seconds(value).rsplit(" ", 1)
    read = float(digits.replace(",", "")) * {"ms": 1e-3, "s": 1.0}[unit]
    assert read == pytest.approx(value, rel=0.0051)


def test_numbers_counts_and_shares() -> None:
    assert [words.number(value) for value in (3.2, 10.84, 12345.6, 0.0, None)] == [
        "3.20",
        "10.8",
        "12,346",
        "0",
        words.ABSENT,
    ]
    assert [words.count(value) for value in (0, 1234567, None)] == ["0", "1,234,567", words.ABSENT]
    assert [words.percent(value) for value in (0.9337, 1.0, None)] == ["93.4 %", "100.0 %", words.ABSENT]
    assert [words.bytes_(value) for value in (0, 1023, 33.4 * 2**30)] == ["0 B", "1,023 B", "33.4 GiB"]
    assert [words.plural(amount, "request") for amount in (0, 1, 2000)] == ["0 requests", "1 request", "2,000 requests"]


def test_an_interval_in_one_unit_or_with_an_open_end() -> None:
    assert words.interval(estimate(0.52, 0.498, 0.541)) == "498 to 541 ms"
    assert words.interval(estimate(0.98, 0.95, 1.1)) == "950 ms to 1.10 s"
    assert words.interval(estimate(0.98, 0.95, None)) == "over 950 ms"
    assert words.interval(estimate(None, None, None)) == ""


def test_a_percentile_or_why_there_is_none() -> None:
    assert words.estimate(estimate(0.52, 0.498, 0.541)) == "520 ms"
    assert words.estimate(estimate(None, 0.9, None, failed=True)) == "failed"
    assert words.estimate(estimate(None, None, None, n=12)) == "not enough"
    assert words.estimate(estimate(None, None, None, n=0)) == words.ABSENT


def test_clock() -> None:
    assert [words.clock(value) for value in (0, 45, 125, 3725)] == ["0 s", "45 s", "2:05 min", "1:02:05 h"]


def test_sentence() -> None:
    assert words.sentence("it was made on B200") == "It was made on B200."
    assert words.sentence("p95 is over it!") == "p95 is over it!"
    assert words.sentence("") == ""
