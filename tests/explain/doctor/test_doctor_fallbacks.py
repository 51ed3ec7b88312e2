"""Failures told by less: without functions, by their place in the log, by one line; and those that any server has."""

from __future__ import annotations

import pytest

from bench.explain.doctor.knowledge import knowledge
from tests.explain.doctor import scenes as s
from tests.explain.doctor import test_doctor_failures
from tests.explain.doctor.test_doctor_real_failures import REAL

OOM = s.OOM.format(asked="1.00 GiB")
ILLEGAL = "torch.AcceleratorError: CUDA error: an illegal memory access was encountered"
NO_GDN = [line for line in s.until("Application startup complete") if "GDN" not in line and "amba" not in line]
LOADING = s.until("Starting to load model")
READY = s.until("Application startup complete")


def without_hybrid(lines: list[str]) -> list[str]:
    return [line for line in lines if "ttention block size" not in line]


def bare(raised: str, before: str) -> list[str]:
    """An exception's line without its traceback, as somebody pastes it."""
    return s.with_lines(s.until(before), s.info("core.py:1330", "EngineCore failed to start.", "ERROR"), raised)


CASES: list[tuple[str, list[str]]] = [
    ("weight-load-oom-unnamed", bare(OOM, "Starting to load model")),
    ("graph-capture-oom-unnamed", bare(OOM, "Capturing CUDA graphs")),
    ("serving-oom-unnamed", bare(OOM, "Application startup complete")),
    ("oom-unplaced", bare(OOM, "torch.compile took")),
    ("sampler-run-profile-oom", s.until("torch.compile took") + s.died([*s.PROFILING, "_dummy_sampler_run"], OOM)),
    ("sampler-oom", LOADING + s.died(["forward_native", "apply_top_k_top_p"], OOM)),
    (
        "triton-autotune-oom-named",
        s.with_lines(bare(OOM, "Application startup complete"), "  ...chunk.py, in solve_tril"),
    ),
    ("illegal-access", without_hybrid(NO_GDN) + s.crashed(s.SERVING, ILLEGAL)),
    (
        "block-allocation-assert-quoted",
        s.with_lines(READY, "    assert num_required_blocks > len(req_blocks)")
        + s.crashed(s.SERVING, "AssertionError"),
    ),
    ("weight-key", LOADING + s.died(s.LOADING, "KeyError: 'layers.0.mlp.experts.w2_weight.0.qweight'")),
    (
        "weights-not-initialized",
        LOADING
        + s.died(s.LOADING, "ValueError: Following weights were not initialized from checkpoint: {'mtp.fc.weight'}"),
    ),
    (
        "bad-checkpoint-file",
        LOADING + s.died(s.LOADING, "safetensors_rust.SafetensorError: Error: MetadataIncompleteBuffer"),
    ),
    (
        "no-quant-kernel",
        LOADING + s.died(s.LOADING, "RuntimeError: CUTLASS MoE kernel does not support current device sm_120"),
    ),
    (
        "capture-max-inconsistent",
        s.until("non-default")
        + s.traceback(
            ["create_engine_config"],
            "ValueError: customized max_cudagraph_capture_size(=16384) should be consistent with the max value of "
            "cudagraph_capture_sizes(=8192)",
        ),
    ),
    (
        "no-valid-capture-sizes",
        s.until("Setting attention block")
        + s.died(
            s.TRIAL, "ValueError: No valid cudagraph sizes after rounding to multiple of 5 (num_speculative_tokens + 1)"
        ),
    ),
    (
        "memory-grew-while-profiling",
        s.until("torch.compile took")
        + s.died(
            s.PROFILING,
            "AssertionError: Error in memory profiling. Initial free memory 70.1 GiB, current free 74.2 GiB.",
        ),
    ),
    ("graph-capture-unfinished", s.until("Capturing CUDA graphs")),
    (
        "ready-timeout-said",
        s.until("Warming up Qwen") + s.died(["run"], "TimeoutError: Timed out waiting for engine core processes"),
    ),
    (
        "nvcc-not-found",
        s.until("GPU KV cache size") + s.died(s.WARMING, "RuntimeError: Could not find nvcc and default cuda_home"),
    ),
    (
        "jit-build-failed",
        s.until("GPU KV cache size") + s.died(s.WARMING, "RuntimeError: Ninja build failed. Ninja output: ptxas"),
    ),
    (
        "autotune-coredump",
        [
            *s.until("Autotuning process starts"),
            "flashinfer::trtllm_bf16_moe  0%|          | 0/21 [00:00<?, ?it/s]",
            *s.died(s.WARMING, "torch.AcceleratorError: CUDA error: unspecified launch failure"),
        ],
    ),
    (
        "nan-logits",
        READY + s.crashed(s.SERVING, "RuntimeError: Assertion 'NaN detected! sampler: next_token_logits' failed."),
    ),
    (
        "container-no-gpu",
        ["RuntimeError: Failed to infer device type, please set the environment variable `VLLM_LOGGING_LEVEL`"],
    ),
    (
        "nccl-system-error",
        s.until("world_size")
        + s.died(s.DEVICE, "RuntimeError: NCCL error: unhandled system error (run with NCCL_DEBUG=INFO)"),
    ),
    (
        "host-memory-killed",
        s.with_lines(LOADING, "Out of memory: Killed process 4264 (VLLM::EngineCor) total-vm:9000kB"),
    ),
    (
        "worker-vanished",
        s.with_lines(READY, s.info("multiproc_executor.py:285", "Worker proc VllmWorker-0 died unexpectedly", "ERROR")),
    ),
    (
        "ray-worker-killed",
        s.with_lines(
            LOADING, "(raylet) A worker died or was killed while executing a task by an unexpected system error."
        )
        + s.died(["run_engine_core"], "ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing"),
    ),
    (
        "port-in-use",
        s.until("init engine (profile") + s.traceback(["bind"], "OSError: [Errno 98] Address already in use"),
    ),
]


@pytest.mark.parametrize(("entry", "lines"), CASES, ids=[case[0] for case in CASES])
def test_what_little_there_is_names_the_cause(entry: str, lines: list[str]) -> None:
    assert s.named(lines) == entry


def test_every_failure_that_the_doctor_knows_is_tried_somewhere() -> None:
    tried = {entry for entry, _ in CASES} | {entry for entry, _, _ in test_doctor_failures.CASES}
    tried |= {entry for _, entry, _, _ in REAL}
    tried |= {"rank-lost"}  # test_doctor_cause
    tried |= {"serving-hang"}  # test_doctor_downgrades
    assert {entry.id for entry in knowledge().entries if entry.kind == "failure"} - tried == set()
