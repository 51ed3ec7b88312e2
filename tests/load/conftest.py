from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.truth.process import running

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.truth.process import TruthServer


@pytest.fixture(scope="session")
def truth() -> Iterator[TruthServer]:
    """A reference server without a script of its own: each request brings what shall be done with it."""
    with running() as server:
        yield server
