"""`just pin` on a repository of its own, with a real registry and real resolutions of uv."""

from __future__ import annotations

import datetime as dt
import io
import re
import socket
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from bench.engine.install import find_uv
from bench.engine.pins import PINS_FILE, REPOSITORY, load_pins
from bench.errors import StreamproofError, UsageError
from bench.images.pin import NOT_CHECKED, OUT_OF_DATE, _touched, pin
from bench.images.pin_locks import find_locks
from bench.images.registry import Registries
from recipes.load import load_recipe, targets
from tests.bundle.wheelhouse import write_wheel
from tests.images.registry_server import MANIFEST, Registry, Reply, as_json, digest, running_registry, web

COMMIT, OTHER_COMMIT = "a" * 40, "b" * 40
TODAY = dt.date(2026, 12, 24)
SECOND_HAND = "second-hand: read in public files"


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    with running_registry(tmp_path_factory.mktemp("registry")) as running:
        yield running


@dataclass
class Place:
    """A repository with one image, one lock and the wheels that it can choose from."""

    folder: Path
    wheels: Path

    @property
    def pins(self) -> Path:
        return self.folder / "docker/pins.toml"

    @property
    def lock(self) -> Path:
        return self.folder / "docker/locks/tool.txt"

    def pin_image(self, reference: str, index: str, manifest: str | None = None, *, commit: str | None = None) -> None:
        lines = [
            "# What runs.",
            "[images.vllm-openai]",
            f'reference = "{reference}"  # for people',
            'version = "0.26.0"',
            f'index = "{index}"',
            *([f'linux-amd64 = "{manifest}"'] if manifest else []),
            "resolved = 2026-11-29",
            f'how = "{SECOND_HAND}"',
            "# Why there are two.",
            *([f'build-commit = "{commit}"'] if commit else []),
            f'tag-commit = "{OTHER_COMMIT}"',
            "",
            "# Environments of the process engine.",
            "[engines]",
            "",
        ]
        self.pins.write_text("\n".join(lines))

    def pin(self, *, check: bool = False, only: str | None = None, upgrade: bool = False) -> tuple[int, str]:
        """The exit code and what was told."""
        load_pins.cache_clear()  # a command reads the file once, a test more often
        said = io.StringIO()
        code = pin(
            check=check,
            only=only,
            upgrade=upgrade,
            repository=self.folder,
            registries=lambda: Registries(lambda _: None),
            today=lambda: TODAY,
            console=Console(file=said, width=300, highlight=False),
        )
        return code, said.getvalue()


def package_index(wheels: Path) -> Callable[[str, dict[str, str]], Reply]:
    """A package index (PEP 503) over a folder of wheels."""

    def answer(path: str, _: dict[str, str]) -> Reply:
        file = wheels / path.rpartition("/")[2]
        if path.startswith("/files/") and file.is_file():
            return Reply(200, file.read_bytes())
        links = (
            f'<a href="/files/{wheel.name}#{digest(wheel.read_bytes()).replace(":", "=")}">{wheel.name}</a>'
            for wheel in wheels.glob("*.whl")
        )
        return Reply(200, f"<!DOCTYPE html><body>{''.join(links)}".encode(), {"Content-Type": "text/html"})

    return answer


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    made = Place(tmp_path / "repository", tmp_path / "wheels")
    made.wheels.mkdir()
    made.lock.parent.mkdir(parents=True)
    write_wheel(made.wheels, "tool", "1.0", {"tool.py": ""})
    made.lock.write_text("")
    (made.folder / "pyproject.toml").write_text('[project]\nname = "p"\nversion = "1"\nrequires-python = ">=3.11"\n')
    subprocess.run([find_uv(), "lock", "--quiet", "--offline"], cwd=made.folder, check=True)
    made.pin_image("127.0.0.1:1/public/vllm:v1", digest(b"x"))
    with web(package_index(made.wheels)) as server:
        options = f"--no-header --generate-hashes --no-cache --default-index http://{server.address}/simple"
        command = f"uv pip compile tool.in {options}"
        made.lock.with_suffix(".in").write_text(
            f"# A tool.\n#\n# Rebuild:\n#   {command} \\\n#     -o tool.txt\ntool>=1\n"
        )
        yield made


def changed_lines(before: str, after: str) -> set[str]:
    return set(after.splitlines()) - set(before.splitlines())


