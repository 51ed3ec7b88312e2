"""Lists compiled code that is newer than a moment, by the times of the files that hold it.

Needs nothing but Python's own library: the same lines run in this process and, handed over as text, in the Python of an
engine's container (`bench.engine.docker_compiled`).

Which files are no compiled code, as read in the sources that `bench.engine.caches` names:

- empty ones, and all in a folder called `locks`: torch opens its locks anew, and so gives them a new time, whenever it
  *loads* code;
- `.lock`, `.log`, and ninja's own books (`.ninja_log`, `.ninja_deps`, `build.ninja`): FlashInfer opens its log when it
  is imported, and asks ninja before it loads what is there;
- `.pyc`: Python's own, of a file that was loaded;
- `index` of the CUDA driver's cache: its table of contents. Code that it adds is a file of its own beside it.

Everything else counts, known or not: a compiler that nobody sees spoils a measurement. Sources count too (DeepGEMM's
`kernel.cu`): they are written when a compilation begins.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from typing import Any, Final

_NO_CODE: Final = (".lock", ".log", ".pyc", ".ninja_log", ".ninja_deps", "build.ninja")
_LOCKS: Final = "locks"
_CONTENTS: Final = ("cuda", "index")
_LETTERS: Final = 200
"""Of a path that is listed. The longest of DeepGEMM's and inductor's are some 120."""


def newer(
    folders: Mapping[str, str], *, since: float, first: float, most: int, within_s: float
) -> tuple[int, list[tuple[float, str, str]]]:
    """Counts and lists the files of compiled code that were last written at or after a moment.

    Args:
        folders: to look into, by the name of what keeps its code there. One that is absent holds nothing.
        since: the moment, Unix time in seconds.
        first: files from this moment on are listed before older ones when not all can be.
        most: files that are listed.
        within_s: the walk gives up after so many seconds.

    Returns:
        How many there are, and (time, name of the folder, path below it) of at most `most`, by time. Where there are
        more, those left out were written before `first` or later than all that are listed from `first` on. Paths are
        cut to 200 letters, and what is no printable ASCII in them is "?".

    Raises:
        OSError: a folder cannot be read.
        TimeoutError: it takes too long; an OSError, too.
    """
    until = time.monotonic() + within_s
    found = [
        (written, name, path)
        for name, folder in folders.items()
        for written, path in _written(folder, until)
        if written >= since and (name, path) != _CONTENTS
    ]
    listed = sorted(sorted(found, key=lambda one: (one[0] < first, one))[:most])
    return len(found), [(written, name, plain(path[:_LETTERS])) for written, name, path in listed]


def _written(folder: str, until: float) -> Iterator[tuple[float, str]]:
    """When each file of code below a folder was last written, and its path from there."""
    unseen = [""]
    while unseen:
        if time.monotonic() > until:
            raise TimeoutError("there is more in the caches than can be looked at in time")
        below = unseen.pop()
        try:
            entries = list(os.scandir(f"{folder}/{below}"))
        except FileNotFoundError:  # never made, or gone meanwhile: compilers make and remove folders of their own
            continue
        for entry in entries:
            path = f"{below}{entry.name}"
            if entry.is_dir(follow_symlinks=False):
                if entry.name != _LOCKS:
                    unseen.append(f"{path}/")
            elif entry.is_file(follow_symlinks=False) and not entry.name.endswith(_NO_CODE):
                try:
                    facts = entry.stat(follow_symlinks=False)
                except FileNotFoundError:
                    continue
                if facts.st_size:
                    yield facts.st_mtime, path


def plain(text: str) -> str:
    """The text with "?" for whatever is no printable ASCII: a file's name may hold anything."""
    return "".join(letter if " " <= letter <= "~" else "?" for letter in text)


def main(arguments: list[str]) -> None:
    """Answers on standard output: {"count": how many, "files": [[time, name, path], ...]} or {"why_not": "..."}.

    Args:
        arguments: those of `newer`, as one object of JSON.
    """
    question: dict[str, Any] = json.loads(arguments[0])
    signal.alarm(int(question["within_s"]) + 2)  # should a disk hang, nothing of this stays behind
    try:
        count, files = newer(**question)
    except OSError as error:
        print(json.dumps({"why_not": plain(str(error))[:_LETTERS]}))  # noqa: T201  its answer
    else:
        print(json.dumps({"count": count, "files": files}))  # noqa: T201  as above


if __name__ == "__main__":
    main(sys.argv[1:])
