"""Several processes, ranks and nodes in one log: which failure is the cause."""

from __future__ import annotations

from itertools import zip_longest

import pytest

from bench.explain.doctor.examine import Verdict
from tests.explain.doctor import scenes as s

OOM = s.OOM.format(asked="2.10 GiB")
LOST = (
    "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:2356, remote process exited or there was "
    "a network error, NCCL version 2.28.9"
)
DURING = "During handling of the above exception, another exception occurred:"


def rank(number: int, functions: list[str], raised: str) -> list[str]:
    """A failing worker, as the executor of several prints it."""
    block = ["WorkerProc hit an exception.", *s.traceback(functions, raised)]
    prefix = f"(Worker_TP{number} pid={500 + number}) ERROR {s.CLOCK} [multiproc_executor.py:1007]"
    return [f"{prefix} {line}" for line in block]


def loading(ranks: int) -> list[str]:
    """Several ranks that load weights."""
    return s.until("world_size") + [
        f"(Worker_TP{number} pid={500 + number}) {s.info('gpu_model_runner.py:5250', 'Starting to load model /m...')}"
        for number in range(ranks)
    ]


def interleaved(*logs: list[str]) -> list[str]:
    return [line for row in zip_longest(*logs) for line in row if line is not None]


def test_ranks_that_lose_the_one_that_failed_are_not_the_cause() -> None:
    lines = loading(2) + rank(1, [*s.LOADING, "all_reduce"], LOST) + rank(0, s.LOADING, OOM)
    found = s.diagnosis(lines)
    assert found.failure is not None
    assert (s.named(lines), found.failure.failure.process) == ("weight-load-oom", "Worker_TP0")


def test_tracebacks_of_ranks_that_write_in_turn_are_taken_apart() -> None:
    blocks = [rank(number, s.CAPTURING, s.OOM.format(asked=f"{number + 1}.00 GiB")) for number in range(4)]
    found = s.diagnosis(s.until("Capturing CUDA graphs") + interleaved(*blocks))
    assert found.finding is not None
    assert found.finding.entry.id == "graph-capture-oom"
    assert found.allocation is not None
    assert "1.00 GiB asked for" in found.allocation


def test_nodes_of_a_deployment_in_one_log() -> None:
    head = [f"node0-1  | {line}" for line in s.until("world_size") + rank(0, s.LOADING, LOST)]
    worker = [f"node1-1  | {line}" for line in loading(1) + rank(8, s.LOADING, OOM)]
    log = s.read(interleaved(head, worker))
    assert log.starts == 1
    assert log.diagnoses[0].finding is not None
    assert log.diagnoses[0].finding.entry.id == "weight-load-oom"
    assert log.diagnoses[0].failure is not None
    assert log.diagnoses[0].failure.failure.node == "node1-1"


def test_the_worker_is_the_cause_and_not_what_the_engine_core_says_of_it() -> None:
    core = "RuntimeError: Worker failed with error 'CUDA out of memory', please check the stack trace above"
    lines = s.until("Application startup complete") + rank(0, ["worker_busy_loop", "execute_model"], OOM)
    lines += s.crashed(s.SERVING, core)
    found = s.diagnosis(lines)
    assert found.failure is not None
    assert (found.failure.failure.process, s.named(lines)) == ("Worker_TP0", "prefill-oom")


def test_what_the_engine_core_says_counts_where_the_worker_is_missing() -> None:
    core = "RuntimeError: Worker failed with error 'CUDA error: out of memory', please check the stack trace above"
    assert s.named(s.until("Capturing CUDA graphs") + s.died(s.CAPTURING, core)) == "graph-capture-oom"


def test_only_echoes_are_said_to_be_echoes() -> None:
    lines = s.until("world_size") + [f"(APIServer pid=4137) {line}" for line in s.traceback(["run_server"], s.ECHO)]
    found = s.diagnosis(lines)
    assert (found.outcome, found.finding, found.reached) == ("unexplained", None, "device-init")
    assert s.read(lines).verdict is Verdict.UNKNOWN


def test_a_lost_rank_alone_sends_to_the_other_logs() -> None:
    lines = s.until("Application startup complete") + rank(1, ["worker_busy_loop", "execute_model"], LOST)
    found = s.diagnosis(lines).finding
    assert found is not None
    assert found.entry.id == "rank-lost"
    assert "logs of all ranks" in found.remedies[0].say


def test_the_first_exception_of_a_chain_is_the_cause() -> None:
    block = [*s.traceback(s.SCRATCH, OOM), DURING, *s.traceback(s.TRIAL, "RuntimeError: profiling failed")]
    lines = [
        f"(EngineCore pid=4264) ERROR {s.CLOCK} [core.py:1330] {line}"
        for line in ["EngineCore failed to start.", *block]
    ]
    found = s.diagnosis(s.until("Initial profiling/warmup") + lines)
    assert found.failure is not None
    assert [raised.text.split(":")[0] for raised in found.failure.failure.raised] == [
        "torch.OutOfMemoryError",
        "RuntimeError",
    ]
    assert found.stage == "graph-profiling-scratch-KV"


