"""Healthy starts in twenty forms and more: nothing is found, whatever carried the log."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from bench.engine.pins import REPOSITORY
from bench.explain.doctor.examine import Verdict, examine
from tests.explain.doctor import scenes as s

if TYPE_CHECKING:
    from collections.abc import Callable

MEASURED: Final = REPOSITORY / "evidence/h200/h200-fp8-dummy-20261130/engine-0.log"
"""The engine's log of a published report: 2,118 lines, MTP, FP8 KV cache, load at three operating points."""

STARTS: Final = {
    "h200": s.STARTS / "h200-healthy.log",
    "cpu-short": s.STARTS / "cpu-healthy.log",
    "h200-measured": MEASURED,
    **{path.stem: path for path in sorted(s.DATA.glob("healthy-*.log"))},
}


def lines(text: str) -> list[str]:
    return text.splitlines()


def stamped(text: str) -> str:
    return "\n".join(f"2026-11-30T03:37:22.{number:09d}Z {line}" for number, line in enumerate(lines(text)))


def journal(text: str) -> str:
    return "\n".join(f"Nov 30 03:37:22 gpu-host vllm[4137]: {line}" for line in lines(text))


def containerd(text: str) -> str:
    return "\n".join(f"2026-11-30T03:37:22.123456789Z stderr F {line}" for line in lines(text))


def docker_json(text: str) -> str:
    return "\n".join(json.dumps({"log": line + "\n", "stream": "stderr", "time": "2026"}) for line in lines(text))


def coloured(text: str) -> str:
    return text.replace("(EngineCore pid", "\x1b[0;36m(EngineCore pid").replace(" INFO ", " \x1b[32mINFO\x1b[0m ")


