"""Which signals a process has blocked."""

from __future__ import annotations

import signal
from pathlib import Path


def blocks_ctrl_c(pid: int) -> bool:
    """Whether SIGINT never reaches a process of this host (proc(5), SigBlk)."""
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    mask = int(status.partition("SigBlk:")[2].split(maxsplit=1)[0], 16)
    return bool(mask >> (signal.SIGINT - 1) & 1)
