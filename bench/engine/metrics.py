"""The engine's own counters and gauges, from vLLM's Prometheus page.

What vLLM 0.26.0 counts, as seen on the real engine and in its source:

- `prompt_tokens` takes a request's whole prompt at once, when its first token is produced; `generation_tokens` grows
  with each step. Both count requests that are aborted later.
- `prefix_cache_queries` and `_hits` count tokens when a request is scheduled.
- `request_success`, summed over its `finished_reason`, counts finished requests. A request whose client goes away is
  counted **nowhere**: the label "abort" exists, but stays at zero for it.
- `prompt_tokens_cached` counts the cached part of a prompt when `prompt_tokens` counts the prompt.
- The counters are updated after the step's outputs are handed on to the replies, so they may lag behind the last byte:
  read them with `MetricsPage.settled_counters`.
"""

from __future__ import annotations

import http.client
import re
import time
from collections import defaultdict
from typing import TYPE_CHECKING, Final, NamedTuple

from prometheus_client.parser import text_string_to_metric_families
from pydantic import BaseModel, ConfigDict

from bench.engine.http_get import get
from bench.errors import StreamproofError
from bench.observe.observations import CounterValues

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from bench.servers import Server

_COUNTERS: Final[Mapping[str, str]] = {
    "requests_finished": "vllm:request_success_total",
    "prompt_tokens": "vllm:prompt_tokens_total",
    "generation_tokens": "vllm:generation_tokens_total",
    "prompt_tokens_cached": "vllm:prompt_tokens_cached_total",
    "prefix_queries": "vllm:prefix_cache_queries_total",
    "prefix_hits": "vllm:prefix_cache_hits_total",
    "preemptions": "vllm:num_preemptions_total",
    "spec_drafts": "vllm:spec_decode_num_drafts_total",
    "spec_draft_tokens": "vllm:spec_decode_num_draft_tokens_total",
    "spec_accepted_tokens": "vllm:spec_decode_num_accepted_tokens_total",
}
"""Field of `CounterValues` to sample of the page. Samples of several engines (data parallel, replicas) add up."""

_PER_POSITION: Final = "vllm:spec_decode_num_accepted_tokens_per_pos_total"
_RUNNING: Final = "vllm:num_requests_running"
_WAITING: Final = "vllm:num_requests_waiting"
_KV_USAGE: Final = "vllm:kv_cache_usage_perc"
_CACHE_CONFIG: Final = "vllm:cache_config_info"

_WANTED: Final = frozenset({*_COUNTERS.values(), _PER_POSITION, _RUNNING, _WAITING, _KV_USAGE, _CACHE_CONFIG})
_SAMPLE_NAME: Final = re.compile(r"^[a-zA-Z_:][a-zA-Z0-9_:]*")

SETTLE_EVERY_S: Final = 0.1
"""Between two reads that must agree. vLLM updates its counters once a step, and a step is shorter."""

SETTLE_WITHIN_S: Final = 30.0
"""A request that was given up may take a step or two to leave the engine; not this long."""


class GaugeValues(BaseModel):
    """What the engine does at one moment. Null where the server does not say.

    Attributes:
        running, waiting: requests in the engine, and in its queue.
        kv_usage: share of the KV cache in use, from 0 to 1; of several engines the fullest.
        preemptions: total of each server since its start, so that a watcher sees when one happens, and where.
    """

    model_config = ConfigDict(frozen=True)

    running: float | None
    waiting: float | None
    kv_usage: float | None
    preemptions: tuple[float | None, ...]

    @property
    def idle(self) -> bool:
        """Not known to hold a request."""
        return not self.running and not self.waiting


class CacheConfig(BaseModel):
    """What the engine says of its KV cache. None where it does not.

    Attributes:
        block_size: tokens of a block, after the engine adapted it to the model.
        prefix_caching: whether prefixes are cached.
        mamba_cache_mode: which states of recurrent layers are kept with them: "none" of a model without such layers.
    """

    model_config = ConfigDict(frozen=True)

    block_size: int | None
    prefix_caching: bool | None
    mamba_cache_mode: str | None = None


class _Sample(NamedTuple):
    """One sample, and which page it is of."""

    page: int
    labels: dict[str, str]
    value: float


