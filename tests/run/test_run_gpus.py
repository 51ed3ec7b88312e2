"""A run watches the cards that its engine uses, and no others of the host."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from bench import measure
from bench.load.clock import RunClock
from bench.servers import Server


class OpenedError(Exception):
    """What was asked for is known; nothing more is needed."""


@pytest.mark.parametrize("gpus", [frozenset({"GPU-b"}), frozenset(), None])
def test_the_cards_of_the_run_are_watched(gpus: frozenset[str] | None, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []

    def open_gpus(only: object) -> None:
        asked.append(only)
        raise OpenedError

    monkeypatch.setattr(measure, "Gpus", open_gpus)
    nothing: Any = None
    run = measure.Run(
        plan=nothing,
        run=0,
        engine=cast("Any", SimpleNamespace(servers=(Server("http://127.0.0.1:1"),))),
        clock=RunClock.start(),
        recorder=nothing,
        display=nothing,
        course=nothing,
        make_probe=nothing,
        gpus=gpus,
    )
    with pytest.raises(OpenedError):
        asyncio.run(measure.measure(run))
    assert asked == [gpus]
