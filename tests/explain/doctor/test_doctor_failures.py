"""Every failure of the knowledge that a log can show, placed into a real start: its cause and its stage."""

from __future__ import annotations

import pytest

from bench.explain.doctor.knowledge import knowledge
from tests.explain.doctor import scenes as s

GIB = s.OOM.format(asked="37.10 GiB")
PLAIN_OOM = "torch.AcceleratorError: CUDA error: out of memory"
ILLEGAL = "torch.AcceleratorError: CUDA error: an illegal memory access was encountered"
MTP = s.info("core.py:1", "speculative_config=SpeculativeConfig(method='mtp', model='/model', num_spec_tokens=3)")
MTP5 = MTP.replace("num_spec_tokens=3", "num_spec_tokens=5")
PIECEWISE = s.info(
    "compilation.py:1",
    "CUDAGraphMode.FULL_AND_PIECEWISE is not supported with spec-decode for attention backend FlashInferBackend "
    "(support: AttentionCGSupport.UNIFORM_SINGLE_TOKEN_DECODE); setting cudagraph_mode=PIECEWISE",
    "WARNING",
)
SCRATCH_BLOCKS = s.info("kv_cache_utils.py:829", "Overriding num_gpu_blocks=0 with num_gpu_blocks_override=512")
PROFILED = "Initial profiling/warmup run took"
BUDGETED = "Available KV cache memory"
ALLOCATED = "GPU KV cache size"
CAPTURING = "Capturing CUDA graphs"
CAPTURED = "Graph capturing finished"
READY = "Application startup complete"