FORMS: Final[dict[str, Callable[[str], str]]] = {
    "compose": lambda text: "\n".join(f"engine-1  | {line}" for line in lines(text)),
    "kubectl timestamps": stamped,
    "kubectl prefix": lambda text: "\n".join(f"[pod/vllm-7d9f/engine] {line}" for line in lines(text)),
    "journald": journal,
    "containerd": containerd,
    "docker json": docker_json,
    "buildkite": lambda text: "\n".join(f"  | [2026-11-30T03:37:22Z] {line}" for line in lines(text)),
    "windows": lambda text: text.replace("\n", "\r\n"),
    "colours": coloured,
    "stderr of srun": lambda text: "\n".join(f"0: {line}" for line in lines(text)),
    "a launcher's tag": lambda text: "\n".join(f"[VLLM LOG] {line}" for line in lines(text)),
    "no beginning": lambda text: text[len(text) // 2 :],
    "no pids": lambda text: text.replace("(EngineCore pid=4264) ", "").replace("(APIServer pid=4137) ", ""),
}


@pytest.mark.parametrize("path", STARTS.values(), ids=list(STARTS))
def test_a_healthy_start_is_healthy(path: Path) -> None:
    log = examine(path)
    assert (log.verdict, log.starts) == (Verdict.HEALTHY, 1)
    assert log.diagnoses[0].version == "0.26.0"


@pytest.mark.parametrize(
    ("target", "named"),
    [
        ("h200-fp8-fast-dummy", {"prefix-mtp-check"}),  # finer matches are on: nothing to say of whole blocks
        ("h200-fp8-no-mtp-dummy", set()),  # its name is all that it has of MTP
        ("h200-fp8-dp2-dummy", {"prefix-mtp-check"}),
    ],
)
def test_what_a_healthy_start_is_told_of_its_prefixes(target: str, named: set[str]) -> None:
    log = examine(REPOSITORY / f"evidence/h200/{target}-20261130/engine-0.log")
    assert log.verdict == Verdict.HEALTHY
    told = {note.entry.id for diagnosis in log.diagnoses for note in diagnosis.notes}
    assert told & {"prefix-whole-blocks", "prefix-mtp-check"} == named


@pytest.mark.parametrize("form", FORMS.values(), ids=list(FORMS))
@pytest.mark.parametrize("name", ["h200", "healthy-cpu-measured"])
def test_it_is_healthy_in_any_wrapping(name: str, form: Callable[[str], str]) -> None:
    log = s.read(form(STARTS[name].read_text()).encode())
    assert log.verdict is Verdict.HEALTHY, [(d.outcome, d.stage, d.failure) for d in log.diagnoses]
    assert log.starts == 1


@pytest.mark.parametrize("form", [form for name, form in FORMS.items() if name != "no beginning"])
def test_a_failure_is_found_in_any_wrapping(form: Callable[[str], str]) -> None:
    text = "\n".join(s.until("Capturing CUDA graphs") + s.died(s.CAPTURING, s.OOM.format(asked="136.00 MiB")))
    found = s.diagnosis(form(text).encode())
    assert found.finding is not None
    assert (found.finding.entry.id, found.stage) == ("graph-capture-oom", "graph-capture")


def test_a_log_that_is_served_before_it_begins_is_healthy() -> None:
    served = [line for line in MEASURED.read_text().splitlines() if "Avg prompt" in line or "POST" in line]
    log = s.read(served)
    assert (log.verdict, log.diagnoses[0].stage) == (Verdict.HEALTHY, "ready")


def test_requests_are_counted_in_the_start_that_answered_them() -> None:
    answer = '(APIServer pid=1) INFO:     127.0.0.1:35552 - "POST /v1/chat/completions HTTP/1.1" 200 OK'
    log = s.read([*s.start(), *[answer] * 5, *s.start(), *[answer] * 7])
    assert [diagnosis.values["served-requests"] for diagnosis in log.diagnoses] == [5, 7]


def test_bad_bytes_and_zero_bytes_do_no_harm() -> None:
    data = STARTS["h200"].read_bytes()
    half = data.index(b"\n", len(data) // 2)
    assert s.read(data[:half] + b"\n" + b"\x00" * 5000 + b"\xff\xfe\xf5" + data[half:]).verdict is Verdict.HEALTHY


@pytest.mark.parametrize("cut", [0, 9])
def test_a_gzip_is_read_even_when_its_end_is_missing(tmp_path: Path, cut: int) -> None:
    packed = gzip.compress(STARTS["h200"].read_bytes())
    path = tmp_path / "engine.log.gz"
    path.write_bytes(packed[: len(packed) - cut])
    assert examine(path).verdict is Verdict.HEALTHY


def test_what_is_said_after_a_request_to_stop_is_no_failure() -> None:
    log = examine(s.DATA / "healthy-cpu-aborted.log")
    assert "EngineDeadError" in (s.DATA / "healthy-cpu-aborted.log").read_text()
    assert (log.verdict, log.diagnoses[0].stopped, log.diagnoses[0].failed_requests) == (Verdict.HEALTHY, True, ())


def test_a_request_that_fails_does_not_make_the_engine_fail() -> None:
    lines = s.until("Application startup complete")
    lines += ["(APIServer pid=4137) ERROR:    Exception in ASGI application"]
    lines += [
        f"(APIServer pid=4137) {line}" for line in s.traceback(["app", "create_chat_completion"], "ValueError: bad")
    ]
    lines += [line for line in s.start() if "Avg prompt throughput" in line]
    found = s.diagnosis(lines)
    assert (found.outcome, len(found.failed_requests)) == ("served", 1)


def test_what_was_warned_of_and_survived_is_no_failure() -> None:
    warned = [s.info("base.py:258", line, "WARNING") for line in s.traceback(["warmup"], "ValueError: no tokenizer")]
    assert s.read(s.with_lines(s.until("Model loading took"), *warned) + s.start()[50:]).verdict is Verdict.HEALTHY


@pytest.mark.parametrize("path", STARTS.values(), ids=list(STARTS))
def test_cut_before_it_was_ready_it_is_unknown_and_says_how_far_it_came(path: Path) -> None:
    lines = path.read_text(errors="replace").splitlines()
    loading = next(number for number, line in enumerate(lines) if "Starting to load model" in line)
    log = s.read(lines[: loading + 1])
    assert (log.verdict, log.diagnoses[0].outcome, log.diagnoses[0].stage) == (
        Verdict.UNKNOWN,
        "unfinished",
        "weight-load",
    )
    assert log.diagnoses[0].quotes
