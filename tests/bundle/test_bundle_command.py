"""From the words of `just bundle` to what is packed: which caches, which image."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from bench.bundle import command
from bench.bundle.command import bundle
from bench.bundle.make import Made, Options
from bench.engine.caches import MadeWith, open_caches, read_manifest
from bench.errors import UsageError
from bench.images.base import Base
from bench.images.build import BuiltImage
from bench.plan import plan_run
from recipes.load import load_recipe
from tests.bundle.handmade import manifest_of

RECIPE = load_recipe("cpu")
DEFINITION, IMAGE_ID = "d" * 64, f"sha256:{'e' * 64}"
DIGEST = f"registry/base@sha256:{'b' * 64}"


class Makers:
    """Stands for everything that takes minutes, and remembers what it was asked for."""

    def __init__(self) -> None:
        self.made: list[Options] = []
        self.bases: list[Base | None] = []
        self.packages: str | None = "p"

    def make_bundle(self, _recipe: object, options: Options, **_: object) -> Made:
        self.made.append(options)
        return Made(options.out, manifest_of(()), "s", (), (), packages=self.packages)

    def ensure_image(self, target: str, *, base: Base | None, **_: object) -> BuiltImage:
        self.bases.append(base)
        return BuiltImage(
            id=IMAGE_ID,
            reference=f"streamproof/{target}:dddddddddddd",
            target=target,
            definition_sha256=DEFINITION,
            labels={},
            base_digest=DIGEST,
            repo_digests=(),
            layers=(),
            size=1,
            cached=True,
        )


class NoDocker:
    def close(self) -> None:
        pass


@pytest.fixture
def makers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Makers:
    stand_in = Makers()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(command, "make_bundle", stand_in.make_bundle)
    monkeypatch.setattr(command, "ensure_image", stand_in.ensure_image)
    monkeypatch.setattr(command, "connect", lambda **_: NoDocker())
    monkeypatch.setattr(command, "volumes", lambda _client: {})
    return stand_in


def cached(tmp_path: Path, image_digest: str | None, **changes: Any) -> Path:
    """Caches of the recipe in this user's home of caches."""
    described = MadeWith(
        fingerprint=plan_run(RECIPE, image_digest=image_digest).engine_fingerprint,
        target="cpu",
        engine="docker" if image_digest else "process",
        version="0.26.0",
        devices=("A CPU",),
        driver=None,
        packages="p",
    )
    folder = open_caches(tmp_path / "cache/streamproof/compiled", described.model_copy(update=changes))
    (folder / "triton" / "x").mkdir(parents=True)
    return folder


def run(tmp_path: Path, **options: Any) -> None:
    assert bundle(RECIPE, out=tmp_path / "bundle", **options) == 0


def test_without_a_path_the_newest_caches_of_the_fingerprint_are_taken(
    makers: Makers, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cached(tmp_path, None, fingerprint="0" * 64)
    folder = cached(tmp_path, None)
    run(tmp_path, with_caches=True)
    assert makers.made[0].caches == folder
    said = capsys.readouterr().out
    assert "caches for A CPU: on anything else" in said
    assert "will not be used" not in said
    assert makers.made[0].image is None
    run(tmp_path)
    assert makers.made[1].caches is None


@pytest.mark.parametrize(("packages", "warned"), [("other", True), (None, False)])
def test_caches_that_this_bundle_cannot_use_are_told(
    makers: Makers, tmp_path: Path, capsys: pytest.CaptureFixture[str], packages: str | None, warned: bool
) -> None:
    cached(tmp_path, None)
    makers.packages = packages
    run(tmp_path, with_caches=True)
    assert ("will not be used" in capsys.readouterr().out) == warned


def test_a_folder_that_is_named_is_taken_instead(makers: Makers, tmp_path: Path) -> None:
    cached(tmp_path, None)
    run(tmp_path, with_caches=True, caches=tmp_path / "mine")
    assert makers.made[0].caches == tmp_path / "mine"


@pytest.mark.parametrize("options", [{}, {"image": True}])
def test_no_caches_of_this_recipe(makers: Makers, tmp_path: Path, options: Mapping[str, Any]) -> None:
    cached(tmp_path, None if options else DEFINITION)  # those of the other engine
    with pytest.raises(UsageError, match="there are no caches of cpu with the fingerprint") as caught:
        run(tmp_path, with_caches=True, **options)
    assert "just repro cpu" in caught.value.remedy
    assert makers.made == []


def test_the_targets_own_image_is_told_apart_by_its_definition(makers: Makers, tmp_path: Path) -> None:
    folder = cached(tmp_path, DEFINITION)
    run(tmp_path, image=True, with_caches=True)
    (options,) = makers.made
    assert options.image is not None
    assert (options.image.reference, options.image.own) == ("streamproof/cpu:dddddddddddd", True)
    assert options.caches == folder
    assert makers.bases == [None]


def test_an_image_on_another_base_is_told_apart_by_its_id(makers: Makers, tmp_path: Path) -> None:
    folder = cached(tmp_path, IMAGE_ID)
    run(tmp_path, base=DIGEST, with_caches=True)
    (options,) = makers.made
    assert options.image is not None
    assert not options.image.own
    assert options.caches == folder
    assert makers.bases[0] is not None
    assert makers.bases[0].digest == f"sha256:{'b' * 64}"


def test_caches_come_out_of_a_volume_where_no_folder_has_them(
    makers: Makers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    described = read_manifest(cached(tmp_path / "elsewhere", DEFINITION))
    assert described is not None
    other = described.model_copy(update={"fingerprint": "0" * 64})
    monkeypatch.setattr(command, "volumes", lambda _client: {"a": other, "b": described})
    monkeypatch.setattr(command, "copy_volume", lambda _client, made_with, root: root / made_with.place)
    run(tmp_path, image=True, with_caches=True)
    caches = makers.made[0].caches
    assert caches is not None
    assert caches.parts[-2:] == described.place.parts


def test_a_folder_that_is_there_is_refused_before_an_image_is_built(makers: Makers, tmp_path: Path) -> None:
    (tmp_path / "bundle").mkdir()
    with pytest.raises(UsageError, match="is there already"):
        run(tmp_path, image=True)
    assert makers.bases == []