CASES: list[tuple[str, str, list[str]]] = [
    (
        "graph-scratch-kv",
        "graph-profiling-scratch-KV",
        s.of_version("0.25.1", s.until(PROFILED)) + s.died(s.SCRATCH, GIB),
    ),
    ("graph-scratch-kv", "graph-profiling-scratch-KV", s.until(PROFILED) + s.died(s.SCRATCH, PLAIN_OOM)),
    (
        "graph-scratch-kv-unnamed",
        "graph-profiling-scratch-KV",
        s.with_lines(s.of_version("0.19.2rc1.dev8", s.until(PROFILED)), SCRATCH_BLOCKS, f"{PLAIN_OOM}"),
    ),
    (
        "graph-trial-capture-oom",
        "graph-memory-estimate",
        s.until("Profiling CUDA graph") + s.died([*s.TRIAL, "_dummy_run"], GIB),
    ),
    ("graph-capture-oom", "graph-capture", s.until(CAPTURING) + s.died(s.CAPTURING, s.OOM.format(asked="136.00 MiB"))),
    ("profile-run-oom", "profile-run", s.until("torch.compile took") + s.died(s.PROFILING, GIB)),
    ("weight-load-oom", "weight-load", s.until("Starting to load model") + s.died(s.LOADING, GIB)),
    ("kv-allocation-oom", "serving-KV-alloc", s.until(ALLOCATED) + s.died(s.ALLOCATING, GIB)),
    ("prefill-oom", "runtime-crash", s.until(READY) + s.crashed(s.SERVING, GIB)),
    (
        "no-kv-memory",
        "serving-KV-budget",
        s.with_lines(s.until("Estimated CUDA graph"), s.info("gpu_worker.py:1", "Available KV cache memory: -3.86 GiB"))
        + s.died(
            s.BUDGET,
            "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when",
        ),
    ),
    (
        "max-len-does-not-fit",
        "serving-KV-budget",
        s.until(BUDGETED)
        + s.died(
            s.BUDGET,
            "ValueError: To serve at least one request with the models's max seq len (262144), "
            "(62.00 GiB KV cache is needed,"
            " which is larger than the available KV cache memory (41.87 GiB). Based on the available "
            "memory, the estimated "
            "maximum model length is 177024.",
        ),
    ),
    (
        "mamba-blocks",
        "serving-KV-budget",
        s.until(ALLOCATED)
        + s.died(
            s.ALLOCATING, "ValueError: max_num_seqs (1024) exceeds available Mamba cache blocks (969). Each decode"
        ),
    ),
    (
        "gpu-still-held",
        "device-init",
        s.until("world_size")
        + s.died(
            s.DEVICE,
            "ValueError: Free memory on device cuda:1 (19.77/22.05 GiB) on startup is less than "
            "desired GPU memory utilization"
            " (0.9, 19.85 GiB). Decrease GPU memory utilization or reduce GPU memory used by other processes.",
        ),
    ),
    (
        "align-block-too-large",
        "config-validation",
        s.until("non-default args")
        + s.traceback(
            ["run_server", "create_engine_config"],
            "pydantic_core._pydantic_core.ValidationError: 1 validation error for VllmConfig\n"
            "  Assertion failed, In Mamba cache align mode, block_size (2096) must be <= "
            "max_num_batched_tokens (2048).",
        ),
    ),
    (
        "block-allocation-assert",
        "runtime-crash",
        s.until(READY) + s.crashed([*s.SERVING, "allocate_new_blocks"], "AssertionError"),
    ),
    (
        "mtp-shape-assert",
        "checkpoint-mismatch",
        s.with_lines(s.until("Starting to load"), MTP)
        + s.died([*s.LOADING, "load_weights", "weight_loader"], "AssertionError"),
    ),
    (
        "weight-shape-assert",
        "checkpoint-mismatch",
        s.until("Starting to load") + s.died([*s.LOADING, "load_weights", "weight_loader"], "AssertionError"),
    ),
    (
        "mtp-weight-key",
        "checkpoint-mismatch",
        s.until("Starting to load") + s.died([*s.LOADING, "load_weights"], "KeyError: 'e_proj.weight_scale_inv'"),
    ),
    (
        "architecture-unknown",
        "config-validation",
        s.of_version("0.16.0", s.until("non-default args"))
        + s.traceback(
            ["create_engine_config"],
            "pydantic_core._pydantic_core.ValidationError: 1 validation error for ModelConfig\n"
            "  Value error, The checkpoint you are trying to load has model type `qwen3_5_moe` but "
            "Transformers does not "
            "recognize this architecture.",
        ),
    ),
    ("illegal-access-many-drafts", "runtime-crash", s.with_lines(s.until(READY), MTP5) + s.crashed(s.SERVING, ILLEGAL)),
    (
        "illegal-access-piecewise-drafts",
        "runtime-crash",
        s.with_lines(s.until(READY), MTP, PIECEWISE) + s.crashed(s.SERVING, ILLEGAL),
    ),
    (
        "illegal-access-drafts",
        "runtime-crash",
        s.with_lines(s.until(READY), MTP)
        + s.crashed(s.SERVING, "torch.AcceleratorError: CUDA error: cudaErrorIllegalAddress"),
    ),
    ("illegal-access-gdn", "runtime-crash", s.until(READY) + s.crashed([*s.SERVING, "gdn_attention"], ILLEGAL)),
    ("gdn-prefill-missing", "kernel-warmup/JIT", s.start("h200-gdn-missing")),
    (
        "gdn-jit-wait",
        "kernel-warmup/JIT",
        s.with_lines(
            s.until("torch.compile took"),
            s.info("qwen_gdn.py:1", "FlashInfer GDN prefill is JIT-compiled; first run may take a while.", "WARNING"),
        ),
    ),
    (
        "ready-timeout",
        "kernel-warmup/JIT",
        s.until("Warming up Qwen Triton")
        + [
            f"(APIServer pid=4137) ERROR 11-29 22:55:02 [utils.py:1] {line}"
            for line in s.traceback(["wait_for_engine_startup"], s.ECHO)
        ],
    ),
    ("deepgemm-warmup-unfinished", "kernel-warmup/JIT", s.until("DeepGEMM warmup")),
    (
        "triton-autotune-oom",
        "kernel-warmup/JIT",
        s.until(READY) + s.crashed([*s.SERVING, "chunk_gated_delta_rule", "solve_tril", "_bench"], GIB),
    ),
    (
        "cubins-unreachable",
        "kernel-warmup/JIT",
        s.with_lines(
            s.until(ALLOCATED),
            "flashinfer.jit: Failed loading /cache/fmhaSm100Kernel_Qkv.cubin",
            "Fetching cubin fmha from https://edge.urm.nvidia.com/",
        )
        + s.died(
            s.WARMING,
            "RuntimeError: Failed to get file https://edge.urm.nvidia.com/artifactory/fmhaSm100Kernel_Qkv.cubin",
        ),
    ),
    (
        "nvcc-not-found-lines",
        "kernel-warmup/JIT",
        s.with_lines(
            s.until(ALLOCATED),
            "/bin/sh: 1: :/usr/local/cuda-12.8/bin/nvcc: not found",
            "ninja: build stopped: subcommand failed.",
        )
        + s.died(s.WARMING, "RuntimeError: Ninja build failed. Ninja output:"),
    ),
    ("autotune-unfinished", "kernel-warmup/JIT", s.until("Autotuning process starts")),
    (
        "no-fp4-backend",
        "weight-load",
        s.until("Starting to load")
        + s.died(s.LOADING, "NotImplementedError: No NvFp4 MoE backend supports the deployment configuration."),
    ),
    (
        "no-fp4-backend",
        "weight-load",
        s.until("Starting to load")
        + s.died(
            s.LOADING,
            "ValueError: Current platform does not support NVFP4 quantization. Please use Blackwell "
            "GPUs or enable FlashInfer.",
        ),
    ),
    (
        "sampler-warmup-oom",
        "sampler/logits",
        s.until(CAPTURED)
        + s.died(
            [*s.WARMING, "_dummy_sampler_run"],
            GIB,
            "RuntimeError: CUDA out of memory occurred when warming up sampler with 1024 dummy "
            "requests. Please try lowering",
        ),
    ),
    (
        "sampler-profile-oom",
        "profile-run",
        s.until("torch.compile took")
        + s.died(
            [*s.PROFILING, "_dummy_sampler_run"],
            GIB,
            "RuntimeError: CUDA out of memory occurred when warming up sampler with 1024 dummy "
            "requests. Please try lowering",
        ),
    ),
    ("sampler-run-oom", "sampler/logits", s.until(CAPTURED) + s.died([*s.WARMING, "_dummy_sampler_run"], GIB)),
    (
        "rejection-sampler-oom",
        "sampler/logits",
        s.until(CAPTURED) + s.died([*s.WARMING, "_dummy_run", "rejection_sample"], s.OOM.format(asked="4.12 GiB")),
    ),
    (
        "driver-too-old",
        "device-init/container",
        s.until("non-default")
        + s.died(
            s.DEVICE, "RuntimeError: The NVIDIA driver on your system is too old (found version 12090). Please update"
        ),
    ),
    (
        "compat-shadows-driver",
        "device-init/container",
        s.until("non-default")
        + s.died(
            s.DEVICE,
            "RuntimeError: Unexpected error from cudaGetDeviceCount(). Error 803: system has "
            "unsupported display driver / cuda driver combination",
        ),
    ),
    (
        "compat-not-supported",
        "device-init/container",
        s.until("non-default")
        + s.died(
            s.DEVICE,
            "RuntimeError: Unexpected error from cudaGetDeviceCount(). Error 804: forward "
            "compatibility was attempted on non supported HW",
        ),
    ),
    (
        "container-refused",
        "device-init/container",
        [
            (
                "docker: Error response from daemon: nvidia-container-cli: requirement error: "
                "unsatisfied condition: cuda>=13.0"
            )
        ],
    ),
    (
        "shm-exhausted",
        "device-init/container",
        [
            *s.until("world_size"),
            "node1:77:77 [0] NCCL WARN Error while creating shared memory segment /dev/shm/nccl-a1B2c3 (size 7340384)",
            *s.died(
                s.DEVICE, "RuntimeError: NCCL error: unhandled system error (run with NCCL_DEBUG=INFO for details)"
            ),
        ],
    ),
    (
        "setting-refused",
        "config-validation",
        s.until("non-default")
        + s.traceback(
            ["create_engine_config"],
            "pydantic_core._pydantic_core.ValidationError: 1 validation error for VllmConfig\n  No",
        ),
    ),
    (
        "batched-below-length",
        "config-validation",
        s.until("non-default")
        + s.traceback(
            ["create_engine_config"],
            "pydantic_core._pydantic_core.ValidationError: 1 validation error for SchedulerConfig\n"
            "  Value error, max_num_batched_tokens (2048) is smaller than max_model_len (4096).",
        ),
    ),
    (
        "kernel-image-invalid",
        "kernel-warmup/JIT",
        s.until("Starting to load")
        + s.died(s.PROFILING, "RuntimeError: Triton Error [CUDA]: device kernel image is invalid"),
    ),
    ("chunk-too-big", "bench-client", s.traceback(["async_request", "iter_any"], "ValueError: Chunk too big")),
    (
        "client-timeout",
        "bench-client",
        s.traceback(["send"], "aiohttp.client_exceptions.ServerDisconnectedError: Server disconnected"),
    ),
    (
        "stream-cut-counted",
        "bench-client",
        ["Stream interrupted: ReadTimeout: , expect chunk: 771, but interrupt after 733 chunks"],
    ),
    ("unknown-flag", "config-validation", ["api_server.py: error: unrecognized arguments: --prefix-match-unit 16"]),
]


