"""Each tool's own output, recorded from the pinned versions against the reference server (24 requests, 8 in flight)."""

from __future__ import annotations

import shutil
from pathlib import Path

import orjson
import pytest

from bench.peers.aiperf import AIPerf
from bench.peers.cli import TOOLS
from bench.peers.guidellm import GuideLLM
from bench.peers.inference_perf import InferencePerf
from bench.peers.load import Load
from bench.peers.ours import Ours
from bench.peers.results import load_json
from bench.peers.tool import Job, Tool, UnreadableError
from bench.peers.vllm_bench import VllmBench

DATA = Path(__file__).parent / "data"

PLACES: list[tuple[Tool, str, str]] = [
    (VllmBench(), "vllm-bench.json", "result.json"),
    (GuideLLM(), "guidellm.json", "result.json"),
    (AIPerf(), "aiperf.json", "profile_export_aiperf.json"),
    (InferencePerf(), "inference-perf.json", "reports/summary_lifecycle_metrics.json"),
]
"""Tool, its recorded output, and where it leaves it."""


def job(folder: Path, load: Load | None = None) -> Job:
    return Job(
        load=load or Load(requests=24, in_flight=8),
        base_url="http://127.0.0.1:1",
        folder=folder,
        python=Path("/env/bin/python"),
        tokenizer=Path("/toy"),
    )


def left(folder: Path, source: str, target: str) -> Path:
    path = folder / target
    path.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(DATA / source, path)
    return path


@pytest.mark.parametrize(("tool", "source", "target"), PLACES, ids=lambda value: getattr(value, "name", None))
def test_recorded_output(tool: Tool, source: str, target: str, tmp_path: Path) -> None:
    left(tmp_path, source, target)
    counted = tool.read(job(tmp_path))
    assert (counted.succeeded, counted.failed) == (24, 0)
    p50, p95, p99 = counted.e2e_ms
    assert 500 < p50 < p95 < p99 < 1300  # milliseconds, not seconds
    first, _, last = counted.ttft_ms
    assert 0 < first < p50
    assert first < last


def test_figures_are_those_that_the_tools_print(tmp_path: Path) -> None:
    read = {}
    for tool, source, target in PLACES:
        left(tmp_path / tool.name, source, target)
        read[tool.name] = tool.read(job(tmp_path / tool.name))
    assert read["vllm bench serve"].e2e_ms == pytest.approx((583.636, 751.917, 780.829), abs=1e-3)
    assert read["vllm bench serve"].ttft_ms == pytest.approx((3.524, 7.613, 7.721), abs=1e-3)
    assert read["GuideLLM"].e2e_ms == pytest.approx((618.525, 787.004, 913.921), abs=1e-3)
    assert read["GuideLLM"].ttft_ms == pytest.approx((220.119, 274.647, 317.705), abs=1e-3)
    assert read["AIPerf"].e2e_ms == pytest.approx((601.032, 858.412, 893.952), abs=1e-3)
    assert read["AIPerf"].ttft_ms == pytest.approx((214.240, 300.884, 315.984), abs=1e-3)
    assert read["inference-perf"].e2e_ms == pytest.approx((666.736, 894.760, 1131.127), abs=1e-3)
    assert read["inference-perf"].ttft_ms == pytest.approx((229.731, 426.229, 466.599), abs=1e-3)
    assert {name: counted.rule for name, counted in read.items()} == {
        "vllm bench serve": "linear",
        "GuideLLM": "order",
        "AIPerf": "linear",
        "inference-perf": "linear",
    }


def test_failures_are_counted(tmp_path: Path) -> None:
    changes: dict[str, tuple[tuple[str, ...], int]] = {
        "vllm bench serve": (("failed",), 3),
        "GuideLLM": (("benchmarks", "0", "metrics", "request_totals", "incomplete"), 3),
        "AIPerf": (("completed_request_count", "avg"), 27),
        "inference-perf": (("failures", "count"), 3),
    }
    for tool, source, target in PLACES:
        path = left(tmp_path / tool.name, source, target)
        whole = load_json(path)
        *keys, last = changes[tool.name][0]
        inner = whole
        for key in keys:
            inner = inner[int(key)] if isinstance(inner, list) else inner[key]
        inner[last] = changes[tool.name][1]
        path.write_bytes(orjson.dumps(whole))
        counted = tool.read(job(tmp_path / tool.name))
        assert (counted.succeeded, counted.failed) == (24, 3), tool.name