def test_what_the_registry_confirms_says_so_from_then_on(place: Place, registry: Registry) -> None:
    reference = f"{registry.address}/public/same:v1"
    index, manifest = registry.push("public/same:v1", env=[f"VLLM_BUILD_COMMIT={COMMIT}"])
    place.pin_image(reference, index, manifest, commit=COMMIT)
    before = place.pins.read_text()
    code, said = place.pin(only="images")
    assert code == 0
    assert "confirmed  vllm-openai" in said
    assert SECOND_HAND in said, "what was there before is shown"
    assert f"linux/amd64; VLLM_BUILD_COMMIT {COMMIT}" in said
    after = place.pins.read_text()
    assert changed_lines(before, after) == {"resolved = 2026-12-24", 'how = "asked of the registry"'}
    assert len(after.splitlines()) == len(before.splitlines()), "comments stay"
    assert place.pin(only="images", check=True)[0] == 0
    assert place.pins.read_text() == after


def test_a_tag_that_moved_is_loud_and_names_what_it_touches(place: Place, registry: Registry) -> None:
    reference = f"{registry.address}/public/moved:v1"
    old_index, old = registry.push("public/moved:v1", env=[f"VLLM_BUILD_COMMIT={COMMIT}"])
    new_index, new = registry.push("public/moved:v1", env=[f"VLLM_BUILD_COMMIT={OTHER_COMMIT}"])
    place.pin_image(reference, old_index, old, commit=COMMIT)
    before = place.pins.read_text()

    code, said = place.pin(only="images", check=True)
    assert code == OUT_OF_DATE
    assert place.pins.read_text() == before
    assert "the tag v1 moved: it names another image now, the pinned one is still there" in said
    assert "what it touches: b200-fp8, b200-nvfp4, h200-fp8, " in said
    for value in (old_index, new_index, old, new, COMMIT, OTHER_COMMIT, "2026-11-29", "2026-12-24"):
        assert value in said
    assert "nothing was written" in said

    code, said = place.pin(only="images")
    assert code == 0
    assert "the tag v1 moved" in said
    assert changed_lines(before, place.pins.read_text()) == {
        f'index = "{new_index}"',
        f'linux-amd64 = "{new}"',
        f'build-commit = "{OTHER_COMMIT}"',
        "resolved = 2026-12-24",
        'how = "asked of the registry"',
    }
    assert load_pins.__wrapped__(place.pins).image("vllm-openai").index == new_index


def test_a_tag_that_moved_stays_so_where_the_old_digest_cannot_be_asked_for(place: Place) -> None:
    config = as_json({"os": "linux", "architecture": "amd64", "config": {}})
    manifest = as_json({"config": {"digest": digest(config)}})

    def answer(path: str, _: dict[str, str]) -> Reply:
        if path.endswith("/v1"):
            return Reply(200, manifest, {"Content-Type": MANIFEST})
        return Reply(200, config) if path.endswith(digest(config)) else Reply(429, b"")

    with web(answer) as server:
        place.pin_image(f"{server.address}/public/vllm:v1", digest(b"old"))
        code, said = place.pin(only="images", check=True)
    assert code == OUT_OF_DATE
    assert "the tag v1 moved: it names another image now; the pinned digest was second-hand" in said
    assert digest(manifest) in said


def test_a_pinned_digest_that_the_registry_never_had(place: Place, registry: Registry) -> None:
    registry.push("public/other:v1")
    place.pin_image(f"{registry.address}/public/other:v1", digest(b"somebody said so"))
    code, said = place.pin(only="images", check=True)
    assert code == OUT_OF_DATE
    assert "the registry has none of the pinned digest; the pinned digest was second-hand" in said


def test_a_platform_digest_that_was_unknown_is_added_in_its_place(place: Place, registry: Registry) -> None:
    index, manifest = registry.push("public/found:v1")
    place.pin_image(f"{registry.address}/public/found:v1", index)
    assert place.pin(only="images")[0] == 0
    lines = place.pins.read_text().splitlines()
    assert lines[lines.index(f'index = "{index}"') + 1] == f'linux-amd64 = "{manifest}"'
    assert lines[-2:] == ["# Environments of the process engine.", "[engines]"]


