"""Turns the unpacked files into something that runs: the client's own environment, and what the client must know.

The client gets an environment in the form of a virtual one (PEP 405), so that it sees its own packages and none of the
host's, whatever PYTHONPATH says. It is made by hand: Debian's Python comes without the tool for it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Final

from .layout import CLIENT, CLIENT_ENVIRONMENT, ENGINE_SITE, INSTALLED, LAUNCHER
from .manifest import Manifest
from .refusal import Refusal

_LAUNCHER: Final = """\
#!/bin/sh
# The streamproof of this folder, with its own packages only.
case $0 in */*) here=${0%/*} ;; *) here=. ;; esac
here=$(CDPATH='' cd -- "$here" && pwd -P)
if [ -d "$here/hub" ]; then
    # The checkpoint came with the bundle: nothing is asked of a hub.
    export HF_HUB_CACHE="$here/hub" HF_HUB_OFFLINE=1
fi
exec "$here/client-env/bin/python" -I -m bench "$@"
"""


def finish(root: Path, manifest: Manifest, *, signer: str, host_packages: dict[str, str]) -> None:
    """Writes what depends on this host.

    Args:
        root: the unpacked files.
        manifest: of the bundle.
        signer: id of the key that signed it.
        host_packages: versions of the packages that the host provides.

    Raises:
        Refusal: the client does not start.
    """
    # Of a virtual environment this names the interpreter that it was made from: environments do not nest.
    python = Path(os.path.realpath(getattr(sys, "_base_executable", sys.executable)))
    environment = root / CLIENT_ENVIRONMENT
    (environment / "bin").mkdir(parents=True, exist_ok=True)
    (environment / "bin" / "python").symlink_to(python)
    (environment / "pyvenv.cfg").write_text(
        f"home = {python.parent}\ninclude-system-site-packages = false\n", encoding="utf-8"
    )
    launcher = root / LAUNCHER
    launcher.write_text(_LAUNCHER, encoding="utf-8")
    launcher.chmod(0o755)
    known = {
        "schema": 1,
        "target": manifest.target,
        "version": manifest.version,
        "commit": manifest.commit,
        "engine": manifest.engine,
        "engine_lock_sha256": manifest.engine_lock_sha256,
        "python": sys.executable,
        "host_packages": host_packages,
        "signer": signer,
        "image": manifest.image.reference if manifest.image else None,
    }
    (root / INSTALLED).write_text(json.dumps(known, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    _try_client(root)


def compile_bytecode(root: Path) -> None:
    """Compiles every module once: it saves seconds at each start, and where Python may not write bytecode, minutes.

    A file that is no Python of this version (a template, say) is left as it is.
    """
    folders = [str(root / name) for name in (CLIENT, CLIENT_ENVIRONMENT, ENGINE_SITE) if (root / name).is_dir()]
    subprocess.run(  # noqa: S603  this interpreter
        [sys.executable, "-m", "compileall", "-q", "-j", "0", *folders],
        check=False,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def _try_client(root: Path) -> None:
    answer = subprocess.run(  # noqa: S603  what we have just written
        [str(root / LAUNCHER), "--help"], check=False, capture_output=True, text=True, stdin=subprocess.DEVNULL
    )
    if answer.returncode:
        lines = (answer.stderr or answer.stdout).strip().splitlines() or ["it said nothing"]
        raise Refusal(
            f"the installed client does not start: {lines[-1]}",
            f"This Python may lack parts of its standard library (a Debian minimal one does): {sys.executable}",
        )
