"""The command: checks the bundle, checks the host, unpacks, checks again, and says what to run next."""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from .finish import compile_bytecode, finish
from .image import check_docker, load_image, remove_image
from .layout import IMAGE, LAUNCHER
from .machine import check_host_packages, check_machine, check_space
from .manifest import MANIFEST, BadManifestError, Image, ListedFile, Manifest, parse
from .refusal import COPY_AGAIN, COPY_ALL, Refusal
from .signature import check_file, signed_files
from .unpack import check_unpacked, unpack


def main(arguments: Sequence[str] | None = None, *, bundle: Path) -> int:
    """Installs.

    Args:
        arguments: of the command line.
        bundle: the folder that the installer lies in.

    Returns:
        The exit status: 0 installed, 1 refused, 2 wrong usage, 130 interrupted.
    """
    options = _options(arguments)
    try:
        _install(bundle, options)
    except Refusal as refusal:
        _say(f"error: {refusal.message}\n  do: {refusal.remedy}", sys.stderr)
        return 1
    except OSError as error:
        _say(f"error: {error.filename}: {error.strerror}\n  do: See that it can be written (--to).", sys.stderr)
        return 1
    except KeyboardInterrupt:
        _say("interrupted: nothing was installed", sys.stderr)
        return 130
    return 0


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="sh install.sh",
        description="Installs this bundle into a folder: every file is checked before and after it is unpacked, and "
        "nothing outside the folder is touched, except that an image that comes with it is loaded into Docker.",
        epilog="Before everything else: --python PATH, the Python that has the packages which the bundle leaves to the "
        "host (default: python3).",
    )
    parser.add_argument("--to", type=Path, metavar="DIR", help="the folder to make (default: streamproof-TARGET here)")
    parser.add_argument(
        "--signer", metavar="KEY_ID", help="refuse the bundle unless this key signed it (64 hex digits)"
    )
    parser.add_argument("--check", action="store_true", help="only check the bundle and the host; write nothing")
    parser.add_argument("--no-compile", action="store_true", help="compile no bytecode (a slower first start)")
    return parser.parse_args(arguments)


def _install(bundle: Path, options: argparse.Namespace) -> None:
    signer, signed = signed_files(bundle, options.signer)
    if MANIFEST not in signed:
        raise Refusal(f"{MANIFEST} is not among the signed files", COPY_AGAIN)
    check_file(bundle, MANIFEST, signed[MANIFEST])
    manifest = _manifest(bundle, signed)
    if missing := sorted(name for name in signed if not (bundle / name).is_file()):
        raise Refusal(f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing from {bundle}", COPY_ALL)
    sizes = {part.name: part.size for archive in manifest.archives for part in archive.parts}
    for name in sorted(signed):
        check_file(bundle, name, signed[name], sizes.get(name))
    made = f"streamproof {manifest.version}, commit {manifest.commit[:12]}"
    _say(f"{manifest.target} ({made}): {len(signed)} files checked")
    if options.signer is None:
        _say(f"signed by {signer}: compare this with what its maker told you (or give it as --signer)")
    check_machine(manifest)
    if manifest.image is not None:
        check_docker()
    host_packages = check_host_packages(manifest)
    destination = (options.to or Path.cwd() / f"streamproof-{manifest.target}").absolute()
    check_space(manifest, destination)
    if os.path.lexists(destination):
        raise Refusal(f"{destination} is there already", "Remove it, or name another folder with --to.")
    if options.check:
        _say("the bundle can be installed here; nothing was written")
        return
    destination.parent.mkdir(parents=True, exist_ok=True)
    # Built beside its place and renamed, so that a folder of that name is whole.
    building = Path(tempfile.mkdtemp(prefix=f".{destination.name}.", dir=destination.parent))
    try:
        building.chmod(0o755)
        _unpack_all(bundle, manifest, building)
        with _image_loaded(building / IMAGE, manifest.image):
            finish(building, manifest, signer=signer, host_packages=host_packages)
            building.rename(destination)
    finally:
        shutil.rmtree(building, ignore_errors=True)
    if not options.no_compile:
        _say("compiling bytecode")
        compile_bytecode(destination)
    _say(f"installed in {destination}\nnext: {shlex.join([str(destination / LAUNCHER), *manifest.next_arguments])}")


def _manifest(bundle: Path, signed: dict[str, str]) -> Manifest:
    try:
        manifest = parse((bundle / MANIFEST).read_bytes())
    except BadManifestError as error:
        raise Refusal(f"{MANIFEST}: {error}", "Install it with the install.sh that came with it.") from error
    for archive in manifest.archives:
        for part in archive.parts:
            if signed.get(part.name) != part.sha256:
                raise Refusal(f"{part.name} is not among the signed files", COPY_AGAIN)
    return manifest


@contextmanager
def _image_loaded(folder: Path, image: Image | None) -> Iterator[None]:
    """Has the image in Docker, and takes it back out where the installation fails after that."""
    if image is None:
        yield
        return
    _say(f"loading {image.reference} into Docker")
    loaded = load_image(folder, image)
    shutil.rmtree(folder)
    try:
        yield
    except BaseException:
        if loaded:
            remove_image(image)
        raise


def _unpack_all(bundle: Path, manifest: Manifest, root: Path) -> None:
    before: dict[str, ListedFile] = {}
    for archive in manifest.archives:
        _say(f"unpacking {archive.name}: {archive.file_count:,} files, {archive.unpacked_size / 1e6:,.0f} MB")
        listed = unpack(archive, bundle, root, before)
        check_unpacked(root, listed)
        before |= listed


def _say(line: str, stream: TextIO | None = None) -> None:
    print(line, file=stream, flush=True)
