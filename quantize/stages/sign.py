"""The last stage: the checkpoint takes its place, and is signed if its audit passed.

The signature is OpenSSF model-signing's, over every file of the folder, with the key that signs reports. A checkpoint
whose audit failed is left for people to look at, without a signature.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import TYPE_CHECKING, Final

from bench.engine.child_env import child_environment
from bench.errors import StreamproofError
from bench.report import keys
from bench.report.folder_files import canonical_json, put, write_whole
from quantize.attested import check_signature
from quantize.audit.model import FILE_NAME as AUDIT
from quantize.provenance import FILE_NAME, SIGNATURE, Provenance
from quantize.stages import audit, carry

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from quantize.environment import WorkerPython
    from quantize.stages.stage import Workshop

NAME: Final = "sign"


def sign(
    provenance: Provenance, shop: Workshop, out: Path, *, worker: WorkerPython, say: Callable[[str], None]
) -> None:
    """Publishes the checkpoint.

    Args:
        provenance: how it was made, and whether the audit passed.
        shop: where stages work.
        out: the folder that it shall be.
        worker: an interpreter that has model-signing.
        say: takes a line.

    Raises:
        StreamproofError: it cannot be written or signed.
    """
    content = canonical_json(provenance.model_dump(mode="json"))
    if _is_published(out, content, signed=provenance.audited):
        say(f"{NAME}: done before")
        return
    partial = out.with_name(f".{out.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    folder = partial / out.name  # its name is in the signature
    try:
        shutil.copytree(shop.place(carry.NAME) / carry.CHECKPOINT, folder, copy_function=_second_name, ignore=_hidden)
        shutil.copyfile(shop.place(audit.NAME) / AUDIT, folder / AUDIT)
        write_whole(folder / FILE_NAME, content)
        if provenance.audited:
            _sign(folder, worker)
            _check_signed(folder, provenance)
        if out.exists():
            out.rename(partial / "before")  # never half a folder in its place
        put(folder, out)
        shutil.rmtree(partial)
    except OSError as error:
        raise StreamproofError(
            f"cannot write {error.filename or partial}: {error.strerror}",
            remedy="Free some space, or mend the permissions, and run it again.",
        ) from error


def is_ours(out: Path) -> bool:
    """Whether a folder was published by us, so that it may be replaced."""
    return (out / FILE_NAME).is_file()


def _is_published(out: Path, content: bytes, *, signed: bool) -> bool:
    try:
        same = (out / FILE_NAME).read_bytes() == content
    except OSError:
        return False
    if not same or not signed:
        return same
    try:
        check_signature(out, _own_key())
    except StreamproofError:
        return False
    return True


def _sign(folder: Path, worker: WorkerPython) -> None:
    keys.own_signer()  # makes it where there is none
    key = keys.keys_folder() / keys.PRIVATE_NAME
    options = ["--private_key", str(key), "--signature", str(folder / SIGNATURE)]
    answer = subprocess.run(  # noqa: S603  our own arguments
        [str(worker.python), "-m", "model_signing", "sign", "key", *options, str(folder)],
        capture_output=True,
        text=True,
        check=False,
        env=child_environment({"PYTHONPATH": worker.extra_path} if worker.extra_path else {}),
    )
    if answer.returncode:
        said = "".join(f"\n  {line}" for line in (answer.stdout + answer.stderr).splitlines()[-8:])
        raise StreamproofError(
            f"the checkpoint could not be signed: model_signing ended with status {answer.returncode}{said}",
            remedy="An interpreter of your own needs model-signing and pyopenssl (docker/locks/quantize.in).",
        )


def _check_signed(folder: Path, provenance: Provenance) -> None:
    """Refuses a signature over other bytes than those that were audited."""
    carried = next(stage for stage in provenance.stages if stage.stage == carry.NAME).outputs
    signed = check_signature(folder, _own_key()).digests
    for name, record in carried.items():
        if signed.get(name.removeprefix(f"{carry.CHECKPOINT}/")) != record.sha256:
            raise StreamproofError(
                f"{name} changed between its audit and its signature",
                remedy="Run it again, and let nobody else write there.",
            )


def _own_key() -> dict[str, keys.TrustedKey]:
    signer = keys.own_signer()
    return {signer.key_id: keys.TrustedKey(signer.key_id, signer.public, "your own key")}


def _second_name(source: str, place: str) -> str:
    """Links a file instead of copying it, where the disk is the same."""
    try:
        os.link(source, place)
    except OSError:
        shutil.copyfile(source, place)
    return place


def _hidden(_folder: str, names: list[str]) -> list[str]:
    return [name for name in names if name.startswith(".")]
