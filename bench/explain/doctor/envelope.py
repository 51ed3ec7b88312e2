"""Takes off what a line's carrier put in front: compose, kubectl, containerd, journald, srun, CI."""

from __future__ import annotations

import json
import re
from typing import Final

_TIME: Final = r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?"

_LAYERS: Final = (
    # docker compose logs: "engine-1  | text"
    re.compile(r"(?P<node>[A-Za-z0-9][\w.-]{0,127}) {1,40}\| ?"),
    # kubectl logs --prefix: "[pod/name/container] text"
    re.compile(r"\[(?P<node>pod/[^\]\s]{1,300})\] ?"),
    # containerd's own files: "2026-11-30T03:37:22.123456789Z stderr F text"
    re.compile(rf"{_TIME} (?:stdout|stderr) [FP] ?"),
    # kubectl logs --timestamps, docker logs -t, GitHub Actions, Buildkite ("[2026-11-30T03:37:22Z] ")
    re.compile(rf"\[?{_TIME}\]? (?!- |\[)"),
    # a supervisor that writes its own level and source: "[Info] (Process) (APIServer pid=1) ..."
    re.compile(r"\[(?:[Ii]nfo|[Dd]ebug|[Ww]arn(?:ing)?|[Ee]rror)\] \(Process\) "),
    # journald and syslog: "Nov 30 03:37:22 host vllm[123]: text"
    re.compile(r"[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d (?P<node>[\w.-]{1,253}) [\w./@-]{1,200}(?:\[\d{1,10}\])?: ?"),
    # docker compose with an empty name, Buildkite, Python's own exception groups: "  | text"
    re.compile(r" {0,8}\| "),
    # srun --label: "0: text"
    re.compile(r"(?P<node>\d{1,5}): (?=\(|INFO |WARNING |ERROR |Traceback |  )"),
)
"""Tried one after the other until none fits: a pod's line may carry two of them. All are bounded and begin the line."""

_DEEPEST: Final = 4
"""Layers taken off at most."""

_RANK: Final = re.compile(r"\[(?P<node>rank\d{1,6})\]: ?(?!\[)")
"""torchrun and PyTorch's hook for uncaught exceptions: "[rank0]: Traceback ..."."""


_PROCESS: Final = re.compile(r"\([A-Za-z][\w-]{0,60}(?: rank=\d{1,5})?,? pid=\d{1,10}(?:, ip=[^()\s]{1,45})?\) ?")
_LEVEL: Final = re.compile(r"(?:DEBUG|INFO|WARNING|ERROR|CRITICAL) \d\d-\d\d \d\d:\d\d:\d\d ")
_LONGEST: Final = 240
"""Characters in which the engine's own prefix is searched for, whatever stands before it."""


def open_envelope(text: str) -> tuple[str, str]:
    """A line without what its carrier put in front, and where it came from.

    Args:
        text: one line without terminal control.

    Returns:
        The container, pod, host or rank (empty where the line does not say), and the rest of the line.
    """
    if text.startswith('{"'):
        text = _json_record(text)
    node = ""
    for _ in range(0 if text.startswith("(") else _DEEPEST):
        for layer in _LAYERS:
            if found := layer.match(text):
                node = found.groupdict().get("node") or node
                text = text[found.end() :]
                break
        else:
            break
    if found := _RANK.match(text):
        node = f"{node} {found['node']}".strip()
        text = text[found.end() :]
    return node, text[_engine_prefix(text) :]


def _engine_prefix(text: str) -> int:
    """Where the engine's own prefix begins: of several processes in a row the last one, which is the one that wrote.

    A launcher may print "[job] (APIServer pid=1) (EngineCore pid=68) ERROR ...". A process that a message names is no
    prefix.
    """
    head = text[:_LONGEST]
    level = _LEVEL.search(head)
    begin = end = -1
    for found in _PROCESS.finditer(head):
        if (level and found.start() > level.start()) or (end >= 0 and found.start() != end):
            break
        begin, end = found.span()
    if begin >= 0:
        return begin
    return level.start() if level else 0


def _json_record(text: str) -> str:
    """Docker's json-file driver and common JSON loggers: the message in the record, or the text as it is."""
    try:
        record = json.loads(text)
    except (ValueError, RecursionError):
        return text
    for key in ("log", "message", "msg"):
        if isinstance(record, dict) and isinstance(record.get(key), str):
            # The decoded message can hold what the encoded one could not: control characters, line ends.
            return "".join(character for character in str(record[key]) if character >= " ").rstrip()
    return text
