"""Reads `--slo`: "e2e:p95:1s", "tpot:p99:20ms", "goodput:99%:e2e<1s,ttft<300ms"."""

from __future__ import annotations

import difflib
import re
from typing import Final, get_args

from bench.errors import UsageError
from bench.explain.slo.limit import Limit, Metric, Slo

EXAMPLES: Final = "e2e:p95:1s, ttft:p95:500ms, tpot:p99:20ms, goodput:99%:e2e<1s,ttft<300ms"
GOODPUT: Final = "goodput"
METRICS: Final[tuple[Metric, ...]] = get_args(Metric)

_TIME: Final = re.compile(r"(\d+(?:\.\d+)?|\.\d+)\s*(ms|s)")
_BOUND: Final = re.compile(r"\s*(\w+)\s*(<=?)\s*(.+)")
_UNITS: Final = {"ms": 1e-3, "s": 1.0}


def parse_slo(text: str) -> Slo:
    """Reads one objective.

    Raises:
        UsageError: says which part is wrong and what it should look like.
    """
    parts = [part.strip() for part in text.split(":")]
    if len(parts) != 3:
        raise _wrong(text, f"it has {len(parts)} of the three parts WHAT:SHARE:LIMIT")
    what, share, limit = parts
    if what.lower() == GOODPUT:
        bounds = tuple(_bound(text, bound) for bound in limit.split(","))
        if len({bound.metric for bound in bounds}) < len(bounds):
            raise _wrong(text, "it has two limits on one latency")
        return Slo(text=text, share=_percent(text, share), limits=bounds)
    metric = _metric(text, what, more=(GOODPUT,))
    return Slo(
        text=text,
        share=_percentile(text, share),
        limits=(Limit(metric=metric, limit_s=_seconds(text, limit)),),
    )


def _metric(text: str, word: str, *, more: tuple[str, ...] = ()) -> Metric:
    for metric in METRICS:
        if word.lower() == metric:
            return metric
    near = difflib.get_close_matches(word.lower(), [*METRICS, *more], n=1)
    meant = f"; did you mean {near[0]}?" if near else ""
    raise _wrong(text, f"{word!r} is none of {', '.join([*METRICS, *more])}{meant}")


def _percentile(text: str, word: str) -> float:
    """p95 as 0.95; the digits as written, so that p99.9 is 0.999 and no binary neighbour of it."""
    if not re.fullmatch(r"p\d{1,2}(\.\d{1,2})?", word) or not float(word[1:]):
        raise _wrong(text, f"{word!r} is no percentile between p1 and p99.99; write p95")
    return round(float(word[1:]) / 100, 6)


def _percent(text: str, word: str) -> float:
    number = word.removesuffix("%").strip()
    if not word.endswith("%") or not re.fullmatch(r"\d{1,2}(\.\d{1,2})?", number) or not float(number):
        raise _wrong(text, f"{word!r} is no share between 1% and 99.99%; write 99%")
    return round(float(number) / 100, 6)


def _bound(text: str, word: str) -> Limit:
    found = _BOUND.fullmatch(word)
    if found is None:
        raise _wrong(text, f"{word.strip()!r} is no limit such as e2e<1s")
    return Limit(metric=_metric(text, found[1]), limit_s=_seconds(text, found[3].strip()))


def _seconds(text: str, word: str) -> float:
    found = _TIME.fullmatch(word)
    if found is None:
        raise _wrong(text, f"{word!r} is no time; write it with its unit, 1s or 500ms")
    seconds = round(float(found[1]) * _UNITS[found[2]], 9)
    if not seconds > 0:
        raise _wrong(text, f"{word!r} is no time that a reply could take")
    return seconds


def _wrong(text: str, why: str) -> UsageError:
    return UsageError(f"--slo {text}: {why}.", remedy=f"Examples: {EXAMPLES}.")
