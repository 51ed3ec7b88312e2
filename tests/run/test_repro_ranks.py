"""Two data-parallel ranks on the real engine: calls stay at their rank, hits are as predicted, nothing is left behind.

vLLM's CPU build has data parallel for dense models only, and the bundled toy is a mixture of experts. So this serves a
dense model of the toy's shapes, with random weights.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from bench.report import folder_files as files
from quantize.checkpoint import TOY
from tests.run.real_run import engine_processes
from tests.run.repro_client import ROOT

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.engine, pytest.mark.thorough, pytest.mark.alone]

OF_EXPERTS = (
    "num_experts",
    "num_experts_per_tok",
    "moe_intermediate_size",
    "shared_expert_intermediate_size",
    "router_aux_loss_coef",
    "output_router_logits",
)
RECIPE = """
extends = "cpu"
title = "A dense toy on the CPU, two data-parallel ranks"
checkpoint = {{ kind = "dummy", name = "{folder}", precision = "bf16", real = false }}
engine.flags = {{ load_format = "dummy", skip_tokenizer_init = true, data_parallel_size = 2 }}
workload.api = "token_ids"
load = {{ ladder = [{{ streams = 5 }}, {{ concurrent = 3 }}], ramp_s = 2.0, steady_s = 12.0 }}
[sources]
checkpoint = {{ kind = "scaled", why = "a test" }}
engine = {{ kind = "scaled", why = "a test" }}
workload = {{ kind = "scaled", why = "a test" }}
load = {{ kind = "scaled", why = "a test" }}
"""


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    config: dict[str, Any] = json.loads((TOY / "config.json").read_text())
    config |= {"architectures": ["Qwen3_5ForConditionalGeneration"], "model_type": "qwen3_5"}
    text = {key: value for key, value in config["text_config"].items() if key not in OF_EXPERTS}
    config["text_config"] = {**text, "model_type": "qwen3_5_text", "intermediate_size": 512}
    config["vision_config"]["model_type"] = "qwen3_5_vision"
    dense = tmp_path / "dense"
    dense.mkdir()
    (dense / "config.json").write_text(json.dumps(config))
    path = tmp_path / "two-ranks.toml"
    path.write_text(RECIPE.format(folder=dense))
    return path


def start(recipe: Path, tmp_path: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "bench", "repro", str(recipe), "--reports", str(tmp_path / "reports"), "--json"],
        cwd=ROOT,
        env={**os.environ, "XDG_CONFIG_HOME": str(tmp_path / "config")},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def folder_of(tmp_path: Path) -> Path:
    (folder,) = (tmp_path / "reports" / "two-ranks").iterdir()
    return folder


def test_two_ranks_are_measured_as_one_engine(recipe: Path, tmp_path: Path) -> None:
    client = start(recipe, tmp_path)
    _, err = client.communicate(timeout=400)
    folder = folder_of(tmp_path)
    report: dict[str, Any] = json.loads((folder / files.REPORT).read_bytes())
    checks = {(check["rule"], check["point"]): check for check in report["checks"]}
    for point in report["points"]:
        assert point["complete"], err
        assert point["failures"] == {}
        for rule in (
            "client totals equal the engine's",
            "calls stayed at their rank",
            "prefix hits are as predicted",
        ):
            assert checks[rule, point["index"]]["verdict"] == "kept", checks[rule, point["index"]]
        assert point["prefix_cache"]["measured_rate"] > 0.6
    assert any(found["key"] == "load.affinity" and "modulo 2" in found["why"] for found in report["assumptions"])
    assert engine_processes(folder) == []


def test_a_killed_client_leaves_no_rank_behind(recipe: Path, tmp_path: Path) -> None:
    client = start(recipe, tmp_path)
    wait = threading.Event()
    family: set[str] = set()
    for _ in range(1200):
        assert client.poll() is None, client.communicate()
        folders = list((tmp_path / "reports").glob("two-ranks/*"))
        family = {process.name() for process in engine_processes(folders[0])} if folders else set()
        if {"VLLM::EngineCor", "VLLM::Worker"} <= {name[:15] for name in family}:
            break
        wait.wait(0.1)
    left = engine_processes(folder_of(tmp_path))
    assert sum(process.name().startswith("VLLM::EngineCor") for process in left) >= 1, family
    client.send_signal(signal.SIGKILL)
    client.communicate()
    gone, alive = psutil.wait_procs(left, timeout=30)
    assert len(gone) == len(left)
    assert alive == engine_processes(folder_of(tmp_path)) == []
