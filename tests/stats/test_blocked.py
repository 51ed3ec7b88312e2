"""Randomized complete blocks: a published example, and what blocks are for."""

from __future__ import annotations

import numpy as np
import pytest

from bench.stats.blocked import Blocked

VASCULAR_GRAFTS = np.array(
    # Montgomery, "Design and Analysis of Experiments", example 4.1: pressure (rows) by batch of resin (columns).
    [
        [90.3, 89.2, 98.2, 93.9, 87.4, 97.9],
        [92.5, 89.5, 90.6, 94.7, 87.0, 95.8],
        [85.5, 90.8, 89.6, 86.2, 88.0, 93.4],
        [82.5, 89.5, 85.6, 87.4, 78.9, 90.7],
    ]
)


def test_the_published_analysis_of_variance() -> None:
    found = Blocked(VASCULAR_GRAFTS)
    assert found.degrees == 15
    assert found.variance == pytest.approx(7.33, abs=0.005)
    contrast = found.contrast({0: 1.0, 3: -1.0}, 0.95)
    assert contrast.value == pytest.approx(92.82 - 85.77, abs=0.01)
    assert contrast.high is not None
    # Fisher's least significant difference there: 2.131 * sqrt(2 * 7.33 / 6).
    assert contrast.high - contrast.value == pytest.approx(2.131 * np.sqrt(2 * 7.33 / 6), abs=0.01)


def test_what_falls_on_a_whole_block_changes_no_effect() -> None:
    drift = np.array([0.0, 100.0, -50.0, 7.0, 1e3, 3.0])
    plain, drifted = Blocked(VASCULAR_GRAFTS), Blocked(VASCULAR_GRAFTS + drift)
    assert drifted.contrast({1: 1.0, 2: -1.0}, 0.9).low == pytest.approx(plain.contrast({1: 1.0, 2: -1.0}, 0.9).low)


def test_one_block_tells_no_chance() -> None:
    found = Blocked(VASCULAR_GRAFTS[:, :1])
    contrast = found.contrast({0: 1.0, 1: -1.0}, 0.95)
    assert (found.degrees, contrast.low, contrast.high) == (0, None, None)
    assert contrast.value == pytest.approx(90.3 - 92.5)
    assert found.variance == 0.0
