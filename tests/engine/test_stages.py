from __future__ import annotations

from itertools import pairwise

import pytest

from bench.engine.log_lines import parse_line
from bench.engine.stages import LogFacts, Stage, StartUp
from tests.engine.excerpts import log


def follow(name: str) -> StartUp:
    """Feeds a log; a line's number serves as its time."""
    start_up = StartUp()
    for line in log(name):
        start_up.feed(line, float(line.number))
    return start_up


def names(start_up: StartUp) -> list[str]:
    return [stage.name for stage in start_up.stages(1e6)]


def test_a_healthy_start_on_a_gpu_goes_through_every_stage() -> None:
    start_up = follow("h200-healthy")
    assert start_up.stage is Stage.READY
    assert names(start_up) == [stage.value for stage in Stage if stage is not Stage.READY]
    assert start_up.facts == LogFacts(
        attention_block_size=1056,
        graphs="PIECEWISE=51 (largest=512), FULL=51 (largest=512)",
        weights_gib=33.41,
        kv_cache_tokens=3_231_371,
        compile_s=38.25,
        prefix_caching=True,
    )


def test_a_start_of_the_second_model_runner_which_says_other_things() -> None:
    """It estimates no graph memory, so that only the bars tell what was captured."""
    start_up = follow("h200-v2-runner")
    assert names(start_up) == [
        "launch",
        "config-validation",
        "device-init",
        "weight-load",
        "profile-run",
        "serving-KV-alloc",
        "kernel-warmup/JIT",
        "graph-capture",
        "sampler/logits",
        "server-start",
    ]
    assert start_up.facts == LogFacts(
        attention_block_size=2160,
        graphs="PIECEWISE=14, FULL=7",
        weights_gib=34.13,
        kv_cache_tokens=2_551_085,
        compile_s=5.45,
        prefix_caching=True,
    )


def test_a_healthy_start_on_a_cpu() -> None:
    start_up = follow("cpu-healthy")
    assert start_up.stage is Stage.READY
    assert names(start_up) == [
        "launch",
        "config-validation",
        "device-init",
        "weight-load",
        "profile-run",
        "serving-KV-budget",
        "serving-KV-alloc",
        "server-start",
    ]
    assert start_up.facts == LogFacts(attention_block_size=640, kv_cache_tokens=2_064_699, prefix_caching=True)


@pytest.mark.parametrize(
    ("name", "stage"), [("h200-gpu-held", Stage.DEVICE), ("h200-gdn-missing", Stage.GRAPH_ESTIMATE)]
)
def test_a_failed_start_stands_at_the_stage_that_failed(name: str, stage: Stage) -> None:
    assert follow(name).stage is stage


def test_a_second_compilation_neither_goes_back_nor_is_lost() -> None:
    start_up = follow("h200-gdn-missing")  # with MTP: the draft is compiled after the model
    assert names(start_up).count("profile-run") == 1
    assert start_up.facts.compile_s == pytest.approx(52.83 + 13.45)


def test_stages_follow_each_other_without_a_gap() -> None:
    stages = follow("h200-healthy").stages(1e6)
    assert stages[0].start_s == 0.0
    assert all(before.end_s == after.start_s for before, after in pairwise(stages))
    # The server's stage ends when it said that it is up, not when we noticed.
    assert stages[-1].end_s < 1e6


def test_the_stage_that_is_under_way_ends_now() -> None:
    start_up = StartUp()
    start_up.feed(parse_line(1, b"Starting to load model /model..."), 3.0)
    assert [(stage.name, stage.start_s, stage.end_s) for stage in start_up.stages(7.5)] == [
        ("launch", 0.0, 3.0),
        ("weight-load", 3.0, 7.5),
    ]


def test_a_progress_bar_is_the_detail_of_its_stage_and_goes_with_it() -> None:
    start_up = StartUp()
    start_up.feed(parse_line(1, "DeepGEMM warmup:  45%|████▌     | 878/1949 [03:38<20:57,  1.17s/it]".encode()), 1.0)
    assert (start_up.stage, start_up.detail) == (Stage.KERNEL_WARMUP, "878/1949")
    start_up.feed(parse_line(2, b"Capturing CUDA graphs (decode, FULL):   0%|          | 0/51 [00:00<?, ?it/s]"), 2.0)
    assert (start_up.stage, start_up.detail) == (Stage.GRAPH_CAPTURE, "0/51")
    start_up.feed(parse_line(3, b"Graph capturing finished in 150 secs, took 1.21 GiB"), 3.0)
    assert (start_up.stage, start_up.detail) == (Stage.SAMPLER, "")


def test_every_stage_has_words() -> None:
    assert len({stage.words for stage in Stage}) == len(Stage)
