"""What a report may say of compiled code, whoever wrote it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import ValidationError

from bench.observe.compiled import FILES_LISTED, CompiledFiles
from bench.observe.observations import OBSERVATION
from bench.report.verify_lines import LINE_LIMIT

FILE = {"t": 1.5, "cache": "deep_gemm", "path": "cache/kernel.a/kernel.cu"}
LOOK = {"kind": "compiled", "t": 2.0, "run": 0, "point": 0, "since": 1.0, "count": 1, "files": [FILE], "why_not": None}


def read(**changes: Any) -> CompiledFiles:
    found = OBSERVATION.validate_json(json.dumps({**LOOK, **changes}))
    assert isinstance(found, CompiledFiles)
    return found


def test_it_is_read_as_it_was_written() -> None:
    for look in (read(), read(replica=1), read(count=0, files=[]), read(count=None, files=[], why_not="no")):
        assert OBSERVATION.validate_json(look.model_dump_json()) == look
    assert json.loads(read().model_dump_json()) == LOOK  # of one engine there is no replica
    assert read(count=5_000, files=[FILE] * FILES_LISTED).left_out == 4_000


def test_the_longest_is_no_longer_than_a_line_of_a_report_may_be() -> None:
    longest = {**FILE, "t": 1_234_567.123456789, "cache": "torch_compile", "path": "\\" * 200}
    assert len(read(count=10**9, files=[longest] * FILES_LISTED).model_dump_json()) < LINE_LIMIT


@pytest.mark.parametrize(
    "changes",
    [
        {"count": 2},  # fewer are listed than could be
        {"count": 0},
        {"count": None},
        {"count": None, "files": []},
        {"why_not": "and yet there is a count"},
        {"count": -1, "files": []},
        {"count": 10**4000, "files": [FILE] * FILES_LISTED},
        {"count": FILES_LISTED + 1, "files": [FILE] * (FILES_LISTED + 1)},
        {"files": [{**FILE, "path": "x" * 201}]},
        {"files": [{**FILE, "path": "a\u202egnp.exe"}]},
        {"files": [{**FILE, "path": "two\nlines"}]},
        {"files": [{**FILE, "cache": "of nobody"}]},
        {"files": [{**FILE, "t": float("inf")}]},
        {"since": float("nan")},
        {"count": None, "files": [], "why_not": ""},
        {"count": None, "files": [], "why_not": "x" * 301},
        {"replica": -1},
        {"more": 1},
    ],
)
def test_what_contradicts_itself_or_is_too_much_is_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        read(**changes)
