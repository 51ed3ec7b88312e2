"""Bytecode that is the same in every build, and that is used whatever the times of the files are.

An engine without bytecode takes 11 s to import instead of 4, on every start of a read-only container. Bytecode that
carries its source's time is of no use once all times are set to one; so it is made unchecked (PEP 552). What Python
writes depends on what the same process compiled before (which constants it shares), so the files are divided
into fixed parts, each compiled by one process in a fixed order, however many processors there are.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Final, cast

from bench.images.inside.refusal import BuildRefusedError

_PARTS: Final = 4

_COMPILE: Final = """
import py_compile, sys
mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
for path in filter(None, sys.stdin.read().split("\\0")):
    try:
        py_compile.compile(path, doraise=True, invalidation_mode=mode)
    except py_compile.PyCompileError:  # a template, or for another Python: it cannot be imported anyhow
        pass
"""


def compile_all(python: Path, folders: Sequence[Path]) -> None:
    """Compile every module below some folders, beside its source.

    Args:
        python: the interpreter that it is for.
        folders: to look through.

    Raises:
        BuildRefusedError: the interpreter failed.
    """
    files = sorted(str(path) for folder in folders for path in folder.rglob("*.py") if path.is_file())
    environment = {**os.environ, "PYTHONHASHSEED": "0"}  # the order of a frozenset of strings
    running = []
    for part in range(_PARTS):
        process = subprocess.Popen(  # noqa: S603  the image's own interpreter
            [str(python), "-sS", "-c", _COMPILE], stdin=subprocess.PIPE, env=environment, text=True
        )
        with contextlib.suppress(BrokenPipeError), cast("IO[str]", process.stdin) as its_input:  # its status says why
            its_input.write("\0".join(files[part::_PARTS]))
        running.append(process)
    for process in running:
        process.wait()
    if failed := [process.returncode for process in running if process.returncode]:
        raise BuildRefusedError(f"compiling to bytecode ended with status {failed[0]}")
