from __future__ import annotations

from typing import Any

import pytest

from bench.engine.docker_end import describe_end


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ({"ExitCode": 0, "OOMKilled": False, "Error": ""}, "it ended with status 0"),
        ({"ExitCode": 1, "OOMKilled": False, "Error": ""}, "it ended with status 1"),
        ({"ExitCode": 137, "OOMKilled": False, "Error": ""}, "it was killed by SIGKILL"),
        ({"ExitCode": 139, "OOMKilled": False, "Error": ""}, "it was killed by SIGSEGV"),
        (
            {"ExitCode": 137, "OOMKilled": True, "Error": ""},
            "the kernel killed a process of it because memory ran out; it was killed by SIGKILL",
        ),
        (
            {"ExitCode": 1, "OOMKilled": True, "Error": ""},  # its child was killed, and it gave up by itself
            "the kernel killed a process of it because memory ran out; it ended with status 1",
        ),
        ({"ExitCode": 128, "Error": "no such\ndevice"}, "Docker could not run it: no such device"),
        ({}, "it ended with status 0"),
    ],
)
def test_ends_in_words(state: dict[str, Any], words: str) -> None:
    assert describe_end(state) == words
