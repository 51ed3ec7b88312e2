"""Wheels made by hand, and locks that name them."""

from __future__ import annotations

import hashlib
import zipfile
from pathlib import Path


def wheel(folder: Path, name: str, version: str = "1.0", tag: str = "py3-none-any", **files: str) -> Path:
    """A wheel with these modules, and one that is empty."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}-{version}-{tag}.whl"
    about = f"{name}-{version}.dist-info"
    contents = {
        f"{name}.py": "",
        **{f"{module}.py": text for module, text in files.items()},
        f"{about}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{about}/WHEEL": f"Wheel-Version: 1.0\nGenerator: hand\nRoot-Is-Purelib: true\nTag: {tag}\n",
    }
    contents[f"{about}/RECORD"] = "".join(f"{member},,\n" for member in (*contents, f"{about}/RECORD"))
    with zipfile.ZipFile(path, "w") as archive:
        for member, text in contents.items():
            archive.writestr(member, text)
    return path


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def locked(requirement: str, *paths: Path) -> str:
    """A block of a lock: what may be it, each by hash."""
    return " \\\n".join((requirement, *(f"    --hash=sha256:{sha256(path)}" for path in paths))) + "\n"