@pytest.mark.parametrize(("entry", "stage", "lines"), CASES, ids=[case[0] for case in CASES])
def test_a_known_failure_is_named_with_its_stage(entry: str, stage: str, lines: list[str]) -> None:
    found = s.diagnosis(lines)
    assert found.finding is not None, (found.outcome, found.failure, found.quotes)
    assert (found.finding.entry.id, found.stage) == (entry, stage)
    assert found.finding.evidence
    assert found.finding.remedies
    assert all(
        quote.text.strip()[:40] in "\n".join(lines) or "cut off" in quote.text for quote in found.finding.evidence
    )


def test_the_line_numbers_of_the_evidence_are_the_logs() -> None:
    lines = s.until(CAPTURING) + s.died(s.CAPTURING, GIB)
    found = s.diagnosis(lines).finding
    assert found is not None
    assert all(lines[quote.line - 1].endswith(quote.text) for quote in found.evidence)


def test_what_was_asked_for_and_what_was_there_is_said() -> None:
    found = s.diagnosis(s.until(CAPTURING) + s.died(s.CAPTURING, s.OOM.format(asked="136.00 MiB")))
    assert found.allocation == (
        "CUDA graph pool, after the KV cache had taken its share; 136.00 MiB asked for; 120.88 MiB of 79.11 GiB free"
    )


