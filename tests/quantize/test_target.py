from pathlib import Path

import pytest

from bench.errors import UsageError
from quantize.target import load_target, targets


@pytest.mark.parametrize("name", targets())
def test_the_targets_of_the_repository_are_valid(name: str) -> None:
    assert load_target(name).preset == "nvfp4_experts_only"


def test_the_default_is_what_the_b200_recipe_looks_for() -> None:
    assert load_target("qwen3.5-35b-a3b").name == "Qwen3.5-35B-A3B-NVFP4"


def test_overrides_are_named() -> None:
    target = load_target("tiny", {"kv_cache": "fp8_cast", "calibration.samples": "2"})
    assert (target.kv_cache, target.calibration.samples) == ("fp8_cast", 2)
    assert target.overridden == ["calibration.samples", "kv_cache"]


def test_one_place_takes_the_other_ones_place() -> None:
    target = load_target("tiny", {"source.repository": "a/b", "source.revision": "0" * 40, "calibration.dataset": "x"})
    assert (target.source.folder, target.calibration.recipe) == (None, None)


def test_a_mixed_preset_is_flagged() -> None:
    assert load_target("tiny", {"preset": "nvfp4_experts_fp8_rest"}).is_mixed
    assert not load_target("tiny").is_mixed


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"presett": "nvfp4"}, "unknown key presett"),
        ({"preset": "int4"}, "--set: preset: Input should be"),
        ({"calibration.samples": "0"}, "--set: calibration.samples"),
        ({"name": "../elsewhere"}, "--set: name"),
        ({"calibration.samples": "many"}, "got 'many'"),
    ],
)
def test_wrong_overrides(overrides: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        load_target("tiny", overrides)


def test_an_unknown_target_has_a_nearest_one() -> None:
    with pytest.raises(UsageError, match="no target tinny") as caught:
        load_target("tinny")
    assert "Did you mean tiny?" in caught.value.remedy


def test_a_target_of_ones_own_and_its_mistakes(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('title = "x"\nname = "x"\npreset = "nvfp4"\nkv_cache = "none"\n[source]\n')
    with pytest.raises(UsageError, match=r"mine.toml, line 5: source: source needs either repository or folder"):
        load_target(str(path))
    path.write_text("title = ")
    with pytest.raises(UsageError, match="is not TOML"):
        load_target(str(path))
