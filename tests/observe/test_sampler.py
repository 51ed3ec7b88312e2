from __future__ import annotations

import threading

from bench.engine.metrics import MetricsPage, MetricsText
from bench.observe.gpu import Gpus
from bench.observe.observations import EngineEvent, Gauges, HostSample
from bench.observe.sampler import Sampler
from bench.servers import Server

ENOUGH_S = 60.0


class Pages(MetricsPage):
    """One page after the other; None is a server that does not answer."""

    def __init__(self, *pages: str | None) -> None:
        super().__init__(Server("http://127.0.0.1:1"))
        self._pages = list(pages)
        self.drained = threading.Event()

    def read(self) -> MetricsText | None:
        text = self._pages.pop(0) if self._pages else None
        if not self._pages:
            self.drained.set()
        return None if text is None else MetricsText(text)


def page(*, running: int = 2, waiting: int = 1, usage: float = 0.5, preemptions: int = 0) -> str:
    return (
        f"vllm:num_requests_running {running}\nvllm:num_requests_waiting {waiting}\n"
        f"vllm:kv_cache_usage_perc {usage}\nvllm:num_preemptions_total {preemptions}\n"
    )


def sampler(pages: MetricsPage | None, period_s: float = 3600.0) -> Sampler:
    return Sampler(run=1, clock=lambda: 2.5, page=pages, gpus=Gpus(only=()), period_s=period_s)


def test_a_round_looks_at_host_and_engine() -> None:
    watching = sampler(Pages(page()))
    watching.look()
    host, gauges = watching.take()
    assert isinstance(host, HostSample)
    assert gauges == Gauges(t=2.5, run=1, running=2.0, waiting=1.0, kv_usage=0.5)
    assert watching.take() == []


def test_a_preemption_is_an_event_when_the_counter_rises() -> None:
    watching = sampler(Pages(page(preemptions=4), page(preemptions=4), page(preemptions=6), page(preemptions=6)))
    for _ in range(4):
        watching.look()
    events = [seen for seen in watching.take() if isinstance(seen, EngineEvent)]
    line = "vllm:num_preemptions rose from 4 to 6"
    assert events == [EngineEvent(t=2.5, run=1, event="preemption", line=line, line_number=None)]


def test_a_preemption_names_its_replica() -> None:
    before = MetricsText(page(preemptions=4), page(preemptions=1))
    after = MetricsText(page(preemptions=4), page(preemptions=2))
    texts = iter((before, after))

    class OfTwo(MetricsPage):
        def read(self) -> MetricsText:
            return next(texts)

    watching = sampler(OfTwo())
    watching.look()
    watching.look()
    (event,) = (seen for seen in watching.take() if isinstance(seen, EngineEvent))
    assert (event.line, event.replica) == ("vllm:num_preemptions rose from 1 to 2", 1)


def test_a_server_that_tells_nothing_or_does_not_answer() -> None:
    watching = sampler(Pages("other_metric 1\n", None))
    watching.look()
    watching.look()
    gauges = [seen for seen in watching.take() if isinstance(seen, Gauges)]
    assert gauges == [Gauges(t=2.5, run=1, running=None, waiting=None, kv_usage=None)]


def test_an_engine_without_metrics() -> None:
    watching = sampler(None)
    watching.look()
    assert [type(seen) for seen in watching.take()] == [HostSample]


def test_it_goes_on_by_itself_until_it_is_left() -> None:
    pages = Pages(page(), page())
    with sampler(pages, period_s=0.001) as watching:
        assert pages.drained.wait(ENOUGH_S)
    seen = watching.take()
    assert sum(isinstance(one, Gauges) for one in seen) == 2
    assert watching.take() == []
