from pathlib import Path

import pytest

from tests.serve.served import Served, make_served


@pytest.fixture(scope="session")
def served(tmp_path_factory: pytest.TempPathFactory) -> Served:
    """Tests that change something change a copy."""
    return make_served(tmp_path_factory.mktemp("serve"))


@pytest.fixture
def own(served: Served, tmp_path: Path) -> Served:
    return served.copy(tmp_path / "served")
