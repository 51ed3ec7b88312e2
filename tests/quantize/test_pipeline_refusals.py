from pathlib import Path

import pytest

from bench.errors import StreamproofError, UsageError
from quantize.checkpoint import TOY
from quantize.display import Display
from quantize.options import Options
from quantize.pipeline import quantize
from quantize.target import load_target


def options(folder: Path) -> Options:
    return Options(source=None, out=folder / "out", work=folder / "work", python=Path("/nowhere"))


def test_a_folder_of_somebody_elses_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.txt").write_text("all of it")
    with pytest.raises(UsageError, match="was not made by this command"):
        quantize(load_target("tiny"), options(tmp_path), Display())
    assert (tmp_path / "out" / "thesis.txt").exists()


def test_what_does_not_fit_is_refused_before_anything_is_installed_or_fetched(tmp_path: Path) -> None:
    huge = load_target("tiny", {"calibration.samples": "100000000"})
    with pytest.raises(StreamproofError, match=r"this needs .* GiB of memory"):
        quantize(huge, options(tmp_path), Display())
    assert [path.name for path in (tmp_path / "work").iterdir()] == [".lock"]


def test_two_runs_do_not_share_a_work_folder(tmp_path: Path) -> None:
    import fcntl  # noqa: PLC0415  for this test only

    (tmp_path / "work").mkdir()
    with (tmp_path / "work" / ".lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(StreamproofError, match="another run works in"):
            quantize(load_target("tiny"), options(tmp_path), Display())


def test_a_source_in_the_wrong_place(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is no folder"):
        quantize(load_target("tiny", {"source.folder": str(TOY / "config.json")}), options(tmp_path), Display())
