"""Runs of the real engine that several tests look at."""

import pytest

from tests.run.real_run import SHORT, RealRun, outcome, repro


@pytest.fixture(scope="session")
def cpu_run(tmp_path_factory: pytest.TempPathFactory) -> RealRun:
    """Target cpu, in short: half a minute of engine start, so it is run once."""
    base = tmp_path_factory.mktemp("cpu")
    return outcome(repro("cpu", base, SHORT), base, "cpu")
