"""The course of an ablation on engines that stay, without any engine."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from bench.errors import Exit, StreamproofError
from bench.explain.ablate import course
from bench.explain.ablate.course import run_resident
from tests.explain.ablate.test_ablation_effects import plan_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from recipes.schema import Recipe

DONE = "done"


class Engines:
    """Stands for engines: says what is asked of it, fails and dies as told.

    Args:
        fails: configurations whose engines never start.
        dies: configurations whose engines die in their n-th measurement.
        code: that a measurement ends with.
    """

    def __init__(self, *, fails: tuple[str, ...] = (), dies: dict[str, int] | None = None, code: int = Exit.OK) -> None:
        self._fails = fails
        self._dies = dies or {}
        self._code = code
        self.failed: Mapping[str, StreamproofError] = {}
        self.started: list[list[str]] = []
        self.running = 0
        self.measured: list[tuple[str, str]] = []

    @contextmanager
    def begin(self, recipes: Mapping[str, Recipe], _logs: Path) -> Iterator[Engines]:
        self.started.append(list(recipes))
        self.failed = {name: StreamproofError("no memory", remedy="more") for name in recipes if name in self._fails}
        self.running += 1
        try:
            yield self
        finally:
            self.running -= 1

    def death(self, name: str) -> str | None:
        times = sum(measured == name for measured, _ in self.measured)
        return "killed" if times >= self._dies.get(name, 1000) else None

    def measure(self, name: str, recipe: Recipe, folder: Path, nonce: str) -> int:
        assert self.running == 1
        assert recipe.title.endswith(name)
        self.measured.append((name, nonce.partition(" try")[0]))
        if self.death(name) is None and self._code == Exit.OK:
            folder.mkdir(parents=True)
            (folder / DONE).touch()
        return self._code


@pytest.fixture(autouse=True)
def marked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(course, "is_done", lambda run: (run / DONE).exists())


def names(engines: Engines) -> list[str]:
    return sorted(name for name, _ in engines.measured)


def test_groups_come_one_after_the_other_with_one_start_each(tmp_path: Path) -> None:
    plan = plan_of("one", "two", "three", only="removed", at_once=3, blocks=2)
    engines = Engines()
    run_resident(tmp_path, plan, engines.begin, lambda _: None)
    assert engines.started == list(plan.groups.values())
    assert [name for name, _ in engines.measured] == [each.configuration for each in plan.order]
    assert {nonce for _, nonce in engines.measured} == {"ablation 1 block 1", "ablation 1 block 2"}
    again = Engines()
    run_resident(tmp_path, plan, again.begin, lambda _: None)
    assert again.started == []  # nothing is missing


def test_only_what_is_missing_is_started_again(tmp_path: Path) -> None:
    plan = plan_of("one", "two", only="removed", at_once=3, blocks=2)
    run_resident(tmp_path, plan, Engines(dies={"without-two": 2}).begin, lambda _: None)
    again = Engines()
    run_resident(tmp_path, plan, again.begin, lambda _: None)
    assert again.started == [["without-two"]]
    assert names(again) == ["without-two"]


def test_the_others_go_on(tmp_path: Path) -> None:
    plan = plan_of("one", "two", only="removed", at_once=3, blocks=3)
    said: list[str] = []
    engines = Engines(dies={"without-two": 1})
    run_resident(tmp_path, plan, engines.begin, said.append)
    assert names(engines) == [*["full"] * 3, *["without-one"] * 3, "without-two"]
    assert "  without-two ends here, the others go on: killed" in said
    assert sum("its engine is gone" in line for line in said) == 2


def test_without_the_one_that_all_are_compared_with_a_group_is_over(tmp_path: Path) -> None:
    plan = plan_of("one", "two", only="removed", at_once=2, blocks=3)
    said: list[str] = []
    engines = Engines(dies={"full": 1})
    run_resident(tmp_path, plan, engines.begin, said.append)
    assert "  full ends here, and with it this group: killed" in said
    assert names(engines).count("full") == 2  # once in each group
    assert len(engines.started) == 2  # and the next one begins


def test_a_group_that_cannot_start_does_not_end_the_others(tmp_path: Path) -> None:
    plan = plan_of("one", "two", only="removed", at_once=2, blocks=1)
    said: list[str] = []
    engines = Engines(fails=("without-one",))
    run_resident(tmp_path, plan, engines.begin, said.append)
    assert names(engines) == ["full", "without-two"]
    assert "  without-one did not start: no memory" in said
    assert any(line.startswith("  nothing of group 1 can be measured") for line in said)
    with pytest.raises(StreamproofError, match="full did not start: no memory") as refused:
        run_resident(tmp_path / "other", plan, Engines(fails=("full",)).begin, said.append)
    assert refused.value.remedy == "more"


def test_an_invalid_run_is_repeated_once_and_ctrl_c_ends_all(tmp_path: Path) -> None:
    plan = plan_of("one", only="removed", at_once=2, blocks=1)
    invalid = Engines(code=Exit.INVALID)
    run_resident(tmp_path, plan, invalid.begin, lambda _: None)
    assert names(invalid) == ["full", "full", "without-one", "without-one"]
    interrupted = Engines(code=Exit.INTERRUPTED)
    with pytest.raises(KeyboardInterrupt):
        run_resident(tmp_path, plan, interrupted.begin, lambda _: None)
    assert (len(interrupted.measured), interrupted.running) == (1, 0)