def test_a_build_commit_that_the_image_contradicts(place: Place, registry: Registry) -> None:
    index, manifest = registry.push("public/commit:v1", env=[f"VLLM_BUILD_COMMIT={OTHER_COMMIT}"])
    place.pin_image(f"{registry.address}/public/commit:v1", index, manifest, commit=COMMIT)
    code, said = place.pin(only="vllm-openai", check=True)
    assert code == OUT_OF_DATE
    assert "moved" not in said
    assert f"- {COMMIT}" in said
    assert f"+ {OTHER_COMMIT}" in said


def test_a_tag_that_is_gone_is_a_contradiction_and_changes_nothing(place: Place, registry: Registry) -> None:
    index, _ = registry.push("public/gone:v1")
    place.pin_image(f"{registry.address}/public/gone:v2", index)
    before = place.pins.read_text()
    code, said = place.pin(only="images")
    assert code == OUT_OF_DATE
    assert "contradicted  vllm-openai" in said
    assert "has no v2 in public/gone" in said
    assert "what it touches: b200-fp8" in said
    assert place.pins.read_text() == before


@pytest.mark.parametrize(
    ("pushed", "words"),
    [
        ({"architecture": "arm64"}, "what the index calls linux/amd64 is an image for linux/arm64"),
        ({"listed": ("arm64",)}, "the index has no image for linux/amd64"),
    ],
)
def test_an_image_for_another_machine_is_never_pinned(
    place: Place, registry: Registry, pushed: dict[str, object], words: str
) -> None:
    registry.push("public/arm:v1", **pushed)  # type: ignore[arg-type]  # its own keywords
    place.pin_image(f"{registry.address}/public/arm:v1", digest(b"x"))
    before = place.pins.read_text()
    code, said = place.pin(only="images")
    assert code == OUT_OF_DATE
    assert words in said
    assert place.pins.read_text() == before


def test_offline_it_says_what_it_could_not_check_and_touches_nothing(place: Place) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        place.pin_image(f"127.0.0.1:{closed.getsockname()[1]}/public/vllm:v1", digest(b"x"))
        before = place.pins.read_text()
        code, said = place.pin(only="images")
    assert code == NOT_CHECKED
    assert "not checked  vllm-openai" in said
    assert "cannot be reached" in said
    assert f"stays as pinned on 2026-11-29, {SECOND_HAND}" in said
    assert place.pins.read_text() == before


def test_a_rate_limit_leaves_the_entry(place: Place) -> None:
    with web(lambda *_: Reply(429, b"", {"Retry-After": "60"})) as server:
        place.pin_image(f"{server.address}/public/vllm:v1", digest(b"x"))
        code, said = place.pin(only="images")
    assert code == NOT_CHECKED
    assert "Run it again after 60 s" in said


def test_a_lock_keeps_its_versions_until_an_upgrade_is_asked_for(place: Place) -> None:
    assert place.pin(only="tool")[0] == 0
    first = place.lock.read_text()
    assert "tool==1.0 \\\n    --hash=sha256:" in first
    write_wheel(place.wheels, "tool", "1.1", {"tool.py": ""})
    code, said = place.pin(only="locks")
    assert code == 0
    assert "confirmed  tool" in said
    assert place.lock.read_text() == first

    code, said = place.pin(only="tool", upgrade=True)
    assert code == 0
    assert "- 1.0" in said
    assert "+ 1.1" in said
    assert "tool==1.1" in place.lock.read_text()
    assert place.pin(check=True, only="locks")[0] == 0


def test_a_file_that_was_added_to_a_release_waits_for_an_upgrade(place: Place) -> None:
    place.pin(only="tool")
    first = place.lock.read_text()
    write_wheel(place.wheels, "tool", "1.0", {"tool.py": ""}, tag="cp311-none-any")
    code, said = place.pin(only="tool")
    assert code == 0
    assert "more files than locked: tool" in said
    assert place.lock.read_text() == first
    code, said = place.pin(only="tool", upgrade=True)
    assert "1.0 with 1 files added" in said
    assert place.lock.read_text().count("--hash") == 2


def test_a_file_with_another_content_is_told(place: Place) -> None:
    place.pin(only="tool")
    first = place.lock.read_text()
    write_wheel(place.wheels, "tool", "1.0", {"tool.py": "import os\n"})
    code, said = place.pin(only="tool", check=True)
    assert code == OUT_OF_DATE
    assert "1.0 with 1 of its files taken away and 1 added" in said
    assert place.lock.read_text() == first


