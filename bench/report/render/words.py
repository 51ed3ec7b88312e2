"""Figures as people read them. One form everywhere: in the page, in the Markdown and in the charts."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from bench.report.model import Estimate

ABSENT: Final = "\N{EN DASH}"
"""Stands where there is no figure."""
MINUTE_S: Final = 60.0


def seconds(value: float | None) -> str:
    """Three significant digits, milliseconds below one second: "7.20 ms", "512 ms", "1.28 s", "61.4 s"."""
    if value is None:
        return ABSENT
    if value == 0:
        return "0 s"
    # Rounded before the unit is chosen, so that 0.9996 s is "1.00 s" and never "1000 ms".
    rounded = float(f"{value:.2e}")
    return f"{_three(rounded)} s" if abs(rounded) >= 1 else f"{_three(rounded * 1000)} ms"


def number(value: float | None) -> str:
    """Three significant digits, but every digit of a larger number: "3.20", "10.8", "12,345"."""
    return ABSENT if value is None else _three(value)


def count(value: int | None) -> str:
    """Whole, with thousands separated."""
    return ABSENT if value is None else f"{value:,}"


def percent(share: float | None) -> str:
    """One decimal: "93.4 %"."""
    return ABSENT if share is None else f"{share * 100:.1f} %"


def interval(estimate: Estimate) -> str:
    """The confidence interval in one unit: "498 to 541 ms"; an open end where it falls among the failures."""
    return between(estimate.low, estimate.high)


def between(low_s: float | None, high_s: float | None) -> str:
    """Two ends in one unit, as `interval` writes them; empty where there is no lower one."""
    if low_s is None:
        return ""
    if high_s is None:
        return f"over {seconds(low_s)}"
    low, high = seconds(low_s), seconds(high_s)
    unit = high.rsplit(" ", 1)[1]
    return f"{low.removesuffix(f' {unit}')} to {high}"


def estimate(value: Estimate) -> str:
    """The percentile, or why there is none."""
    if value.value is not None:
        return seconds(value.value)
    if value.among_failures:
        return "failed"
    return "not enough" if value.n else ABSENT


def bytes_(value: float) -> str:
    """Binary units: "33.4 GiB"."""
    power = min(int(math.log(value, 1024)), 4) if value >= 1 else 0
    return f"{_three(value / 1024**power)} {('B', 'KiB', 'MiB', 'GiB', 'TiB')[power]}"


def clock(value: float) -> str:
    """A time since the run's epoch: "45 s", "2:05 min", "1:02:05 h"."""
    if abs(value) < MINUTE_S:
        return f"{value:.0f} s"
    minutes, rest = divmod(round(value), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d} h" if hours else f"{minutes}:{rest:02d} min"


def sentence(text: str) -> str:
    """The text as a sentence: a capital first, but for names such as p95, and a full stop."""
    first = text if text[1:2].isdigit() else text[:1].upper() + text[1:]
    return first if not first or first.endswith((".", "!", "?")) else f"{first}."


def plural(amount: int, noun: str, nouns: str | None = None) -> str:
    """The amount with its noun: "1 request", "2 requests"."""
    return f"{amount:,} {noun if amount == 1 else nouns or f'{noun}s'}"


def _three(value: float) -> str:
    if value == 0:
        return "0"
    digits = max(0, 2 - math.floor(math.log10(abs(value))))
    return f"{value:,.{min(digits, 6)}f}"
