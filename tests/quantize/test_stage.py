import json
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.errors import StreamproofError
from quantize.hashes import Hashes
from quantize.stages.stage import MANIFEST, Key, Outcome, Workshop

KEY = Key(inputs={"source": "0" * 64}, parameters={"preset": "nvfp4"})


@pytest.fixture
def shop(tmp_path: Path) -> Workshop:
    return Workshop(tmp_path, Hashes(tmp_path / "hashes.json"))


class Work:
    """Writes two files, dies before the second one when told to, and counts."""

    def __init__(self, *, dies: bool = False) -> None:
        self.dies = dies
        self.wrote: list[str] = []

    def __call__(self, partial: Path) -> Outcome:
        for name in ("a", "b"):
            if (partial / name).exists():
                continue
            if self.dies and name == "b":
                raise KeyboardInterrupt
            (partial / name).write_text(name)
            self.wrote.append(name)
        (partial / ".log").write_text("what it said")
        return Outcome(versions={"tool": "1"})


def silent(_line: str) -> None: ...


def test_a_stage_is_done_once_and_says_what_it_left(shop: Workshop) -> None:
    work, said = Work(), list[str]()
    manifest = shop.run("export", KEY, work, say=said.append)
    assert list(manifest.outputs) == ["a", "b"]
    assert manifest.versions == {"tool": "1"}
    assert shop.run("export", KEY, work, say=said.append) == manifest
    assert (work.wrote, said) == (["a", "b"], ["export: done before"])
    assert json.loads((shop.place("export") / MANIFEST).read_bytes())["key"]["parameters"] == {"preset": "nvfp4"}


def test_other_inputs_or_parameters_make_it_anew(shop: Workshop) -> None:
    shop.run("export", KEY, Work(), say=silent)
    for key in (KEY.model_copy(update={"parameters": {}}), KEY.model_copy(update={"inputs": {}})):
        work = Work()
        shop.run("export", key, work, say=silent)
        assert work.wrote == ["a", "b"]


def test_what_was_cut_off_goes_on_and_is_not_taken_for_whole(shop: Workshop) -> None:
    with pytest.raises(KeyboardInterrupt):
        shop.run("export", KEY, Work(dies=True), say=silent)
    assert not shop.place("export").exists()
    work, said = Work(), list[str]()
    assert list(shop.run("export", KEY, work, say=said.append).outputs) == ["a", "b"]
    assert work.wrote == ["b"]
    assert said == ["export: goes on from an earlier attempt"]


def test_an_attempt_at_something_else_is_thrown_away(shop: Workshop) -> None:
    with pytest.raises(KeyboardInterrupt):
        shop.run("export", KEY, Work(dies=True), say=silent)
    work = Work()
    shop.run("export", KEY.model_copy(update={"inputs": {}}), work, say=silent)
    assert work.wrote == ["a", "b"]


def lose(place: Path) -> None:
    (place / "a").unlink()


def alter(place: Path) -> None:
    (place / "a").write_text("x")


def shorten(place: Path) -> None:
    (place / "a").write_text("")


def break_manifest(place: Path) -> None:
    (place / MANIFEST).write_text("{")


@pytest.mark.parametrize("damage", [lose, alter, shorten, break_manifest])
def test_a_damaged_stage_is_made_anew(shop: Workshop, damage: Callable[[Path], None]) -> None:
    before = shop.run("export", KEY, Work(), say=silent)
    damage(shop.place("export"))
    assert shop.run("export", KEY, Work(), say=silent).outputs == before.outputs
    assert (shop.place("export") / "a").read_text() == "a"


def test_a_full_disk_is_an_error_that_says_where_it_goes_on(shop: Workshop) -> None:
    def full(_partial: Path) -> Outcome:
        raise OSError(28, "No space left on device")

    with pytest.raises(StreamproofError, match="No space left") as caught:
        shop.run("export", KEY, full, say=silent)
    assert "goes on from" in caught.value.remedy


def test_hashes_are_remembered_only_while_a_file_is_the_same(tmp_path: Path) -> None:
    path, read = tmp_path / "x", list[Path]()
    path.write_text("one")
    first = Hashes(tmp_path / "store").of([path], on_file=read.append)
    assert Hashes(tmp_path / "store").of([path], on_file=read.append) == first
    assert len(read) == 1
    path.write_text("other")
    assert Hashes(tmp_path / "store").of([path]) != first
    (tmp_path / "store").write_text("no JSON")
    assert Hashes(tmp_path / "store").of([path])
