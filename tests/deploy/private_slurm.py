"""A Slurm of the tests' own: one controller, one node with two pretended GPUs, in one temporary folder.

Where it cannot be started the tests skip and say why; in CI (`CI=true`) that is a failure. In CI, as root and with
apt-get, Debian's packages are installed first.
"""

from __future__ import annotations

import os
import socket
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import pytest

from bench.engine.guarded import GuardedProcess
from bench.engine.process import free_port
from tests.debian_packages import NotInstalledError, find_program

PACKAGES = {"munged": "munge", "slurmctld": "slurmctld", "slurmd": "slurmd", "sbatch": "slurm-client"}
"""Program to Debian package."""

PATIENCE = 1200
"""Looks, each after `PAUSE_S`: whatever has not happened by then hangs."""
PAUSE_S = 0.05
GRACE_S = 10.0

SETTINGS = """\
ClusterName=tests
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller}
SlurmdPort={node}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
GresTypes=gpu
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
ReturnToService=2
NodeName={host} NodeAddr=127.0.0.1 CPUs=1 RealMemory=100 Gres=gpu:2 State=UNKNOWN
PartitionName=all Nodes={host} Default=YES MaxTime=INFINITE State=UP
"""


@dataclass(frozen=True)
class Slurm:
    """A running cluster.

    Attributes:
        variables: that its programs find it by.
    """

    variables: Mapping[str, str]

    def ask(self, *command: str) -> str:
        """What one of its programs says."""
        done = subprocess.run(command, env={**os.environ, **self.variables}, capture_output=True, text=True, check=True)
        return done.stdout

    def job(self, number: str) -> dict[str, str]:
        """What `scontrol show job` says of a job."""
        return dict(
            pair.partition("=")[::2] for pair in self.ask("scontrol", "show", "job", number).split() if "=" in pair
        )


def until(found: Callable[[], bool], *, otherwise: Callable[[], str]) -> None:
    """Returns once it is so.

    Raises:
        AssertionError: it never was.
    """
    wait = threading.Event()
    for _ in range(PATIENCE):
        if found():
            return
        wait.wait(PAUSE_S)
    raise AssertionError(otherwise())


@pytest.fixture(scope="module")
def slurm() -> Iterator[Slurm]:
    """The cluster, with its node idle."""
    for program in PACKAGES:
        _have(program)
    if os.geteuid() != 0:
        _unavailable("only root can start Slurm's daemons for others")
    with tempfile.TemporaryDirectory(prefix="streamproof-slurm-") as name, ExitStack() as stack:
        folder = Path(name)
        folder.chmod(0o755)
        _prepare(folder)
        variables = {"SLURM_CONF": str(folder / "slurm.conf")}
        munge = [f"--{what}={folder}/munge.{what.partition('-')[0]}" for what in ("key-file", "socket", "pid-file")]
        more = [f"--log-file={folder}/munge.log", f"--seed-file={folder}/munge.seed", "--num-threads=4"]
        for command in (["munged", "--foreground", "--force", *munge, *more], ["slurmctld", "-D"], ["slurmd", "-D"]):
            log = folder / f"{command[0]}.out"
            environment = {**os.environ, **variables}
            process = GuardedProcess([_have(command[0]), *command[1:]], env=environment, log=log, grace_s=GRACE_S)
            stack.callback(process.stop)
            if command[0] == "munged":
                until((folder / "munge.socket").exists, otherwise=log.read_text)
        cluster = Slurm(variables)
        until(lambda: _idle(cluster), otherwise=lambda: _logs(folder))
        yield cluster


def _prepare(folder: Path) -> None:
    settings = SETTINGS.format(
        folder=folder, host=socket.gethostname().partition(".")[0], controller=free_port(), node=free_port()
    )
    (folder / "slurm.conf").write_text(settings)
    (folder / "gres.conf").write_text(f"Name=gpu File={folder}/gpu[0-1]\n")
    for pretended in ("gpu0", "gpu1"):
        (folder / pretended).touch()
    for made in ("state", "spool"):
        (folder / made).mkdir()
    (folder / "munge.key").write_bytes(os.urandom(128))
    (folder / "munge.key").chmod(0o400)


def _idle(cluster: Slurm) -> bool:
    try:
        return cluster.ask("sinfo", "--noheader", "--format=%T").strip() == "idle"
    except subprocess.CalledProcessError:  # the controller does not listen yet
        return False


def _logs(folder: Path) -> str:
    return "\n".join(path.read_text()[-1500:] for path in folder.glob("*.out"))


def _have(program: str) -> str:
    """Its path; installed first in CI."""
    try:
        found = find_program(program, PACKAGES.values())
    except NotInstalledError as error:
        _unavailable(str(error))
    return found or _unavailable(f"{program} is not installed (Debian: apt-get install {PACKAGES[program]})")


def _unavailable(reason: str) -> NoReturn:
    if os.environ.get("CI") == "true":
        pytest.fail(f"in CI there must be a Slurm: {reason}")
    pytest.skip(reason)
