from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from bench.engine import metrics
from bench.engine.http_get import Reply
from bench.engine.metrics import CacheConfig, GaugeValues, MetricsPage, MetricsText
from bench.errors import StreamproofError
from bench.observe.observations import CounterValues
from bench.servers import Server
from tests.engine.excerpts import page

if TYPE_CHECKING:
    from collections.abc import Sequence


def test_a_real_page_without_speculation() -> None:
    text = MetricsText(page("cpu"))
    assert text.counters() == CounterValues(
        requests_finished=21.0,
        prompt_tokens=33390.0,
        generation_tokens=420.0,
        prompt_tokens_cached=10240.0,
        prefix_queries=33390.0,
        prefix_hits=10240.0,
        preemptions=0.0,
    )
    assert text.gauges() == GaugeValues(running=0.0, waiting=0.0, kv_usage=0.0, preemptions=(0.0,))
    assert text.cache_config() == CacheConfig(block_size=640, prefix_caching=True, mamba_cache_mode="align")


def test_a_real_page_with_speculation() -> None:
    counters = MetricsText(page("cpu-mtp")).counters()
    assert (counters.spec_drafts, counters.spec_draft_tokens, counters.spec_accepted_tokens) == (117.0, 468.0, 0.0)
    assert counters.spec_accepted_per_position == (0.0, 0.0, 0.0, 0.0)
    assert MetricsText(page("cpu-mtp")).cache_config().prefix_caching is False


TWO_ENGINES = """
vllm:request_success_total{engine="0",finished_reason="length"} 3
vllm:request_success_total{engine="0",finished_reason="stop"} 1
vllm:request_success_total{engine="1",finished_reason="length"} 2
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",position="1"} 5
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",position="0"} 9
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="1",position="0"} 1
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",position="10"} 2
vllm:num_requests_running{engine="0"} 2
vllm:num_requests_running{engine="1"} 1
vllm:kv_cache_usage_perc{engine="0"} 0.25
vllm:kv_cache_usage_perc{engine="1"} 0.75
"""


def test_engines_of_one_server_add_up_and_the_fullest_cache_counts() -> None:
    text = MetricsText(TWO_ENGINES)
    assert text.counters().requests_finished == 6.0
    assert text.counters().spec_accepted_per_position == (10.0, 5.0, 2.0)
    assert text.gauges().running == 3.0
    assert text.gauges().kv_usage == 0.75


def test_a_real_page_of_two_ranks() -> None:
    text = MetricsText(page("cpu-dp2"))
    counters = text.counters()
    assert (counters.requests_finished, counters.finished_by_rank) == (9.0, (5.0, 4.0))
    assert (counters.prompt_tokens, counters.prompt_tokens_cached) == (7515.0 + 6012.0, 5120.0 + 3840.0)
    assert text.cache_config() == CacheConfig(block_size=256, prefix_caching=True, mamba_cache_mode="align")
    assert MetricsText(page("cpu")).counters().finished_by_rank is None


def test_ranks_whose_caches_differ_have_none_in_common() -> None:
    text = "".join(
        f'vllm:cache_config_info{{block_size="{size}",enable_prefix_caching="True",engine="{rank}"}} 1\n'
        for rank, size in enumerate((256, 512))
    )
    assert MetricsText(text).cache_config() == CacheConfig(block_size=None, prefix_caching=True)


@pytest.mark.parametrize("text", ["", "# HELP x y\n", "other_total 3\nvllm:unknown_total 4\nvllm:prompt_tokens 1\n"])
def test_what_a_server_does_not_say_is_unknown_not_zero(text: str) -> None:
    assert MetricsText(text).counters() == CounterValues()
    assert MetricsText(text).gauges() == GaugeValues(running=None, waiting=None, kv_usage=None, preemptions=(None,))
    assert MetricsText(text).cache_config() == CacheConfig(block_size=None, prefix_caching=None)