class MetricsText:
    """A metrics page, parsed. Only the samples that we use are looked at, so that it costs the client little.

    Args:
        pages: in the Prometheus text format: of one server, or of each replica in their order.

    Raises:
        ValueError: a sample that we use is malformed.
    """

    def __init__(self, *pages: str) -> None:
        self._pages = len(pages)
        self._samples: dict[str, list[_Sample]] = defaultdict(list)
        for number, text in enumerate(pages):
            lines = text.splitlines()
            wanted = "\n".join(line for line in lines if line.startswith("vllm:") and _name(line) in _WANTED)
            for family in text_string_to_metric_families(wanted + "\n"):
                for sample in family.samples:
                    self._samples[sample.name].append(_Sample(number, dict(sample.labels), float(sample.value)))

    def counters(self) -> CounterValues:
        """The totals since the engine's start."""
        totals = {field: self._sum(name) for field, name in _COUNTERS.items()}
        more = {"spec_accepted_per_position": self._per_position(), "finished_by_rank": self._finished_by_rank()}
        return CounterValues.model_validate({**totals, **more})

    def gauges(self) -> GaugeValues:
        """The state at this moment."""
        usage = [sample.value for sample in self._samples.get(_KV_USAGE, ())]
        preemptions = _COUNTERS["preemptions"]
        return GaugeValues(
            running=self._sum(_RUNNING),
            waiting=self._sum(_WAITING),
            kv_usage=max(usage) if usage else None,
            preemptions=tuple(self._sum(preemptions, page) for page in range(self._pages)),
        )

    def cache_config(self) -> CacheConfig:
        """How the KV cache is set up, of every rank the same; what differs between them is not known of the engine."""
        size, caching = self._agreed("block_size"), self._agreed("enable_prefix_caching")
        return CacheConfig(
            block_size=int(size) if size is not None and size.isdecimal() else None,
            prefix_caching=None if caching is None else caching == "True",
            mamba_cache_mode=self._agreed("mamba_cache_mode"),
        )

    def _agreed(self, label: str) -> str | None:
        told = {sample.labels.get(label) for sample in self._samples.get(_CACHE_CONFIG, ())}
        return told.pop() if len(told) == 1 else None

    def _finished_by_rank(self) -> tuple[float, ...] | None:
        by_rank: dict[tuple[int, int], float] = defaultdict(float)
        for page, labels, value in self._samples.get(_COUNTERS["requests_finished"], ()):
            if (rank := labels.get("engine", "")).isdecimal():
                by_rank[page, int(rank)] += value
        return tuple(by_rank[rank] for rank in sorted(by_rank)) if len(by_rank) > 1 else None

    def _sum(self, name: str, page: int | None = None) -> float | None:
        values = [sample.value for sample in self._samples.get(name, ()) if page is None or sample.page == page]
        return sum(values) if values else None

    def _per_position(self) -> tuple[float, ...] | None:
        by_position: dict[int, float] = defaultdict(float)
        for _, labels, value in self._samples.get(_PER_POSITION, ()):
            by_position[int(labels["position"])] += value
        return tuple(by_position[position] for position in sorted(by_position)) or None


def _name(line: str) -> str:
    found = _SAMPLE_NAME.match(line)
    return found[0] if found else ""


class MetricsPage:
    """The metrics page of a running engine. Blocking; use it from a thread while the event loop measures.

    Args:
        servers: one, or all replicas of an engine, whose pages are then read one after the other.
        timeout_s: for one read.
    """

    def __init__(self, *servers: Server, timeout_s: float = 10.0) -> None:
        self._servers = servers
        self._timeout_s = timeout_s

    def read(self) -> MetricsText | None:
        """The page as it is now; None where a server has none or does not answer."""
        try:
            return MetricsText(*map(self._page, self._servers))
        except (OSError, http.client.HTTPException, ValueError):
            return None

    def _page(self, server: Server) -> str:
        """Its text.

        Raises:
            OSError, http.client.HTTPException: it does not answer.
            ValueError: it answers with something else.
        """
        reply = get(server.base_url, "/metrics", api_key=server.api_key, timeout_s=self._timeout_s)
        if reply.status != http.client.OK or reply.is_html:
            raise ValueError("no page of metrics")
        return reply.body.decode()

    def settled_counters(
        self,
        *,
        within_s: float = SETTLE_WITHIN_S,
        wait: Callable[[float], object] = time.sleep,
    ) -> CounterValues:
        """The totals once they stand still: no request runs or waits, and two reads in a row agree.

        Args:
            within_s: how long to try.
            wait: waits for that many seconds; tests pass their own.

        Returns:
            The totals. All of them are null when the server has no metrics page.

        Raises:
            StreamproofError: requests are still running after `within_s`.
        """
        before: CounterValues | None = None
        left = max(2, round(within_s / SETTLE_EVERY_S))
        while True:
            page = self.read()
            if page is None:
                return CounterValues()
            now, gauges = page.counters(), page.gauges()
            if gauges.idle and now == before:
                return now
            left -= 1
            if left == 0:
                raise StreamproofError(
                    f"the engine's counters do not stand still after {within_s:g} s: "
                    f"{gauges.running} requests running, {gauges.waiting} waiting",
                    remedy="Something else uses this engine. Measure one that nobody else talks to.",
                )
            before = now
            wait(SETTLE_EVERY_S)
