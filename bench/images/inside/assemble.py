"""Puts an image together: `python3 -m bench.images.inside.assemble`, run once by every stage of the Dockerfile.

What it works with lies in the context, which is mounted at `CONTEXT`:

    uv, lock.txt, wheels/   packages to install, each with its hash in the lock (not in every image)
    source/                 modules of ours (not in every image)
    caches/                 what an engine has compiled, to be baked in (seldom)

The network is off. Everything is one layer; its files have one time.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bench.images.inside import bytecode, carried, health, people, records, times
from bench.images.inside.refusal import MARK, BuildRefusedError
from bench.images.layout import CACHES, HOME, ROOT, USER_ID

CONTEXT: Final = Path("/mnt")

_BY_DIGEST: Final = re.compile(r".+@sha256:[0-9a-f]{64}")


@dataclass(frozen=True, kw_only=True)
class Arguments:
    """The build's arguments, which a stage declares with ARG.

    Attributes:
        base: BASE, the image that this is built on, by digest.
        epoch: SOURCE_DATE_EPOCH, seconds since 1970.
        carries: CARRIES, distributions that must be inside.
        python: PYTHON, major and minor version that the wheels are for; empty where there are none.
    """

    base: str
    epoch: int
    carries: Mapping[str, str]
    python: str


def read_arguments(variables: Mapping[str, str]) -> Arguments:
    """The arguments, from the environment of a RUN.

    Raises:
        BuildRefusedError: one is missing or wrong.
    """
    base = variables.get("BASE", "")
    if _BY_DIGEST.fullmatch(base) is None:
        raise BuildRefusedError(f"the base {base or '(none)'} has no digest: give --build-arg BASE=NAME@sha256:...")
    epoch = variables.get("SOURCE_DATE_EPOCH", "")
    if not epoch.isdecimal():
        raise BuildRefusedError("SOURCE_DATE_EPOCH is missing: images are built with `just build TARGET`")
    carries = carried.parse(variables.get("CARRIES", ""))
    return Arguments(base=base, epoch=int(epoch), carries=carries, python=variables.get("PYTHON", ""))


def assemble(arguments: Arguments, *, context: Path = CONTEXT, root: Path = Path("/")) -> None:
    """Do all of it.

    Args:
        arguments: of the build.
        context: where the context is mounted.
        root: of the image.

    Raises:
        BuildRefusedError: the image would not be what it is defined to be.
    """
    began_ns = _now_ns(root)
    ours = root / ROOT.lstrip("/")
    ours.mkdir(parents=True)
    people.add_user(root, number=USER_ID, home=HOME)
    caches = root / CACHES.lstrip("/")
    if (context / "caches").is_dir():
        _bake(context / "caches", caches)
    people.own_folder(caches, USER_ID)
    python = Path(sys.executable)
    if (context / "lock.txt").is_file():
        python = _install(arguments, context, ours)
    if (context / "source").is_dir():
        shutil.copytree(context / "source", ours / "source", copy_function=shutil.copyfile)
        bytecode.compile_all(python, [ours / "source"])
    shutil.copyfile(health.__file__, ours / "health.py")
    carried.check(arguments.carries, carried.installed(python))
    _say("setting times")
    count = times.set_times(root, since_ns=began_ns, epoch=arguments.epoch)
    _say(f"{count} files and folders have the time {arguments.epoch}")


def _install(arguments: Arguments, context: Path, ours: Path) -> Path:
    """The locked packages, into an environment of their own. Returns its interpreter."""
    here = f"{sys.version_info.major}.{sys.version_info.minor}"
    if here != arguments.python:
        raise BuildRefusedError(f"the base has Python {here}, and the wheels were chosen for {arguments.python}")
    target = ours / "env"
    python = target / "bin" / "python"
    # uv unpacks into its cache and links from there; on the same file system that costs no second copy.
    with tempfile.TemporaryDirectory(dir=ours) as scratch:
        environment = {"PATH": os.environ.get("PATH", ""), "HOME": scratch, "TMPDIR": scratch, "UV_NO_CONFIG": "1"}
        uv = [str(context / "uv"), "--offline", "--no-progress", "--cache-dir", f"{scratch}/cache"]
        _run([*uv, "venv", "--quiet", "--no-project", "--python", sys.executable, str(target)], environment)
        _say("installing packages")
        install = ["pip", "install", "--quiet", "--no-index", "--find-links", str(context / "wheels")]
        checked = ["--require-hashes", "--no-deps", "--only-binary", ":all:", "--link-mode", "hardlink"]
        wanted = ["--python", str(python), "--requirements", str(context / "lock.txt")]
        _run([*uv, *install, *checked, *wanted], environment)
    site = target / "lib" / f"python{here}" / "site-packages"
    if (context / "source").is_dir():
        _add_source(site, context, ours)
    records.settle(site)
    for path in (*target.rglob(".lock"), *target.rglob("CACHEDIR.TAG"), target / ".gitignore"):
        path.unlink(missing_ok=True)
    _say("compiling them to bytecode")
    bytecode.compile_all(python, [site])
    return python


def _add_source(site: Path, context: Path, ours: Path) -> None:
    """Modules of ours are found beside the environment, as in a checkout (see the module site of Python)."""
    (site / "streamproof.pth").write_text(f"{ours / 'source'}\n", encoding="utf-8")
    described = context / "METADATA"
    if described.is_file():
        folder = site / "streamproof.dist-info"
        folder.mkdir()
        shutil.copyfile(described, folder / "METADATA")


def _bake(source: Path, caches: Path) -> None:
    shutil.copytree(source, caches, symlinks=True, copy_function=shutil.copyfile)
    for path in caches.rglob("*"):
        os.chown(path, USER_ID, USER_ID, follow_symlinks=False)


def _say(what: str) -> None:
    sys.stdout.write(f"{what}\n")
    sys.stdout.flush()


def _run(command: list[str], environment: Mapping[str, str]) -> None:
    answer = subprocess.run(  # noqa: S603  the locked uv
        command, check=False, env=environment, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
    )
    if answer.returncode:
        said = " ".join(answer.stderr.split())
        raise BuildRefusedError(f"uv ended with status {answer.returncode}: {said[-1500:]}")


def _now_ns(root: Path) -> int:
    """Now, by the clock of the file system, which can be some milliseconds behind the processor's."""
    with tempfile.NamedTemporaryFile(dir=root) as file:
        return min(os.fstat(file.fileno()).st_ctime_ns, time.time_ns())


def main() -> int:
    """Returns the exit status."""
    try:
        assemble(read_arguments(os.environ))
    except BuildRefusedError as refused:
        sys.stderr.write(f"{MARK}{refused}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
