"""A container whose client is certainly gone is removed; nobody else's is touched."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

import docker
import pytest
from docker.errors import NotFound
from docker.models.containers import Container
from hypothesis import given
from hypothesis import strategies as st

from bench.engine.docker_owner import LABEL, Owner, may_live, sweep
from bench.images.base import Base

words = st.text(st.characters(blacklist_categories=("Z", "C")), min_size=1)
owners = st.builds(Owner, boot=words, namespace=words, pid=st.integers(1, 2**22), started=st.integers(0, 2**40))


@given(owners)
def test_what_a_label_says_is_read_back(owner: Owner) -> None:
    assert Owner.parse(str(owner)) == owner


@pytest.mark.parametrize("label", ["", "x", "boot ns 1", "boot ns one 2", "boot ns 1 -2", "boot ns 1 2 3"])
def test_what_is_no_owner_is_nobodys_to_remove(label: str) -> None:
    assert Owner.parse(label) is None


@given(here=owners, owner=owners, lives=st.booleans())
def test_who_is_gone(here: Owner, owner: Owner, lives: bool) -> None:
    same = replace(owner, boot=here.boot, namespace=here.namespace)
    assert same.is_gone(here, lambda *_: lives) is not lives
    other_container = replace(owner, boot=here.boot, namespace=f"{here.namespace} another")
    assert not other_container.is_gone(here, lambda *_: lives)
    assert replace(owner, boot=f"{here.boot} before").is_gone(here, lambda *_: lives)


def test_this_process_lives_and_its_number_with_another_start_does_not() -> None:
    this = Owner.this()
    assert (this.pid, may_live(this.pid, this.started)) == (os.getpid(), True)
    assert not may_live(this.pid, this.started - 1)


def test_a_process_that_has_ended_does_not_live_also_before_it_is_collected() -> None:
    with subprocess.Popen(["sleep", "60"]) as child:
        fields = Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()
        started = int(fields[19])
        assert may_live(child.pid, started)
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # dead, and still there
        assert not may_live(child.pid, started)
    assert not may_live(child.pid, started)


Make: TypeAlias = Callable[[dict[str, str]], Container]


@pytest.fixture
def make(docker_client: docker.DockerClient, debian_base: Base) -> Iterator[Make]:
    made: list[Container] = []

    def container(labels: dict[str, str]) -> Container:
        made.append(docker_client.containers.create(debian_base.reference, ["sleep", "60"], labels=labels))
        return made[-1]

    yield container
    for one in made:
        try:
            one.remove(force=True)
        except NotFound:
            continue


def test_a_sweep_removes_what_lost_its_client_and_nothing_else(docker_client: docker.DockerClient, make: Make) -> None:
    this = Owner.this()
    gone = {
        make({LABEL: str(replace(this, started=this.started - 1))}).name,
        make({LABEL: str(replace(this, boot="0000-before"))}).name,
    }
    running = make({LABEL: str(replace(this, boot="0001-before"))})
    running.start()
    gone.add(running.name)
    kept = [
        make({LABEL: str(this)}),
        make({LABEL: str(replace(this, namespace="pid:[1]", pid=1))}),
        make({LABEL: "somebody else's label"}),
        make({"com.example": "no label of ours"}),
    ]
    said: list[str] = []
    assert sweep(docker_client, say=said.append) >= len(gone)
    left = {container.name for container in docker_client.containers.list(all=True)}
    assert not left & gone
    assert {container.name for container in kept} <= left
    assert all(any(str(name) in line for line in said) for name in gone)
