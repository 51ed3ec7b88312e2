"""Wheels are chosen for the base, fetched by hash, kept by content."""

from __future__ import annotations

import platform
import re
import shutil
import sys
import zipfile
from pathlib import Path

import pytest
from packaging.tags import sys_tags

from bench.bundle.wheels import client_requirements
from bench.engine.pins import REPOSITORY, load_pins
from bench.errors import StreamproofError
from bench.images.wheels import Place, WheelStore, extract_uv, wanted
from tests.images.handmade_wheels import locked, sha256, wheel

PLACE = Place(python="3.12", glibc=36)


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where pip gets packages from: a folder, and nothing else."""
    folder = tmp_path / "source"
    folder.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    return folder


def collect(store: WheelStore, lock: str, place: Place = PLACE) -> tuple[list[Path], list[str]]:
    said: list[str] = []
    return store.collect(lock, place, name="a.txt", say=said.append, terminal=False), said


def test_the_tags_of_a_place_are_those_of_an_interpreter_there() -> None:
    glibc = int(platform.libc_ver()[1].split(".")[1])
    here = Place(python=f"{sys.version_info.major}.{sys.version_info.minor}", glibc=glibc)
    own = {str(tag) for tag in sys_tags()}
    assert {str(tag) for tag in here.tags} == own


@pytest.mark.parametrize(
    ("tag", "fits"),
    [
        ("cp312-cp312-manylinux_2_36_x86_64", True),
        ("cp312-cp312-manylinux2014_x86_64", True),
        ("cp39-abi3-manylinux_2_28_x86_64", True),
        ("py3-none-any", True),
        ("cp312-cp312-manylinux_2_37_x86_64", False),
        ("cp311-cp311-manylinux_2_28_x86_64", False),
        ("cp312-cp312-musllinux_1_2_x86_64", False),
        ("cp312-cp312-manylinux_2_28_aarch64", False),
    ],
)
def test_only_a_wheel_that_the_base_can_load_is_taken(tag: str, fits: bool, source: Path, tmp_path: Path) -> None:
    made = wheel(source, "thing", tag=tag)
    store = WheelStore(tmp_path / "store")
    lock = locked("thing==1.0", made)
    if not fits:
        with pytest.raises(StreamproofError, match="thing"):
            collect(store, lock)
        return
    found, _ = collect(store, lock)
    assert [path.name for path in found] == [made.name]
    assert found[0].parent.name == sha256(made)


def test_markers_are_those_of_the_base_and_not_of_this_interpreter() -> None:
    lock = "".join(
        f"{name}==1 ; {marker} \\\n    --hash=sha256:{'0' * 64}\n"
        for name, marker in {
            "old": "python_full_version < '3.12'",
            "new": "python_full_version >= '3.12'",
            "mac": "sys_platform == 'darwin'",
            "linux": "sys_platform == 'linux' and platform_machine == 'x86_64'",
        }.items()
    )
    assert [package.name for package in wanted(lock, PLACE)] == ["new", "linux"]
    assert [package.name for package in wanted(lock, Place(python="3.11", glibc=36))] == ["old", "linux"]


def test_a_second_time_nothing_is_asked(source: Path, tmp_path: Path) -> None:
    one, two = wheel(source, "one"), wheel(source, "two")
    lock = locked("one==1.0", one) + locked("two==1.0", two)
    store = WheelStore(tmp_path / "store")
    first, said = collect(store, lock)
    assert said[0] == "Fetching 2 of the 2 wheels of a.txt, once"
    shutil.rmtree(source)
    again, silence = collect(WheelStore(tmp_path / "store"), lock)
    assert (again, silence) == (first, [])


def test_what_one_lock_fetched_another_finds(source: Path, tmp_path: Path) -> None:
    one, two = wheel(source, "one"), wheel(source, "two")
    store = WheelStore(tmp_path / "store")
    collect(store, locked("one==1.0", one))
    _, said = collect(store, locked("one==1.0", one) + locked("two==1.0", two))
    assert said[0] == "Fetching 1 of the 2 wheels of a.txt, once"


def test_another_content_under_the_same_name_is_refused(source: Path, tmp_path: Path) -> None:
    lock = locked("thing==1.0", wheel(source, "thing"))
    wheel(source, "thing", extra="changed = True")
    with pytest.raises(StreamproofError, match=r"(?s)pip could not fetch.*HASH"):
        collect(WheelStore(tmp_path / "store"), lock)
    assert [path.name for path in (tmp_path / "store").iterdir()] == []


def test_an_unhashed_requirement_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StreamproofError, match=r"'thing==1\.0': it has no hash"):
        collect(WheelStore(tmp_path / "store"), "thing==1.0\n")


def test_a_requirement_without_a_version_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StreamproofError, match="line 1"):
        collect(WheelStore(tmp_path / "store"), "thing>=1.0\n")


def test_ctrl_c_ends_pip_and_nothing_half_fetched_is_kept(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pip").write_text(
        f"#!{sys.executable}\nimport signal\nprint('Downloading thing', flush=True)\nsignal.pause()\n"
    )
    (tmp_path / "pip").chmod(0o755)
    monkeypatch.setattr("bench.images.wheels.find_pip", lambda: [str(tmp_path / "pip")])
    lock = locked("thing==1.0", wheel(source, "thing"))

    def stop(line: str) -> None:
        if line.startswith("Downloading"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        WheelStore(tmp_path / "store").collect(lock, PLACE, name="a.txt", say=stop, terminal=False)
    assert list((tmp_path / "store").iterdir()) == []


def test_a_package_that_is_nowhere(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.images.wheels._BATCH", 1)
    one, two = wheel(source, "one"), wheel(source, "two")
    lock = locked("one==1.0", one) + locked("two==1.0", two)
    two.unlink()
    store = WheelStore(tmp_path / "store")
    with pytest.raises(StreamproofError, match=r"(?s)pip could not fetch.*two") as caught:
        collect(store, lock)
    assert "without network" in caught.value.remedy
    assert (tmp_path / "store" / sha256(one) / one.name).is_file(), "what was fetched before is kept"


@pytest.mark.parametrize("name", sorted(name for name, pin in load_pins().targets.items() if pin.lock))
def test_every_package_of_a_locked_image_is_hashed_and_no_name_comes_twice(name: str) -> None:
    pins = load_pins()
    pin = pins.target(name)
    assert pin.lock
    base = pins.image(pin.base)
    assert base.python
    assert base.glibc
    packages = wanted((REPOSITORY / pin.lock).read_text(), Place(python=base.python, glibc=base.glibc))
    names = [package.name for package in packages]
    assert len(names) == len(set(names))
    assert all(package.hashes for package in packages)


def test_the_program_that_installs_comes_out_of_its_locked_wheel(source: Path, tmp_path: Path) -> None:
    made = wheel(source, "uv")
    with zipfile.ZipFile(made, "a") as archive:
        archive.writestr("uv-1.0.data/scripts/uv", "the program")
    tools = locked("uv==1.0", made) + locked("other==1.0", made)
    store = WheelStore(tmp_path / "store")
    assert extract_uv(store, tools, PLACE, say=lambda _: None, terminal=False) == b"the program"
    with pytest.raises(StreamproofError, match="does not lock uv"):
        extract_uv(store, locked("other==1.0", made), PLACE, say=lambda _: None, terminal=False)


def test_the_clients_lock_is_what_uv_lock_says() -> None:
    committed = (REPOSITORY / "docker/locks/bench.txt").read_text()
    assert re.sub(r"(?m)^#.*\n", "", committed) == client_requirements(REPOSITORY), (
        "uv export --frozen --no-dev --no-emit-project --no-header --format requirements.txt -o docker/locks/bench.txt"
    )
