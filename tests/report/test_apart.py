"""Each piece of work here is a function of Python's own that does what a hostile report might make ours do."""

import os
import resource
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from bench.errors import UsageError
from bench.report import apart as apart_module
from bench.report.apart import ANSWER_LIMIT, Apart, Bounds, EndedError
from bench.report.folder_evidence import EvidenceError, parse_environment
from bench.report.folder_files import canonical_json
from bench.report.intake.place import parse_sha256
from bench.report.keys import OWN, TrustedKey, own_signer
from bench.report.trust.validity import Validity

BOUNDS = Bounds(memory_bytes=128 << 20, cpu_s=1)


@pytest.fixture
def apart() -> Iterator[Apart]:
    made = Apart("bench.serve.site", "pytest")
    yield made
    made.close()


def test_work_is_done_elsewhere_and_its_result_is_here(apart: Apart) -> None:
    assert apart.run(BOUNDS, canonical_json, {"a": 1}) == b'{\n  "a": 1\n}\n'
    assert apart.run(BOUNDS, os.getpid) != os.getpid()


def test_ctrl_c_never_reaches_it_not_even_while_it_begins(apart: Apart) -> None:
    """Python prints a traceback of a process that Ctrl-C meets before our code is reached."""
    assert signal.SIGINT in apart.run(BOUNDS, signal.pthread_sigmask, signal.SIG_BLOCK, ())
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())  # here it does


def test_whom_one_trusts_is_known_there_too(apart: Apart, tmp_path: Path) -> None:
    signer = own_signer(tmp_path)
    trusted = {
        signer.key_id: TrustedKey(
            signer.key_id, signer.public, OWN, Validity(not_after=datetime(2027, 1, 1, tzinfo=UTC))
        )
    }
    assert apart.run(BOUNDS, dict, trusted) == trusted


def test_an_error_of_ours_comes_as_it_is_and_any_other_by_its_name(apart: Apart) -> None:
    with pytest.raises(UsageError, match="is no SHA-256") as known:
        apart.run(BOUNDS, parse_sha256, "abc")
    assert "64 hexadecimal digits" in known.value.remedy
    with pytest.raises(EvidenceError) as own:  # its constructor wants a file and a reason
        apart.run(BOUNDS, parse_environment, b"[")
    assert (own.value.file, str(own.value)) == ("environment.json", f"{own.value.message}\n  {own.value.remedy}")
    with pytest.raises(EndedError, match="ZeroDivisionError while it was looked at"):
        apart.run(BOUNDS, divmod, 1, 0)


@pytest.mark.parametrize(
    ("work", "argument", "why"),
    [
        (sum, range(10**15), "it takes more than 1 s of CPU time"),  # it does not return to Python
        (bytes, 1 << 30, "it takes more than 128 MiB of memory"),
        (bytes, ANSWER_LIMIT, "more came of it than 64 MiB"),
        (os._exit, 3, "whatever looks at it ends by exit code 3"),
    ],
)
def test_what_takes_too_much_is_ended_and_that_is_said(
    apart: Apart, work: Callable[[Any], Any], argument: object, why: str
) -> None:
    with pytest.raises(EndedError, match=f"^{why}"):
        apart.run(BOUNDS, work, argument)
    assert apart.run(BOUNDS, len, "abc") == 3
    assert apart._running == set()


def test_what_waits_for_ever_is_ended_too(apart: Apart, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apart_module, "SLOWEST", 0.01)
    with pytest.raises(EndedError, match=r"it takes more than 0\.01 s"):
        apart.run(BOUNDS, time.sleep, 10_000)
    assert apart._running == set()


def test_an_abort_is_told_and_prints_nothing(apart: Apart, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(EndedError, match="ends by SIGABRT: most often it wants more than 128 MiB of memory"):
        apart.run(BOUNDS, os.abort)
    apart.run(BOUNDS, print, "\x1b[2J")
    with pytest.raises(EndedError, match="exit code 1"):
        apart.run(BOUNDS, sys.exit, "\x1b[2J")
    assert capfd.readouterr() == ("", "")


def test_whoever_asks_has_no_limit_meanwhile(apart: Apart) -> None:
    limit = resource.getrlimit(resource.RLIMIT_DATA)
    assert apart.run(BOUNDS, resource.getrlimit, resource.RLIMIT_DATA) != limit
    assert resource.getrlimit(resource.RLIMIT_DATA) == limit


def test_to_close_it_ends_what_runs_and_begins_nothing(apart: Apart) -> None:
    ended: list[str] = []

    def ask() -> None:
        with pytest.raises(EndedError) as caught:
            apart.run(BOUNDS, time.sleep, 10_000)
        ended.append(caught.value.message)

    thread = threading.Thread(target=ask)
    thread.start()
    while not apart._running:
        pass
    apart.close()
    thread.join()
    assert "ends by SIGKILL" in ended[0]
    with pytest.raises(EndedError, match="this program ends"):
        apart.run(BOUNDS, os.getpid)
