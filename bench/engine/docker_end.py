"""How a container ended, in words: its own exit, a signal, or the kernel for want of memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bench.engine.own import describe_exit


def describe_end(state: Mapping[str, Any]) -> str:
    """The end of a container in words.

    Args:
        state: "State" of the container, as Docker inspects it after its end.

    Returns:
        E.g. "it ended with status 1", "it was killed by SIGKILL", "the kernel killed a process of it because memory ran
        out; it was killed by SIGKILL". A kill by the kernel is only told apart where it counted against the container's
        own control group.
    """
    if error := str(state.get("Error") or ""):  # it never ran, or the runtime lost it
        return f"Docker could not run it: {' '.join(error.split())}"
    end = describe_exit(int(state.get("ExitCode") or 0))
    if state.get("OOMKilled"):
        return f"the kernel killed a process of it because memory ran out; {end}"
    return end
