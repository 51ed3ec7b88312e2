"""What the client asks of a worker, and what the worker tells it.

A job is one JSON file, named on the command line. Events are JSON, one a line, on standard output; whatever libraries
print goes to standard error, which the client keeps as the stage's log.
"""

from __future__ import annotations

import json
import os
import resource
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO


@dataclass(frozen=True, kw_only=True)
class Job:
    """A stage's work.

    Attributes:
        source: folder of the checkpoint to quantize.
        out: folder to write into; what is whole in it already is kept.
        preset: which linears become NVFP4, see `quantize.worker.formats`.
        kv_cache: "fp8", "fp8_cast" or "none".
        device: "cpu" or "cuda".
        tokens: safetensors file with the calibration's token ids; only for calibration.
        ranges: folder with what calibration measured; only for export.
        batch_tokens: tokens in one forward pass; only for calibration.
        save_every: layers between two copies of the activations; only for calibration.
    """

    source: Path
    out: Path
    preset: str
    kv_cache: str
    device: str
    tokens: Path | None = None
    ranges: Path | None = None
    batch_tokens: int = 0
    save_every: int = 0


def read_job(path: str) -> Job:
    """The job in a file that the client wrote."""
    raw = json.loads(Path(path).read_text(encoding="utf-8"))
    for key in ("source", "out", "tokens", "ranges"):
        if raw.get(key) is not None:
            raw[key] = Path(raw[key])
    return Job(**raw)


class Teller:
    """Tells the client how far the work is."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._started = time.monotonic()

    def progress(self, done: int, of: int, what: str) -> None:
        """So much is done."""
        self._tell(event="progress", done=done, of=of, what=what)

    def done(self, *, peak_gpu_bytes: int, **facts: Any) -> None:  # noqa: ANN401  whatever JSON can hold
        """All is done. `facts` go into the stage's manifest."""
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024  # Linux counts in KiB
        seconds = round(time.monotonic() - self._started, 3)
        self._tell(event="done", worker_s=seconds, peak_rss_bytes=peak, peak_gpu_bytes=peak_gpu_bytes, facts=facts)

    def _tell(self, **event: Any) -> None:  # noqa: ANN401  as above
        print(json.dumps(event), file=self._out, flush=True)


def begin() -> Teller:
    """Takes standard output for events, and ends this process when the client is no more."""
    events = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    # The client holds the other end of our standard input and never writes: its end, even by kill -9, is ours.
    threading.Thread(target=_end_with_client, daemon=True).start()
    return Teller(events)


def _end_with_client() -> None:
    while os.read(0, 1):  # not sys.stdin: its lock would be held when the interpreter ends
        pass
    os._exit(1)