def test_values_of_the_log_are_in_the_fix() -> None:
    lines = s.until(ALLOCATED) + s.died(
        s.ALLOCATING, "ValueError: max_num_seqs (1024) exceeds available Mamba cache blocks (969)."
    )
    found = s.diagnosis(lines).finding
    assert found is not None
    assert ("--max-num-seqs 969",) in [remedy.run for remedy in found.remedies]


@pytest.mark.parametrize(
    ("version", "upgrade"), [("0.25.1", True), ("0.19.2rc1.dev8", True), ("0.26.0", False), ("0.32.0", False)]
)
def test_the_fix_is_that_of_the_release(version: str, *, upgrade: bool) -> None:
    found = s.diagnosis(s.of_version(version, s.until(PROFILED)) + s.died(s.SCRATCH, GIB)).finding
    assert found is not None
    assert any("Upgrade" in remedy.say for remedy in found.remedies) == upgrade


def test_without_a_version_every_fix_is_given() -> None:
    found = s.diagnosis(s.died(s.SCRATCH, GIB)).finding
    assert found is not None
    assert len(found.remedies) == 3


def test_every_entry_that_a_log_can_show_as_a_failure_is_tried_here_or_is_its_fallback() -> None:
    tried = {entry for entry, _, _ in CASES}
    shown = {entry.id for entry in knowledge().entries if entry.kind == "failure"}
    assert tried <= shown
    assert len(tried) >= 38