def test_a_malformed_sample_is_refused() -> None:
    with pytest.raises(ValueError, match="could not convert"):
        MetricsText("vllm:prompt_tokens_total many\n")


def test_a_block_size_that_is_not_resolved_is_unknown() -> None:
    text = 'vllm:cache_config_info{block_size="None",enable_prefix_caching="False"} 1\n'
    assert MetricsText(text).cache_config() == CacheConfig(block_size=None, prefix_caching=False)


def test_pages_of_replicas_add_up_and_each_counts_apart() -> None:
    text = MetricsText(page("cpu"), page("cpu-dp2"))
    one, two = MetricsText(page("cpu")).counters(), MetricsText(page("cpu-dp2")).counters()
    found = text.counters()
    assert found.requests_finished == 21.0 + 9.0
    assert found.finished_by_rank == (21.0, 5.0, 4.0)
    assert found.prompt_tokens_cached == (one.prompt_tokens_cached or 0) + (two.prompt_tokens_cached or 0)
    assert text.gauges().preemptions == (0.0, 0.0)
    assert text.cache_config() == CacheConfig(block_size=None, prefix_caching=True, mamba_cache_mode="align")


def test_one_replica_that_does_not_answer_leaves_nothing_to_count(monkeypatch: pytest.MonkeyPatch) -> None:
    reply = Reply(200, "text/plain", page("cpu").encode())
    asked: list[tuple[str, str | None]] = []

    def get(base_url: str, _: str, *, api_key: str | None, **__: float) -> Reply:
        asked.append((base_url, api_key))
        if base_url == "http://gone":
            raise ConnectionRefusedError
        return reply

    monkeypatch.setattr(metrics, "get", get)
    assert MetricsPage(Server("http://a", "one key"), Server("http://b", "another")).read() is not None
    assert asked == [("http://a", "one key"), ("http://b", "another")]
    assert MetricsPage(Server("http://a"), Server("http://gone")).read() is None


class Pages(MetricsPage):
    """A server that shows one page after the other; the last one stays."""

    def __init__(self, *pages: str | None) -> None:
        super().__init__(Server("http://127.0.0.1:1"))
        self._pages = list(pages)
        self.waits = 0

    def read(self) -> MetricsText | None:
        text = self._pages.pop(0) if len(self._pages) > 1 else self._pages[0]
        return None if text is None else MetricsText(text)

    def wait(self, _: float) -> None:
        self.waits += 1

    def settled(self) -> CounterValues:
        return self.settled_counters(within_s=2.0, wait=self.wait)


def state(*, running: int, waiting: int = 0, tokens: int) -> str:
    values: Sequence[tuple[str, int]] = [
        ("num_requests_running", running),
        ("num_requests_waiting", waiting),
        ("generation_tokens_total", tokens),
    ]
    return "".join(f"vllm:{name} {value}\n" for name, value in values)


def test_counters_settle_when_nothing_runs_and_two_reads_agree() -> None:
    pages = Pages(
        state(running=1, tokens=5),
        state(running=1, tokens=5),  # two reads agree, but a request runs
        state(running=0, waiting=1, tokens=5),  # or waits
        state(running=0, tokens=7),  # nothing runs, but the last step was not counted before
        state(running=0, tokens=8),
    )
    assert pages.settled().generation_tokens == 8.0
    assert pages.waits == 5


def test_a_server_that_has_no_gauges_settles_by_its_totals() -> None:
    assert Pages("vllm:generation_tokens_total 3\n").settled().generation_tokens == 3.0


def test_a_server_without_metrics_has_no_totals() -> None:
    assert Pages(None).settled() == CounterValues()


def test_somebody_else_uses_the_engine() -> None:
    pages = Pages(state(running=2, waiting=1, tokens=5))
    with pytest.raises(StreamproofError) as caught:
        pages.settled()
    assert caught.value.message == (
        "the engine's counters do not stand still after 2 s: 2.0 requests running, 1.0 waiting"
    )
    assert pages.waits == 19
