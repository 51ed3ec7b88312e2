"""What a run that loses its engine says of the cause."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pytest

from bench.engine.compiled import FoldersHere
from bench.engine.own import Begun, RunningOwn, Start
from bench.errors import StreamproofError
from bench.explain.doctor.hook import diagnosis_of, known_cause
from tests.explain.doctor import scenes as s

HELD = s.STARTS / "h200-gpu-held.log"
OUT_OF_MEMORY = s.OOM.format(asked="1.00 GiB")


class Gone:
    """A body that ended at once."""

    def ended(self) -> str | None:
        return "it ended with status 1"

    def stop(self) -> None:
        pass


GONE = Begun(
    body=Gone(),
    base_url="http://127.0.0.1:9",  # nobody's
    compiled=FoldersHere(None),
    kind="process",
    argv=("vllm",),
    packages_sha256=None,
    cold=None,
)


def test_a_run_whose_engine_died_names_the_diagnosis_and_the_fix(tmp_path: Path) -> None:
    log = tmp_path / "engine-0.log"

    def begin() -> Begun:
        shutil.copy(HELD, log)
        return GONE

    start = Start(model="m", log=log, ready_timeout_s=60.0, run=0, clock=time.monotonic)
    running = RunningOwn(start, begin)
    with pytest.raises(StreamproofError) as caught:
        running.wait_until_ready(lambda _: None)
    running.stop()
    assert "Diagnosis: Another process holds the GPU's memory, stage device-init." in caught.value.remedy
    assert "nvidia-smi" in caught.value.remedy
    assert f"just doctor {log}" in caught.value.remedy
    assert caught.value.remedy.endswith(f"Its whole log is in {log}.")


def test_an_unknown_cause_is_said_to_be_unknown() -> None:
    assert diagnosis_of(s.STARTS / "cpu-died.log").startswith("No known cause fits (just doctor ")


def test_a_log_that_says_nothing_hides_no_error(tmp_path: Path) -> None:
    (tmp_path / "empty.log").touch()
    assert diagnosis_of(tmp_path / "empty.log") == ""
    assert diagnosis_of(tmp_path / "missing.log") == ""


def test_a_death_while_serving_is_recorded_with_its_cause(tmp_path: Path) -> None:
    log = tmp_path / "engine-0.log"
    log.write_text("\n".join(s.until("Application startup complete") + s.crashed(s.SERVING, OUT_OF_MEMORY)))
    assert known_cause(log) == " [Memory ran out while serving; runtime-crash]"
    assert known_cause(s.STARTS / "cpu-died.log") == ""


def test_the_record_of_a_death_while_serving_carries_it(tmp_path: Path) -> None:
    log = tmp_path / "engine-0.log"

    def begin() -> Begun:
        log.write_text("\n".join(s.until("Application startup complete") + s.crashed(s.SERVING, OUT_OF_MEMORY)))
        return GONE

    start = Start(model="m", log=log, ready_timeout_s=60.0, run=0, clock=time.monotonic)
    running = RunningOwn(start, begin)
    running._ready = True
    (died,) = [event for event in running.events() if event.event == "died"]
    running.stop()
    assert died.line.startswith("it ended with status 1: torch.OutOfMemoryError")
    assert died.line.endswith("[Memory ran out while serving; runtime-crash]")