@pytest.mark.parametrize("kept", range(4, 14))
def test_a_traceback_that_is_cut_off_is_placed_by_its_functions(kept: int) -> None:
    before = s.of_version("0.25.1", s.until("Initial profiling/warmup"))
    dying = s.died(s.SCRATCH, OOM)
    last = next(number for number, line in enumerate(dying) if "_init_minimal" in line)
    found = s.diagnosis(before + dying[: last + kept - 3])
    assert found.finding is not None
    assert (found.finding.entry.id, found.outcome) == ("graph-scratch-kv", "failed")


@pytest.mark.parametrize("eighth", range(8))
def test_a_log_that_begins_anywhere_before_the_failure_gives_the_same_cause(eighth: int) -> None:
    lines = s.until("Capturing CUDA graphs") + s.died(s.CAPTURING, OOM)
    failing = next(number for number, line in enumerate(lines) if "EngineCore failed" in line)
    assert s.named(lines[failing * eighth // 7 :]) == "graph-capture-oom"


def test_a_crash_and_a_good_start_after_it_are_two_starts() -> None:
    log = s.read([*s.start("h200-gpu-held"), *s.start()])
    assert (log.verdict, log.starts) == (Verdict.FAILED, 2)
    assert [diagnosis.outcome for diagnosis in log.diagnoses] == ["failed", "served"]


@pytest.mark.parametrize(
    "said",
    [
        "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB",
        "torch.OutOfMemoryError: HIP out of memory. Tried to allocate 20.00 MiB",
        "torch.AcceleratorError: CUDA error: out of memory",
        "RuntimeError: CUDA error: out of memory",
        "RuntimeError: NVML_SUCCESS == r INTERNAL ASSERT FAILED: device out of memory",
        "RuntimeError: CUDA driver error: out of memory",
        "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
        "RuntimeError: Triton Error [CUDA]: out of memory",
        "RuntimeError: cudaErrorMemoryAllocation: out of memory",
        "torch.AcceleratorError: CUDA error: cuMemCreate failed, OOM while creating a block",
    ],
)
def test_however_the_allocator_says_it(said: str) -> None:
    assert s.named(s.until("Capturing CUDA graphs") + s.died(s.CAPTURING, said)) == "graph-capture-oom"


@pytest.mark.parametrize(
    ("process", "version"),
    [
        ("EngineCore_DP0 pid=268", "0.11.0"),
        ("EngineCore_0 pid=9", "0.10.1"),
        ("Worker_TP1_EP1 pid=7", "0.13.0"),
        ("VllmWorker rank=3 pid=1090", "0.9.1"),
        ("RayWorkerWrapper pid=1697, ip=192.0.2.79", "0.12.0"),
        ("EngineCore pid=4", "0.33.0"),
    ],
)
def test_names_of_processes_of_other_releases(process: str, version: str) -> None:
    lines = s.of_version(version, s.until("GPU KV cache size")) + s.died(s.ALLOCATING, OOM, process=process)
    found = s.diagnosis(lines)
    assert (s.named(lines), found.version) == ("kv-allocation-oom", version)


def test_lines_without_a_process_of_releases_before_processes_were_named() -> None:
    lines = [line.split(") ", 1)[-1] for line in s.until("torch.compile took") + s.died(s.PROFILING, OOM)]
    assert s.named(lines) == "profile-run-oom"


def test_indentation_that_was_lost_in_copying() -> None:
    lines = [" ".join(line.split()) for line in s.until("torch.compile took") + s.died(s.PROFILING, OOM)]
    assert s.named(lines) == "profile-run-oom"


def test_the_values_are_those_of_the_failure_that_is_explained() -> None:
    said = (
        "ValueError: Free memory on device cuda:{} ({}/79.18 GiB) on startup is less than desired "
        "GPU memory utilization (0.92, 72.84 GiB)."
    )
    lines = loading(2) + rank(0, s.DEVICE, said.format(0, 54.34)) + rank(1, s.DEVICE, said.format(1, 53.76))
    found = s.diagnosis(lines)
    assert found.allocation is not None
    assert found.allocation.startswith("none: 54.34 of 79.18 GiB are free")


def test_somebody_who_interrupts_a_start_is_no_failure_of_it() -> None:
    lines = s.until("world_size") + s.traceback(["run_server", "signal_handler"], "KeyboardInterrupt: terminated")
    found = s.diagnosis(lines)
    assert (found.outcome, found.stopped, found.reached) == ("unfinished", True, "device-init")
    served = s.until("Application startup complete") + s.traceback(["run"], "KeyboardInterrupt: terminated")
    assert s.read(served).verdict is Verdict.HEALTHY


def test_an_offline_run_is_served_when_its_prompts_are() -> None:
    lines = [*s.until("init engine (profile"), "Processed prompts: 100%|███| 4/4 [00:00<00:00,  8.46it/s]"]
    assert s.read(lines).verdict is Verdict.HEALTHY
