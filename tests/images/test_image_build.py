"""Images are really built, on a real Docker Engine, on bases that are really pulled by digest."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import docker
import pytest
from docker.errors import ImageNotFound

from bench.engine.environment import cache_root
from bench.engine.pins import REPOSITORY
from bench.errors import StreamproofError
from bench.images import labels
from bench.images.base import Base, parse_base
from bench.images.build import BuiltImage, Prepared, ensure_image, prepared
from bench.images.definition import image_definition
from bench.images.docker_cli import Build, run_build
from bench.images.inside.refusal import MARK
from bench.images.layout import CACHES, USER_ID
from bench.images.reproducible import build_twice
from tests.docker_daemon import SECRETS
from tests.images.cuda_stand_in import RIGHT, push_stand_in
from tests.images.secrets_in_layers import secrets

pytestmark = pytest.mark.usefixtures("docker_host")

REPORT = REPOSITORY / "evidence/h200/h200-fp8-dummy-20261130"


@pytest.fixture(scope="module")
def cuda_base(docker_client: docker.DockerClient, registry: str, debian_base: Base) -> Base:
    return push_stand_in(docker_client, registry, debian_base, RIGHT)


@pytest.fixture
def thin(docker_client: docker.DockerClient, cuda_base: Base) -> Iterator[Prepared]:
    """A build of an image that installs nothing: it takes seconds."""
    definition = image_definition("b200-nvfp4", base=cuda_base)
    with prepared(definition, docker_client, caches=None, say=print, terminal=False) as build:
        yield build


def run(
    client: docker.DockerClient, image: str, *command: str, mounts: dict[str, str], entrypoint: str | None = None
) -> tuple[int, str]:
    """Status and output of a container that may do nothing. `mounts`: "source" to "target:ro" or "target:rw"."""
    container = client.containers.create(
        image,
        list(command),
        entrypoint=entrypoint,
        volumes=[f"{source}:{target}" for source, target in mounts.items()],
        network="none",
        read_only=True,
        cap_drop=["ALL"],
    )
    try:
        container.start()
        status = int(container.wait()["StatusCode"])
        return status, container.logs(stdout=True, stderr=False).decode()  # of one that has ended: nothing is missed
    finally:
        container.remove(force=True)


def nothing_is_left(client: docker.DockerClient, target: str, tag: str) -> bool:
    with pytest.raises(ImageNotFound):
        client.images.get(tag)
    return not (cache_root() / "builds" / target).exists()


class TestTheClientsImage:
    def test_it_says_what_it_is(self, docker_client: docker.DockerClient, bench_image: BuiltImage) -> None:
        image = docker_client.images.get(bench_image.reference)
        config = image.attrs["Config"]
        assert image.id == bench_image.id
        assert image.labels == bench_image.labels
        assert image.labels[labels.DEFINITION] == bench_image.definition_sha256
        assert labels.DIRTY not in image.labels
        assert image.labels[labels.BASE_DIGEST] == bench_image.base_digest
        assert config["User"] == f"{USER_ID}:{USER_ID}"
        assert config["Entrypoint"][-2:] == ["-m", "bench"]
        assert len(bench_image.layers) == 2, "one on its base"

    def test_it_judges_a_report_as_the_checkout_does_without_network_and_without_writing(
        self, docker_client: docker.DockerClient, bench_image: BuiltImage, checkout: Path
    ) -> None:
        command = [sys.executable, "-m", "bench", "verify", "--json", str(REPORT)]
        here = subprocess.run(command, capture_output=True, text=True, check=False, cwd=checkout)
        mounts = {str(REPORT): "/report:ro"}
        status, said = run(docker_client, bench_image.id, "verify", "--json", "/report", mounts=mounts)
        told, expected = json.loads(said), json.loads(here.stdout)
        assert {"files", "signature", "digests", "evidence"} <= set(told["passed"])
        assert (status, told["passed"], told["findings"]) == (here.returncode, expected["passed"], expected["findings"])

    def test_no_secret_of_the_host_is_in_it(self, docker_client: docker.DockerClient, bench_image: BuiltImage) -> None:
        image = docker_client.images.get(bench_image.id)
        assert secrets(image.save(), [*SECRETS, "proxy-password"], skip=1) == []
        assert "proxy-password" not in json.dumps([image.attrs, image.history()])

    def test_it_is_not_built_again(
        self, docker_client: docker.DockerClient, bench_image: BuiltImage, debian_base: Base, checkout: Path
    ) -> None:
        said: list[str] = []
        again = ensure_image("bench", say=said.append, client=docker_client, base=debian_base, repository=checkout)
        assert (again, said) == (replace(bench_image, cached=True), [])

    def test_built_again_from_nothing_it_has_the_same_layers(
        self, docker_client: docker.DockerClient, bench_image: BuiltImage, debian_base: Base, checkout: Path
    ) -> None:
        definition = image_definition("bench", base=debian_base, repository=checkout)
        with prepared(definition, docker_client, caches=None, say=print, terminal=False, repository=checkout) as build:
            again = build.run(f"{definition.tag}-again", fresh=True)
        docker_client.images.remove(f"{definition.tag}-again")
        assert again.layers == bench_image.layers

    def test_the_command_finds_it(self, bench_image: BuiltImage, debian_base: Base, checkout: Path) -> None:
        command = [sys.executable, "-m", "bench", "build", "bench", "--json", "--base-image", debian_base.reference]
        answer = subprocess.run(
            [*command, "--base-python", str(debian_base.python)],
            capture_output=True, text=True, check=True, env=os.environ, cwd=checkout,
        )  # fmt: skip
        told = json.loads(answer.stdout)
        assert (told["id"], told["cached"]) == (bench_image.id, True)


class TestCarried:
    def test_the_pinned_versions_pass(self, docker_client: docker.DockerClient, thin: Prepared) -> None:
        image = thin.run(thin.definition.tag)
        try:
            config = docker_client.images.get(image.id).attrs["Config"]
            assert config["Entrypoint"] == ["python3", "-m", "vllm.entrypoints.openai.api_server"]
            assert config["User"] == f"{USER_ID}:{USER_ID}"
            assert config["Healthcheck"]["Test"][-1].endswith("/health.py")
        finally:
            docker_client.images.remove(image.id, force=True)

    @pytest.mark.parametrize(
        ("package", "version"), [("flashinfer-cubin", "0.6.13"), ("flashinfer-jit-cache", None), ("vllm", "0.26.1")]
    )
    def test_a_mismatch_ends_the_build(
        self, package: str, version: str | None, docker_client: docker.DockerClient, registry: str, debian_base: Base
    ) -> None:
        packages = {name: there for name, there in {**RIGHT, package: version}.items() if there is not None}
        base = push_stand_in(docker_client, registry, debian_base, packages)
        wrong = f"{package} is missing" if version is None else f"{package} is {version}"
        with pytest.raises(StreamproofError, match=wrong):
            ensure_image("b200-nvfp4", say=print, client=docker_client, base=base)
        assert nothing_is_left(docker_client, "b200-nvfp4", image_definition("b200-nvfp4", base=base).tag)

    def test_an_h200_needs_no_kernels_for_a_b200(
        self, docker_client: docker.DockerClient, registry: str, debian_base: Base
    ) -> None:
        packages = {name: RIGHT[name] for name in ("vllm", "flashinfer-python")}
        base = push_stand_in(docker_client, registry, debian_base, packages)
        image = ensure_image("h200-fp8", say=print, client=docker_client, base=base)
        docker_client.images.remove(image.id, force=True)


class TestBases:
    def test_one_without_a_digest_ends_the_build(
        self, thin: Prepared, debian_base: Base, docker_host: str, tmp_path: Path
    ) -> None:
        build = Build(
            context=thin.context,
            stage=thin.definition.stage,
            tag="streamproof/by-tag:0",
            arguments={**thin.arguments, "BASE": debian_base.name},
            labels={},
            address=docker_host,
            id_file=tmp_path / "id",
        )
        said = run_build(thin.builder, build, say=print)
        assert any(f"{MARK}the base {debian_base.name} has no digest" in line for line in said)

    def test_one_that_is_not_there(self, docker_client: docker.DockerClient, debian_base: Base) -> None:
        base = replace(debian_base, digest="sha256:" + "0" * 64)
        with pytest.raises(StreamproofError, match="no image with the digest") as caught:
            ensure_image("h200-fp8", say=print, client=docker_client, base=base)
        assert "--base-image" in caught.value.remedy
        assert nothing_is_left(docker_client, "h200-fp8", image_definition("h200-fp8", base=base).tag)

    def test_a_registry_that_does_not_answer(self, docker_client: docker.DockerClient) -> None:
        base = parse_base("127.0.0.1:1/vllm@sha256:" + "0" * 64, python=None, glibc=None)
        with pytest.raises(StreamproofError, match="cannot be reached"):
            ensure_image("h200-fp8", say=print, client=docker_client, base=base)

    @pytest.mark.parametrize(
        ("name", "message"),
        [("127.0.0.1:1/python", "cannot be reached"), ("{registry}/nobody", "no image with|not give")],
    )
    def test_one_that_cannot_be_had_is_told_before_packages_are_fetched(
        self,
        docker_client: docker.DockerClient,
        registry: str,
        monkeypatch: pytest.MonkeyPatch,
        name: str,
        message: str,
    ) -> None:
        monkeypatch.setattr("bench.images.wheels.WheelStore.collect", lambda *_, **__: pytest.fail("fetched packages"))
        reference = f"{name.format(registry=registry)}@sha256:{'0' * 64}"
        base = parse_base(reference, python="3.11", glibc=36)
        with pytest.raises(StreamproofError, match=message):
            ensure_image("bench", say=print, client=docker_client, base=base)

    def test_one_with_another_python_than_the_wheels_are_for(
        self, docker_client: docker.DockerClient, debian_base: Base, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("bench.images.wheels.WheelStore.collect", lambda *_, **__: [])
        monkeypatch.setattr("bench.images.build.extract_uv", lambda *_, **__: b"")
        with pytest.raises(StreamproofError, match=r"the base has Python 3\.11") as caught:
            ensure_image("bench", say=print, client=docker_client, base=replace(debian_base, python="3.12"))
        assert "--base-python" in caught.value.remedy

    def test_one_whose_python_is_not_known(self, docker_client: docker.DockerClient, debian_base: Base) -> None:
        definition = image_definition("bench", base=debian_base)
        unknown = replace(definition, base=replace(debian_base, python=None))
        with (
            pytest.raises(StreamproofError, match="not known which Python"),
            prepared(unknown, docker_client, caches=None, say=print, terminal=False),
        ):
            pass


class TestTwice:
    def test_two_builds_are_the_same_and_the_image_is_kept(
        self, docker_client: docker.DockerClient, thin: Prepared
    ) -> None:
        compared = build_twice(thin)
        try:
            assert compared.same
            assert compared.differing == ()
            assert docker_client.images.get(thin.definition.tag).id == compared.image.id
            tags = [tag for image in docker_client.images.list() for tag in image.tags]
            assert [tag for tag in tags if tag.endswith(("-first", "-second"))] == []
        finally:
            docker_client.images.remove(compared.image.id, force=True)

    def test_what_differs_is_named(
        self, docker_client: docker.DockerClient, thin: Prepared, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        once = Prepared.run

        def and_then_change(self: Prepared, tag: str, *, fresh: bool = False) -> BuiltImage:
            image = once(self, tag, fresh=fresh)
            with (self.context / "tools/bench/images/inside/health.py").open("a") as file:
                file.write("# a second build\n")
            return image

        monkeypatch.setattr(Prepared, "run", and_then_change)
        compared = build_twice(thin)
        assert not compared.same
        (line,) = compared.differing
        assert line.startswith("layer 3: opt/streamproof/health.py: size ")
        assert line.endswith(", content")
        assert nothing_is_left(docker_client, "x", thin.definition.tag)


class TestCaches:
    def test_they_are_in_the_image_and_a_new_volume_begins_with_them(
        self, docker_client: docker.DockerClient, cuda_base: Base, tmp_path: Path
    ) -> None:
        (tmp_path / "vllm/torch_compile_cache").mkdir(parents=True)
        (tmp_path / "vllm/torch_compile_cache/kernel").write_text("compiled")
        image = ensure_image("b200-fp8", say=print, client=docker_client, base=cuda_base, caches=tmp_path)
        volume = docker_client.volumes.create()
        try:
            assert image.reference != image_definition("b200-fp8", base=cuda_base).tag
            script = f"find {CACHES} -name kernel -printf '%U %P\\n' && touch {CACHES}/writable"
            mounts = {str(volume.name): f"{CACHES}:rw"}
            said = run(docker_client, image.id, "-c", script, mounts=mounts, entrypoint="/bin/sh")
            assert said == (0, f"{USER_ID} vllm/torch_compile_cache/kernel\n")
        finally:
            volume.remove()
            docker_client.images.remove(image.id, force=True)


class TestItEnds:
    def test_before_anything_is_fetched_where_the_disk_is_too_small(
        self, docker_client: docker.DockerClient, debian_base: Base
    ) -> None:
        huge = replace(image_definition("cpu", base=debian_base), build_gib=1e6)
        with (
            pytest.raises(StreamproofError, match=r"building cpu needs 1e\+06 GiB; .* GiB are free at"),
            prepared(huge, docker_client, caches=None, say=pytest.fail, terminal=False),
        ):
            pass

    def test_with_ctrl_c_and_nothing_is_left(self, docker_client: docker.DockerClient, debian_base: Base) -> None:
        def stop(line: str) -> None:
            if "installing packages" in line:
                raise KeyboardInterrupt

        definition = replace(image_definition("bench", base=debian_base), target="interrupted")
        with (
            pytest.raises(KeyboardInterrupt),
            prepared(definition, docker_client, caches=None, say=stop, terminal=False) as build,
        ):
            build.run(definition.tag, fresh=True)
        assert nothing_is_left(docker_client, "interrupted", definition.tag)
