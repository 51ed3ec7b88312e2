"""`--slo`: what it takes, and what it teaches when it is wrong."""

import pytest

from bench.errors import UsageError
from bench.explain.slo.parse import parse_slo


@pytest.mark.parametrize(
    ("text", "share", "limits", "says"),
    [
        ("e2e:p95:1s", 0.95, [("e2e", 1.0)], "p95 of E2E at most 1 s"),
        ("ttft:p95:500ms", 0.95, [("ttft", 0.5)], "p95 of TTFT at most 500 ms"),
        ("tpot:p99:20ms", 0.99, [("tpot", 0.02)], "p99 of TPOT at most 20 ms"),
        ("E2E : p99.9 : 1.5 s", 0.999, [("e2e", 1.5)], "p99.9 of E2E at most 1.5 s"),
        (
            "goodput:99%:e2e<1s,ttft<300ms",
            0.99,
            [("e2e", 1.0), ("ttft", 0.3)],
            "99 % of the replies with E2E at most 1 s and TTFT at most 300 ms",
        ),
        ("goodput:97.5%:e2e<=.8s", 0.975, [("e2e", 0.8)], "p97.5 of E2E at most 800 ms"),
    ],
)
def test_it_reads_a_limit(text: str, share: float, limits: list[tuple[str, float]], says: str) -> None:
    slo = parse_slo(text)
    assert slo.share == share
    assert [(limit.metric, limit.limit_s) for limit in slo.limits] == limits
    assert slo.says == says


@pytest.mark.parametrize(
    ("text", "because"),
    [
        ("1s", "1 of the three parts"),
        ("e2e:p95", "2 of the three parts"),
        ("e2:p95:1s", "did you mean e2e?"),
        ("godput:99%:e2e<1s", "did you mean goodput?"),
        ("latency:p95:1s", "none of e2e, ttft, tpot, goodput"),
        ("e2e:95:1s", "write p95"),
        ("e2e:p100:1s", "no percentile"),
        ("e2e:p0:1s", "no percentile"),
        ("e2e:p95:1", "with its unit"),
        ("e2e:p95:1m", "with its unit"),
        ("e2e:p95:0ms", "no time that a reply could take"),
        ("e2e:p95:-1s", "with its unit"),
        ("goodput:p99:e2e<1s", "write 99%"),
        ("goodput:100%:e2e<1s", "no share"),
        ("goodput:99%:e2e=1s", "no limit such as e2e<1s"),
        ("goodput:99%:e2e>1s", "no limit such as e2e<1s"),
        ("goodput:99%:e2e<1s,e2e<2s", "two limits on one latency"),
        ("goodput:99%:", "no limit such as"),
    ],
)
def test_what_is_wrong_is_named_and_shown_right(text: str, because: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse_slo(text)
    assert because in refused.value.message
    assert text in refused.value.message
    assert "e2e:p95:1s" in refused.value.remedy
