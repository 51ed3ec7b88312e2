from pathlib import Path

import pytest

from tests.report.million import MILLION, MOST_BYTES, measure

pytestmark = pytest.mark.thorough


def test_a_million_requests_are_verified_within_a_gigabyte(tmp_path: Path) -> None:
    """How long that takes is told by `just bench-verify`: a machine that is busy proves nothing about it."""
    took = measure(MILLION, tmp_path)
    assert took.samples == MILLION
    assert took.report_bytes > 200_000_000
    assert took.peak_bytes < MOST_BYTES