@pytest.mark.parametrize(("tool", "source", "target"), PLACES, ids=lambda value: getattr(value, "name", None))
def test_no_output_or_another(tool: Tool, source: str, target: str, tmp_path: Path) -> None:
    with pytest.raises(UnreadableError, match=r"it left no .*\.json"):
        tool.read(job(tmp_path))
    path = left(tmp_path, source, target)
    path.write_text("{}")
    with pytest.raises(UnreadableError, match=r"its results (hold not exactly one|have no number at)"):
        tool.read(job(tmp_path))
    path.write_text("{")
    with pytest.raises(UnreadableError, match="is no JSON"):
        tool.read(job(tmp_path))


def test_ours_names_the_requests_that_it_counts(tmp_path: Path) -> None:
    triple = {"p50": 600.0, "p95": 765.0, "p99": 850.0}
    result = {"succeeded": 1, "failed": 1, "e2e_ms": triple, "ttft_ms": triple, "tags": ["0/1/0/0", "0/2/0/0"]}
    (tmp_path / "result.json").write_bytes(orjson.dumps(result))
    counted = Ours().read(job(tmp_path))
    assert counted.tags == frozenset({"0/1/0/0", "0/2/0/0"})
    assert (counted.succeeded, counted.failed, counted.rule) == (1, 1, "order")
    (tmp_path / "result.json").write_bytes(orjson.dumps({**result, "tags": None}))
    with pytest.raises(UnreadableError, match="name no requests"):
        Ours().read(job(tmp_path))


@pytest.mark.parametrize("tool", TOOLS.values(), ids=TOOLS)
def test_command_lines(tool: Tool, tmp_path: Path) -> None:
    closed = tool.command(job(tmp_path, Load(requests=321, in_flight=17)))
    steady = tool.command(job(tmp_path, Load(requests=321, rate=23.0)))
    said = [" ".join(command) for command in (closed, steady)]
    config = tmp_path / "config.yml"
    if config.exists():  # inference-perf is told in a file: here the one of the last command
        loaded = load_json(config)
        assert loaded["load"]["stages"] == [{"rate": 23.0, "duration": 14}]
        tool.command(job(tmp_path, Load(requests=321, in_flight=17)))
        assert load_json(config)["load"]["stages"] == [{"num_requests": 321, "concurrency_level": 17}]
        assert load_json(config)["server"]["base_url"] == "http://127.0.0.1:1"
        return
    assert all("http://127.0.0.1:1" in line for line in said)
    assert "17" in said[0]
    assert "23" in said[1]
    if tool.environment is not None:
        assert all("321" in line and "/toy" in line and "10000" in line for line in said)


def test_what_a_tool_cannot_do_it_says() -> None:
    streams = Load(requests=1, streams=60)
    reasons = {name: tool.cannot(streams) for name, tool in TOOLS.items()}
    assert reasons.pop("ours") is None
    assert all(reasons.values())
    for load in (Load(requests=1, in_flight=1), Load(requests=1, rate=1.0)):
        assert not any(tool.cannot(load) for tool in TOOLS.values())


def test_a_load_is_one_load() -> None:
    with pytest.raises(ValueError, match="exactly one"):
        Load(requests=1)
    with pytest.raises(ValueError, match="exactly one"):
        Load(requests=1, in_flight=1, rate=1.0)


def test_how_long_a_load_takes() -> None:
    assert Load(requests=160, in_flight=16).seconds == pytest.approx(6.07, abs=0.01)
    assert Load(requests=60, streams=60, gap_s=2.0).seconds == pytest.approx(2.607, abs=0.01)
    assert Load(requests=50, rate=10).seconds == 5.0
    assert Load(requests=1, streams=3, gap_s=2.0).name == "3 streams, 2 s apart"
    assert Load(requests=1, rate=12.5).name == "12.5 a second"
