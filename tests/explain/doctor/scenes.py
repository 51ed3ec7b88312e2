"""Logs for the tests: real starts, cut where a failure shall be, and the failure as vLLM prints it.

The starts are the excerpts of `tests/engine/data` (one H200 and two CPU cores, vLLM 0.26.0). A failure is printed three
times, as vLLM does: by the process that failed at level ERROR, by Python's multiprocessing, and as an echo by the API
server.
"""

from __future__ import annotations

from pathlib import Path

from bench.explain.doctor.diagnose import Diagnosis
from bench.explain.doctor.examine import Examined, examine_pieces
from bench.explain.doctor.knowledge import knowledge
from tests.engine.excerpts import DATA as EXCERPTS

STARTS = EXCERPTS
DATA = Path(__file__).with_name("data")
CLOCK = "11-29 22:49:30"
ECHO = "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}"
DIRECT = "The above exception was the direct cause of the following exception:"

OUTER = ["run_engine_core", "__init__", "_init_executor"]
DEVICE = [*OUTER, "init_device"]
LOADING = [*OUTER, "load_model"]
PROFILING = ["run_engine_core", "__init__", "_initialize_kv_caches", "determine_available_memory", "profile_run"]
TRIAL = ["run_engine_core", "_initialize_kv_caches", "determine_available_memory", "profile_cudagraph_memory"]
SCRATCH = [*TRIAL, "_init_minimal_kv_cache_for_profiling", "initialize_kv_cache", "_allocate_kv_cache_tensors"]
BUDGET = ["run_engine_core", "_initialize_kv_caches", "get_kv_cache_configs", "_check_enough_kv_cache_memory"]
ALLOCATING = ["run_engine_core", "_initialize_kv_caches", "initialize_from_config", "initialize_kv_cache"]
WARMING = ["run_engine_core", "_initialize_kv_caches", "initialize_from_config", "compile_or_warm_up_model"]
CAPTURING = [*WARMING, "capture_model", "_capture_cudagraphs", "_dummy_run"]
SERVING = ["run_engine_core", "run_busy_loop", "_process_engine_step", "step_with_batch_queue", "execute_model"]

OOM = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {asked}. GPU 0 has a total capacity of 79.11 GiB of "
    "which 120.88 MiB is free. Including non-PyTorch memory, this process has 78.98 GiB memory in use."
)


def start(name: str = "h200-healthy") -> list[str]:
    """The lines of a real start."""
    return (STARTS / f"{name}.log").read_text().splitlines()


def until(marker: str, name: str = "h200-healthy") -> list[str]:
    """A real start up to the first line that holds `marker`."""
    lines = start(name)
    last = next(number for number, line in enumerate(lines) if marker in line)
    return lines[: last + 1]


def of_version(version: str, lines: list[str]) -> list[str]:
    """The same start as another release would have named itself."""
    return [line.replace("0.26.0", version) for line in lines]


def with_lines(lines: list[str], *more: str, process: str = "EngineCore pid=4264") -> list[str]:
    """A start with a few more lines of the engine at its end; one that names its level is taken as it is."""
    return lines + [f"({process}) {line}" for line in more]


def info(source: str, message: str, level: str = "INFO") -> str:
    """A line as vLLM writes it, without its process."""
    return f"{level} {CLOCK} [{source}] {message}"


def traceback(functions: list[str], raised: str) -> list[str]:
    """A traceback as Python prints it."""
    frames = [
        text
        for number, function in enumerate(functions)
        for text in (f'  File "/site/vllm/v1/worker/gpu_worker.py", line {100 + number}, in {function}', "    call(it)")
    ]
    return ["Traceback (most recent call last):", *frames, *raised.split("\n")]


def died(functions: list[str], *raised: str, process: str = "EngineCore pid=4264") -> list[str]:
    """What is printed when an engine dies of a chain of exceptions, the cause first."""
    chain: list[str] = []
    for number, exception in enumerate(raised):
        chain += ([DIRECT] if number else []) + traceback(functions, exception)
    said = [f"({process}) ERROR {CLOCK} [core.py:1330] {line}" for line in ["EngineCore failed to start.", *chain]]
    again = [f"({process}) {line}" for line in ["Process EngineCore:", *chain]]
    echo = [f"(APIServer pid=4137) {line}" for line in traceback(["run_server", "wait_for_engine_startup"], ECHO)]
    return [*said, *again, *echo]


def crashed(functions: list[str], *raised: str) -> list[str]:
    """What is printed when an engine dies while it serves."""
    dead = "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. See stack trace (above)."
    return [
        line.replace("EngineCore failed to start.", "EngineCore encountered a fatal error.").replace(ECHO, dead)
        for line in died(functions, *raised)
    ]


def read(lines: list[str] | bytes) -> Examined:
    """Examines a log given as lines or bytes."""
    data = lines if isinstance(lines, bytes) else ("\n".join(lines) + "\n").encode()
    return examine_pieces(Path("engine.log"), [data], knowledge())


def diagnosis(lines: list[str] | bytes) -> Diagnosis:
    """The diagnosis of the log's last start."""
    return read(lines).diagnoses[-1]


def named(lines: list[str] | bytes) -> str | None:
    """The entry that explains the log's last start."""
    finding = diagnosis(lines).finding
    return None if finding is None else finding.entry.id


def downgrades(lines: list[str] | bytes) -> set[str]:
    """The silent downgrades of the log's last start."""
    return {finding.entry.id for finding in diagnosis(lines).downgrades}
