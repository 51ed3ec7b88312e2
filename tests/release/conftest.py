"""Signed reports that the tests of releases publish, and a GitHub to publish them on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import bench.stats.blocks as blocks_module
from bench.observe.observations import Finished
from bench.release.bring import Here
from bench.report.keys import TrustedKey
from tests.explain.compare.sides import recipe_of, report
from tests.release.github_server import TOKEN, GitHub, running
from tests.report.factories import healthy_observations, healthy_records, make_claim, make_started
from tests.report.folders import Signed, signed


@dataclass(frozen=True)
class Reports:
    """Attributes:
    now: valid; of its claims one holds, one does not, one is about another card.
    former: of the same recipe, a fifth slower.
    other: of another target; shorter.
    partial, invalid: what they say.
    """

    now: Signed
    former: Signed
    other: Signed
    partial: Signed
    invalid: Signed

    @property
    def trusted(self) -> dict[str, TrustedKey]:
        each = (self.now, self.former, self.other, self.partial, self.invalid)
        return {key: value for signed in each for key, value in signed.trusted.items()}


@pytest.fixture(scope="session")
def reports(tmp_path_factory: pytest.TempPathFactory) -> Reports:
    base = tmp_path_factory.mktemp("published")
    claims = [
        make_claim(id="twenty", value_s=0.6),
        make_claim(id="forty", point={"streams": 40}, value_s=0.2),
        make_claim(id="elsewhere", hardware="B200", value_s=0.1),
    ]
    recipe = recipe_of(claims=claims)
    records = healthy_records([0.5] * 200)
    preempted = [make_started(), *healthy_observations(records, preemptions=3.0), Finished(t=1000.0, run=0)]
    return Reports(
        now=report(base / "now", seed=1, recipe=recipe),
        former=report(base / "former", seed=2, factor=1.2, recipe=recipe),
        other=report(base / "other", seed=3, runs=1, recipe=recipe_of(runs=1, target="other-h200", title="Another")),
        partial=report(base / "partial", seed=4, runs=1, finished=False, recipe=recipe_of(runs=1, title="Cut off")),
        invalid=signed(base / "invalid", records, preempted, recipe=recipe_of(runs=1, title="Preempted")),
    )


@pytest.fixture(autouse=True)
def _few_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks_module, "REPLICATES", 200)


@pytest.fixture
def github(monkeypatch: pytest.MonkeyPatch) -> Iterator[GitHub]:
    monkeypatch.setenv("GITHUB_TOKEN", TOKEN)
    for name in ("GITHUB_REPOSITORY", "GITHUB_API_URL"):
        monkeypatch.delenv(name, raising=False)
    with running(GitHub()) as server:
        yield server


def here(report: Signed) -> Here:
    return Here(str(report.path), Path(report.path))
