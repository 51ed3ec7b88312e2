"""The first stage: the BF16 checkpoint, every file of it known by its hash.

From the hub only a commit is taken, and every file is checked against the hash that the hub gives. A folder on this
machine is left where it is, and its hashes are recorded.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from bench.engine.pins import REPOSITORY
from bench.errors import StreamproofError, UsageError
from bench.report.folder_files import canonical_json, write_whole
from bench.report.verify_json import HostileJsonError, strict_loads
from quantize import hub
from quantize.audit.folder import open_checkpoint
from quantize.model_shape import ModelShape, check_config, check_names
from quantize.stages.stage import Key, Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from quantize.stages.stage import Workshop
    from quantize.target import Target

NAME: Final = "fetch"
CONFIG: Final = "config.json"
_FILES: Final = "files"
_LIST: Final = "source.json"


@dataclass(frozen=True, kw_only=True)
class Found:
    """A source that can be quantized, before any of its weights are here.

    Attributes:
        where: for people.
        shape: of the model.
        download_bytes: still to be taken from the hub; 0 for a folder.
        folder: where it is; None for the hub.
        files: what the hub says of them; empty for a folder.
    """

    where: str
    shape: ModelShape
    download_bytes: int
    folder: Path | None
    files: Mapping[str, hub.HubFile]


@dataclass(frozen=True, kw_only=True)
class Source:
    """A source that is here.

    Attributes:
        folder: its files.
        digests: SHA-256 of every file.
        config: its config.json.
    """

    folder: Path
    digests: dict[str, str]
    config: dict[str, Any]


def find(target: Target, *, folder: Path | None, work: Path) -> Found:
    """Looks at a source without taking its weights.

    Args:
        target: what to quantize.
        folder: a folder that takes the place of the target's source.
        work: where a small file may be put.

    Raises:
        StreamproofError: it is not there, or cannot be quantized, and why.
    """
    if folder is None and target.source.folder is not None:
        folder = REPOSITORY / target.source.folder
    if folder is not None:
        return _find_folder(folder)
    repository = target.source.repository or ""
    files = hub.files_of(repository, target.source.revision)
    revision = target.source.revision or ""
    where = f"{repository} at {revision[:12]}"
    check_names(list(files), where)
    if "hf_quant_config.json" in files:
        raise _quantized(where)
    if CONFIG not in files:
        raise StreamproofError(f"{where} has no {CONFIG}", remedy="Name a repository in the layout of transformers.")
    looked_at = work / ".looked-at"
    config = _config(hub.download(repository, revision, CONFIG, files[CONFIG], looked_at))
    size = sum(file.size for file in files.values())
    return Found(where=where, shape=check_config(config, where), download_bytes=size, folder=None, files=files)


def _find_folder(folder: Path) -> Found:
    if not folder.is_dir():
        raise UsageError(f"the source {folder} is no folder", remedy="Name the folder of a BF16 checkpoint.")
    where = str(folder)
    check_names([path.name for path in folder.iterdir()], where)
    if (folder / "hf_quant_config.json").exists():
        raise _quantized(where)
    shape = check_config(_config(folder / CONFIG), where)
    _check_tensors(folder)
    return Found(where=where, shape=shape, download_bytes=0, folder=folder.resolve(), files={})


def fetch(
    found: Found, target: Target, shop: Workshop, *, say: Callable[[str], None], on_file: Callable[[str, int], None]
) -> Source:
    """Brings the source here, or records what it is.

    Args:
        found: by `find`.
        target: what to quantize.
        shop: where stages work.
        say: takes a line.
        on_file: told the name and size of every file that is here and checked.

    Raises:
        StreamproofError: a file is not what the hub promised, or does not fit.
    """
    if found.folder is not None:
        return _record(found.folder, shop, say=say, on_file=on_file)
    repository, revision = target.source.repository or "", target.source.revision or ""

    def take(partial: Path) -> Outcome:
        for name, file in sorted(found.files.items(), key=lambda item: (item[1].size, item[0])):
            if not any(part.startswith(".") for part in name.split("/")):  # .gitattributes and the like
                hub.download(repository, revision, name, file, partial / _FILES)
                on_file(name, file.size)
        shutil.rmtree(partial / _FILES / ".cache", ignore_errors=True)  # the hub client's notes
        return Outcome()

    promised = {name: file.sha256 or file.blob for name, file in found.files.items()}
    parameters = {"repository": repository, "revision": revision, "files": promised}
    manifest = shop.run(NAME, Key(inputs={}, parameters=parameters), take, say=say)
    folder = shop.place(NAME) / _FILES
    _check_tensors(folder)
    digests = {name.removeprefix(f"{_FILES}/"): digest for name, digest in manifest.digests().items()}
    return Source(folder=folder, digests=digests, config=_config(folder / CONFIG))


def _record(folder: Path, shop: Workshop, *, say: Callable[[str], None], on_file: Callable[[str, int], None]) -> Source:
    files = sorted(path for path in folder.iterdir() if path.is_file() and not path.name.startswith("."))
    found = shop.hashes.of(files, on_file=lambda path: on_file(path.name, path.stat().st_size))
    digests = {path.name: found[path] for path in files}

    def note(partial: Path) -> Outcome:
        write_whole(partial / _LIST, canonical_json(digests))
        return Outcome()

    shop.run(NAME, Key(inputs=digests, parameters={}), note, say=say)
    return Source(folder=folder, digests=digests, config=_config(folder / CONFIG))


def _config(path: Path) -> dict[str, Any]:
    try:
        config = strict_loads(path.read_bytes())
    except OSError as error:
        raise StreamproofError(
            f"{path} cannot be read: {error.strerror}", remedy="Name the folder of a BF16 checkpoint."
        ) from error
    except HostileJsonError as error:
        raise StreamproofError(f"{path} is not JSON: {error}", remedy="Take the file anew.") from error
    if not isinstance(config, dict):
        raise StreamproofError(f"{path} is no JSON object", remedy="Take the file anew.")
    return config


def _check_tensors(folder: Path) -> None:
    """Refuses a folder whose tensors cannot be read, before hours of work."""
    checkpoint = open_checkpoint(folder)
    if checkpoint.faults:
        first = checkpoint.faults[0]
        more = f", and {len(checkpoint.faults) - 1} more" if len(checkpoint.faults) > 1 else ""
        raise StreamproofError(
            f"the source {folder} is damaged: {first.name} {first.reason}{more}", remedy="Take its files anew."
        )
    if any(name.endswith((".weight_scale", ".weight_scale_inv")) for name in checkpoint.tensors):
        raise _quantized(str(folder))
    experts = [name for name in checkpoint.tensors if name.endswith("layers.0.mlp.experts.gate_up_proj")]
    if not experts:
        raise StreamproofError(
            f"the source {folder} has no fused experts (layers.0.mlp.experts.gate_up_proj)",
            remedy="Take the checkpoint as its makers published it; others may have split its experts.",
        )


def _quantized(where: str) -> StreamproofError:
    return StreamproofError(f"{where} is quantized already", remedy="Name the BF16 checkpoint that it was made from.")