def test_a_lock_that_cannot_be_resolved(place: Place) -> None:
    source = place.lock.with_suffix(".in")
    source.write_text(source.read_text().replace("tool>=1", "tool>=9"))
    code, said = place.pin(only="tool")
    assert code == OUT_OF_DATE
    assert "uv cannot resolve it" in said
    assert "tool>=9" in said
    assert "Correct tool.in" in said
    assert place.lock.read_text() == ""


def test_a_lock_without_its_index(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    source = place.lock.with_suffix(".in")
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        source.write_text(re.sub(r"127\.0\.0\.1:\d+", f"127.0.0.1:{closed.getsockname()[1]}", source.read_text()))
        monkeypatch.setenv("UV_HTTP_RETRIES", "0")  # uv's own patience is not what is tested
        code, said = place.pin(only="tool")
    assert code == NOT_CHECKED
    assert "the package index cannot be asked" in said
    assert place.lock.read_text() == ""


@pytest.mark.parametrize(
    "text",
    [
        "tool>=1\n",
        "# uv pip install tool -o tool.txt\ntool>=1\n",
        "# uv pip compile tool.in\ntool>=1\n",
        "# uv pip compile tool.in -o other.txt\ntool>=1\n",
        "# rm -rf / ; uv pip compile tool.in -o tool.txt\ntool>=1\n",
    ],
)
def test_a_lock_that_does_not_say_how_it_is_made(place: Place, text: str) -> None:
    place.lock.with_suffix(".in").write_text(text)
    with pytest.raises(StreamproofError, match=r"tool\.in does not say how its lock is made"):
        place.pin()


def test_a_lock_that_nothing_explains(place: Place) -> None:
    place.lock.with_name("other.txt").write_text("")
    with pytest.raises(StreamproofError, match=r"other\.in does not say how its lock is made"):
        place.pin()


def test_the_clients_lock_follows_uv_lock(place: Place) -> None:
    lock = place.lock.with_name("bench.txt")
    lock.write_text("tool==1.0 \\\n    --hash=sha256:" + "0" * 64 + "\n")
    code, said = place.pin(only="bench")
    assert code == 0
    assert "- 1.0" in said
    assert lock.read_text() == "", "the project has no dependencies"


def test_a_project_that_its_lock_does_not_know(place: Place) -> None:
    project = place.folder / "pyproject.toml"
    assert place.pin(only="uv.lock")[0] == 0
    project.write_text(project.read_text().replace('version = "1"', 'version = "2"'))
    code, said = place.pin(only="uv.lock")
    assert code == OUT_OF_DATE
    assert "it is not what pyproject.toml asks for" in said
    assert "Run uv lock" in said


def test_only_something_that_is_not_pinned(place: Place) -> None:
    with pytest.raises(UsageError, match="--only vllm") as caught:
        place.pin(only="vllm")
    assert "vllm-openai" in caught.value.remedy
    assert "tool" in caught.value.remedy


def test_what_an_image_and_a_lock_touch_in_this_repository() -> None:
    pins, recipes = load_pins(), [load_recipe(name) for name in targets()]
    touched = _touched(pins, recipes, image="vllm-openai")
    assert {"h200-fp8", "b200-fp8", "b200-nvfp4", "h200-fp8-dummy"} <= set(touched)
    assert "cpu" not in touched
    base = pins.target("cpu").base
    assert {"cpu", "image quantize"} <= set(_touched(pins, recipes, image=base))
    assert {"cpu", "cpu-mtp"} <= set(_touched(pins, recipes, lock="engine-cpu"))
    assert "image bench" in _touched(pins, recipes, lock="bench")


def test_this_repositorys_locks_all_say_how_they_are_made() -> None:
    folder = PINS_FILE.parent / "locks"
    locks = find_locks(folder, REPOSITORY)
    files = {path.stem for path in folder.glob("*.txt") if not path.stem.endswith("-overrides")}
    assert files == {lock.name for lock in locks}
    for lock in locks:
        assert "--generate-hashes" in lock.arguments or lock.arguments[0] == "export", lock.name


def test_the_command_hands_its_options_over(monkeypatch: pytest.MonkeyPatch) -> None:
    from bench.cli import app  # noqa: PLC0415

    given: dict[str, object] = {}

    def instead(**options: object) -> int:
        given.update(options)
        return NOT_CHECKED

    monkeypatch.setattr("bench.images.pin.pin", instead)
    assert CliRunner().invoke(app, ["pin", "--check", "--only", "images"]).exit_code == NOT_CHECKED
    assert given == {"check": True, "only": "images", "upgrade": False}
