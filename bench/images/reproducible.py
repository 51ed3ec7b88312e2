"""Whether an image is the same when it is built again: twice from nothing, layer by layer."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from docker.errors import DockerException

from bench.engine.docker_errors import explained
from bench.images.layers import differences, read_saved

if TYPE_CHECKING:
    import docker

    from bench.images.build import BuiltImage, Prepared


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Two builds of one definition.

    Attributes:
        image: the first one, under the name of its definition when both are the same.
        second_layers: digests of the other's layers.
        differing: what differs, "layer 2: etc/passwd: time 1 and 2"; empty when every digest is the same.
    """

    image: BuiltImage
    second_layers: tuple[str, ...]
    differing: tuple[str, ...]

    @property
    def same(self) -> bool:
        """Every layer has the same digest."""
        return self.image.layers == self.second_layers


def build_twice(build: Prepared) -> Comparison:
    """Build an image twice without the builder's cache, and compare.

    When both are the same the first is kept under the name of its definition. Otherwise neither is.

    Args:
        build: prepared.

    Raises:
        StreamproofError: a build failed.
    """
    client, tag = build.client, build.definition.tag
    tags = [f"{tag}-first", f"{tag}-second"]
    try:
        first, second = (build.run(name, fresh=True) for name in tags)
        if first.layers == second.layers:
            client.images.get(first.id).tag(*tag.split(":"))
            return Comparison(image=first, second_layers=second.layers, differing=())
        build.say("The layers differ; looking at their files")
        found = _differing(client, first, second)
        return Comparison(image=first, second_layers=second.layers, differing=tuple(found))
    except DockerException as error:
        raise explained(error, f"compare two builds of {tag}") from error
    finally:
        for name in tags:
            with suppress(DockerException):  # the name is gone, or was never given
                client.images.remove(name)


def _differing(client: docker.DockerClient, first: BuiltImage, second: BuiltImage) -> list[str]:
    one, other = (read_saved(client.images.get(image.id).save()) for image in (first, second))
    found = []
    for number, (a, b) in enumerate(zip(one, other, strict=False), 1):
        if first.layers[number - 1] != second.layers[number - 1]:
            lines = differences(a, b) or ["the same files in another order"]
            found += [f"layer {number}: {line}" for line in lines]
    if len(one) != len(other):
        found.append(f"{len(one)} layers and {len(other)}")
    return found
