"""Run the reference server in its own process, from a test or a script."""

from __future__ import annotations

import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, slots=True)
class TruthServer:
    """A running server.

    Attributes:
        base_url: "http://127.0.0.1:PORT".
        process: its process; `stop` ends it.
    """

    base_url: str
    process: subprocess.Popen[str]

    def get(self, path: str) -> bytes:
        """The body of GET `path`."""
        with urllib.request.urlopen(self.base_url + path, timeout=10) as response:  # noqa: S310  our own http URL
            body: bytes = response.read()
        return body

    def truth(self) -> list[dict[str, Any]]:
        """Every ended generation request (`tests.truth.ledger.Truth`), in order of arrival."""
        entries = [orjson.loads(line) for line in self.get("/truth").splitlines()]
        return sorted(entries, key=lambda entry: int(entry["number"]))

    def counter(self, name: str) -> float:
        """Sum over the labels of one metric, e.g. "vllm:generation_tokens_total"."""
        total = 0.0
        for line in self.get("/metrics").decode().splitlines():
            if line.startswith(name + "{"):
                total += float(line.rpartition(" ")[2])
        return total

    def stop(self) -> int:
        """SIGTERM; the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=10)


def start(script: Path | None = None, *, core: int | None = None) -> TruthServer:
    """Start a server on a free port; returns once it accepts connections."""
    command = [sys.executable, "-m", "tests.truth", "--port", "0"]
    if script is not None:
        command += ["--script", str(script)]
    if core is not None:
        command += ["--core", str(core)]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    first = process.stdout.readline()
    if not first.startswith("listening on "):
        process.kill()
        process.communicate()
        raise RuntimeError(f"the reference server did not start: {first!r}")
    return TruthServer(first.removeprefix("listening on ").strip(), process)


@contextmanager
def running(
    script: dict[str, Any] | None = None, *, folder: Path | None = None, core: int | None = None
) -> Iterator[TruthServer]:
    """A server for the time of a `with` block.

    Args:
        script: see `tests.truth.script.Script`; needs a `folder` to be written to.
        folder: e.g. pytest's tmp_path.
        core: CPU core to run on.
    """
    path = None
    if script is not None:
        if folder is None:
            raise ValueError("a script needs a folder")
        path = folder / "script.json"
        path.write_bytes(orjson.dumps(script))
    server = start(path, core=core)
    try:
        yield server
    finally:
        if server.process.poll() is None:
            server.stop()
        assert server.process.stdout is not None
        server.process.stdout.close()
