from __future__ import annotations

from collections import Counter

import pytest

from bench.engine.log_events import LONGEST_EVENT, EventReader, root_cause
from bench.engine.log_lines import LogLine, parse_line
from bench.observe.observations import EngineEvent
from tests.engine.excerpts import log

SLOW = b"This causes a latency spike; consider extending warmup to cover this shape/config."


def events(lines: list[LogLine], *, serving: bool = True) -> list[EngineEvent]:
    reader = EventReader(run=3)
    return [event for line in lines if (event := reader.feed(line, 1.5, serving=serving))]


@pytest.mark.parametrize(
    ("raw", "kind"),
    [
        (
            b"(EngineCore pid=1) WARNING 11-29 22:49:18 [jit_monitor.py:135] "
            b"Triton kernel JIT compilation during inference: fused_moe_kernel. " + SLOW,
            "jit",
        ),
        (
            b"(EngineCore pid=1) WARNING 11-29 22:49:18 [jit_monitor.py:135] "
            b"CuTeDSL JIT compilation during inference: gemm. " + SLOW,
            "jit",
        ),
        (b"Triton autotuning for function fused_moe_kernel,", "jit"),
        (b"DeepGEMM warmup:   0%|          | 1/1949 [00:05<2:47:43,  5.17s/it]", "jit"),
        (
            b"(EngineCore pid=1) 2026-11-29 22:46:44 - flashinfer.jit: [Autotuner]: Autotuning process starts ...",
            "jit",
        ),
        (b"(EngineCore pid=1) INFO 11-29 22:45:42 [backends.py:1155] Dynamo bytecode transform time: 9.29 s", "jit"),
        (b"(EngineCore pid=1) INFO 11-29 22:46:10 [monitor.py:53] torch.compile took 38.25 s in total", "jit"),
        (b"Capturing CUDA graphs (decode, FULL):   0%|          | 0/51 [00:00<?, ?it/s]", "graph_capture"),
        (
            b"WARNING 01-01 00:00:00 [scheduler.py:1] Sequence group 7 is preempted by PreemptionMode.RECOMPUTE mode",
            "preemption",
        ),
        (b"(APIServer pid=1) ERROR 11-30 00:42:35 [async_llm.py:704] AsyncLLM output_handler failed.", "error"),
        (b"(APIServer pid=1) WARNING 11-30 00:42:34 [base.py:258] Chat template warmup failed", "warning"),
        (b"ERROR:    Exception in ASGI application", "error"),
    ],
)
def test_lines_that_matter(raw: bytes, kind: str) -> None:
    (event,) = events([parse_line(17, raw)])
    assert (event.event, event.t, event.run, event.line_number) == (kind, 1.5, 3, 17)
    assert event.line == raw.decode()[:LONGEST_EVENT]


@pytest.mark.parametrize(
    "raw",
    [
        b"INFO 11-29 22:49:15 [jit_monitor.py:79] monitored JIT compilations during inference will use mode=warn.",
        b"(APIServer pid=1) INFO 11-29 22:49:27 [loggers.py:310] Engine 000: Avg prompt throughput: 5046.0 tokens/s",
        b'(APIServer pid=1) INFO:     127.0.0.1:1 - "POST /v1/completions HTTP/1.1" 200 OK',
        b"[W1129 22:45:23.254868483 socket.cpp:207] [c10d] The hostname cannot be retrieved. err=-3",
    ],
)
def test_lines_that_do_not(raw: bytes) -> None:
    assert events([parse_line(1, raw)]) == []


def test_compiling_and_capturing_are_no_events_of_a_start() -> None:
    found = Counter(event.event for event in events(log("h200-healthy"), serving=False))
    assert set(found) == {"warning"}


def test_three_kernels_were_compiled_while_the_engine_served() -> None:
    lines = log("h200-healthy")
    ready = next(index for index, line in enumerate(lines) if "Application startup complete" in line.message)
    found = [event.line for event in events(lines[ready:]) if event.event == "jit"]
    assert [line.split("inference: ")[1].split(".")[0] for line in found] == [
        "_compute_slot_mapping_kernel",
        "batch_memcpy_kernel",
        "fused_moe_kernel",
    ]


def test_a_traceback_is_one_event() -> None:
    found = [event.line for event in events(log("h200-gdn-missing")) if event.event in ("error", "warning")]
    assert sum("warmup (T=64) failed" in line for line in found) == 2
    assert not any("Traceback" in line or "  File " in line for line in found)


def test_two_errors_of_a_server_that_names_no_source_are_two() -> None:
    assert len(events([parse_line(1, b"ERROR:    first"), parse_line(2, b"ERROR:    second")])) == 2


def test_a_long_line_is_cut() -> None:
    (event,) = events([parse_line(1, b"ERROR:    " + b"x" * 2000)])
    assert len(event.line) == LONGEST_EVENT


@pytest.mark.parametrize(
    ("name", "cause"),
    [
        ("cpu-died", "RuntimeError: Input tensor dtype mismatch"),
        ("h200-gdn-missing", "NotImplementedError: SM90 GDN prefill DSL kernel is unavailable"),
        (
            "h200-gpu-held",
            "ValueError: Free memory on device cuda:0 (14.99/139.8 GiB) on startup is less than desired",
        ),
        ("h200-healthy", None),
        ("cpu-healthy", None),
    ],
)
def test_why_an_engine_died(name: str, cause: str | None) -> None:
    found = root_cause(log(name))
    assert found == cause if cause is None else found is not None and found.startswith(cause)


@pytest.mark.parametrize(
    ("raw", "cause"),
    [
        (b"torch.AcceleratorError: CUDA error: out of memory", "torch.AcceleratorError: CUDA error: out of memory"),
        (b"KeyboardInterrupt", "KeyboardInterrupt"),
        (
            b"(EngineCore pid=1) ERROR 11-30 01:10:47 [m.py:284] Worker proc VllmWorker-0 died unexpectedly, stopping",
            "Worker proc VllmWorker-0 died unexpectedly, stopping",
        ),
        (b"api_server.py: error: unrecognized arguments: --nope", None),
        (b"ErrorCount is 3", None),
        (b"RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}", None),
        (b"WARNING 11-29 22:32:32 [a.py:1] NotImplementedError: survived", None),
    ],
)
def test_which_line_names_a_cause(raw: bytes, cause: str | None) -> None:
    expected = raw.decode() if b": error: " in raw else cause
    assert root_cause([parse_line(1, raw)]) == expected


def test_a_setting_that_is_refused_is_named_not_counted() -> None:
    raw = [
        b"(APIServer pid=1) pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig",
        b"(APIServer pid=1)   Value error, User-specified max_model_len (999999) is greater than the derived one",
    ]
    lines = [parse_line(number, line) for number, line in enumerate(raw, start=1)]
    assert root_cause(lines) == "Value error, User-specified max_model_len (999999) is greater than the derived one"
    assert root_cause(lines[:1]) == lines[0].message
