"""One folder for everything that an engine compiles, so that it can be kept, moved and counted as cold or warm.

A start from nothing compiles for minutes; what it made is found by the next start of the same recipe. Read in the
sources of vLLM 0.26.0 (vllm/envs.py, compilation/, utils/deep_gemm.py, third_party/fmha_sm100/jit.py), FlashInfer
0.6.14 (jit/env.py), apache-tvm-ffi 0.1.10, Triton 3.6.0 (knobs.py), torch 2.11.0 (_inductor) and the CuTe DSL 4.6.0:

- vLLM sets `TORCHINDUCTOR_CACHE_DIR` and, with torch.compile, `TRITON_CACHE_DIR` itself, to folders below its own
  root. What is compiled before that, or without, goes where we say.
- vLLM sets `DG_JIT_CACHE_DIR` to `deep_gemm` below its root unless it is set: we say the same place.
- FlashInfer puts `.cache/flashinfer` below its base, compiled code and downloaded cubins alike.
- CUDA's driver keeps what it translates from PTX.

Compiled code is right only on what it was compiled for. A folder is therefore that of a recipe's engine, whatever
workload and ladder it is for, and of everything in `MadeWith` that makes code another code: on another card, driver,
release or package set an engine gets another folder, starts cold, and says so.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from bench.engine import compile_cache
from bench.errors import StreamproofError
from bench.report.folder_files import canonical_json, write_whole

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from bench.observe.environment import Environment
    from bench.observe.gpu import Gpu
    from recipes.schema import Recipe

MANIFEST: Final = "made-with.json"
"""Beside the caches of an engine: what they were made with."""

LABEL: Final = "io.streamproof.caches"
"""Of a Docker volume with caches: the same as JSON."""

_DIGITS: Final = 12


class MadeWith(BaseModel):
    """What compiled code was made with. Two starts share caches only where `key` and the fingerprint are the same.

    Attributes:
        schema_: of this description.
        fingerprint: of the recipe's engine (`recipes.fingerprint.engine_fingerprint`), 64 hex digits.
        target: the recipe's.
        engine: "process" or "docker".
        version: of the engine.
        devices: product names of the GPUs; without one, the CPU's.
        driver: major version of the GPUs' driver; None without one.
        packages: hash over the engine's packages; of a container, its image's id.
        run: the report of the run that began them, "TARGET/TIME-FINGERPRINT"; None where there was none.
        came_from: how they got here, where they were not made here: who signed them, or that somebody accepted them.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, serialize_by_alias=True, validate_by_name=True)

    schema_: Literal[1] = Field(1, alias="schema")
    fingerprint: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    target: str
    engine: Literal["process", "docker"]
    version: str
    devices: tuple[str, ...]
    driver: str | None
    packages: str
    run: str | None = None
    came_from: str | None = None

    @property
    def key(self) -> str:
        """64 hex digits over everything but the recipe that makes compiled code another code."""
        decides = self.model_dump(mode="json", include={"engine", "version", "devices", "driver", "packages"})
        return hashlib.sha256(json.dumps(decides, sort_keys=True, separators=(",", ":")).encode()).hexdigest()

    @property
    def place(self) -> Path:
        """Of the caches, below the folder of all caches: "FINGERPRINT/KEY", 12 digits of each."""
        return Path(self.fingerprint[:_DIGITS]) / self.key[:_DIGITS]

    def differences(self, other: MadeWith) -> tuple[str, ...]:
        """In words, what code of `other` was made with that is not so here."""
        pairs = (
            ("card", " + ".join(other.devices), " + ".join(self.devices)),
            ("driver", other.driver, self.driver),
            ("engine", other.version, self.version),
            ("kind of engine", other.engine, self.engine),
            ("package set", other.packages[:_DIGITS], self.packages[:_DIGITS]),
        )
        return tuple(f"{name} {theirs} instead of {ours}" for name, theirs, ours in pairs if theirs != ours)


def made_with(  # noqa: PLR0913  everything that compiled code depends on
    recipe: Recipe,
    *,
    fingerprint: str,
    engine: Literal["process", "docker"],
    machine: Environment,
    gpus: Sequence[Gpu],
    packages: str,
    run: str | None = None,
) -> MadeWith:
    """What an engine's caches are made with that starts here and now.

    Args:
        recipe: resolved.
        fingerprint: of its engine.
        engine: who starts it.
        machine: this host.
        gpus: those that it will use.
        packages: hash over the engine's packages, or the id of its image.
        run: the report that the run belongs to.
    """
    return MadeWith(
        fingerprint=fingerprint,
        target=recipe.target,
        engine=engine,
        version=recipe.engine.version,
        devices=tuple(sorted(gpu.name for gpu in gpus)) or (machine.host.cpu,),
        driver=machine.driver.version.partition(".")[0] if gpus and machine.driver else None,
        packages=packages,
        run=run,
    )


def open_caches(root: Path, here: MadeWith) -> Path:
    """The folder that an engine shall keep its caches in: made if there is none, and marked as used now.

    Args:
        root: of all caches.
        here: what the engine will run on and with.

    Raises:
        StreamproofError: it cannot be written, or holds something that nobody described.
    """
    folder = root / here.place
    if folder.is_dir() and any(folder.iterdir()):
        found = read_manifest(folder)
        if found is None or (found.fingerprint, found.key) != (here.fingerprint, here.key):
            raise StreamproofError(
                f"nobody says what the compiled code in {folder} was made with, and it would be executed",
                remedy="Remove the folder, or bring caches with `just caches import`.",
            )
        os.utime(folder / MANIFEST)
        return folder
    write_manifest(folder, here)
    return folder


def why_cold(root: Path, here: MadeWith) -> tuple[str, ...]:
    """A line for every folder of compiled code of the same recipe that a start here cannot use.

    Args:
        root: of all caches.
        here: what the engine will run on and with.
    """
    found = map(read_manifest, sorted((root / here.place).parent.glob("*/")))
    return unusable(filter(None, found), here)


def unusable(others: Iterable[MadeWith], here: MadeWith) -> tuple[str, ...]:
    """A line for each of these caches that is of the same recipe, but was made with something else than is here."""
    return tuple(
        f"compiled code of this recipe is here and not used: it was made with {', '.join(here.differences(other))}"
        for other in others
        if other.fingerprint == here.fingerprint and other.key != here.key
    )


def read_manifest(folder: Path) -> MadeWith | None:
    """What the caches in a folder were made with; None where nobody says."""
    try:
        return parse_manifest((folder / MANIFEST).read_bytes())
    except OSError:
        return None


def parse_manifest(raw: bytes | str) -> MadeWith | None:
    """What a description says; None where it is none."""
    try:
        return MadeWith.model_validate_json(raw)
    except ValidationError:
        return None


def write_manifest(folder: Path, described: MadeWith) -> None:
    """Says what the caches in a folder, which is made, were made with.

    Raises:
        StreamproofError: it cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StreamproofError(
            f"{error.filename or folder} cannot be made: {error.strerror}",
            remedy="Make room there, or set XDG_CACHE_HOME to another folder.",
        ) from error
    write_whole(folder / MANIFEST, canonical_json(described.model_dump(mode="json")))


def volume_name(described: MadeWith) -> str:
    """Name of the Docker volume for these caches: what would be another folder is another volume."""
    return f"streamproof-caches-{'-'.join(described.place.parts)}"


def volume_labels(described: MadeWith) -> dict[str, str]:
    """Labels of that volume: a volume cannot be looked into from outside, its labels can."""
    return {LABEL: described.model_dump_json()}


def from_volume_labels(labels: Mapping[str, str] | None) -> MadeWith | None:
    """What the caches in a volume were made with; None where nobody says."""
    return parse_manifest((labels or {}).get(LABEL, ""))


def cache_environment(folder: Path) -> dict[str, str]:
    """Environment variables that make an engine keep everything it compiles in `folder`, which need not exist."""
    vllm = folder / "vllm"
    return {
        "VLLM_CACHE_ROOT": str(vllm),
        "DG_JIT_CACHE_DIR": str(vllm / "deep_gemm"),
        "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor"),
        "TRITON_CACHE_DIR": str(folder / "triton"),
        "FLASHINFER_WORKSPACE_BASE": str(folder / "flashinfer"),
        "TVM_FFI_CACHE_DIR": str(folder / "tvm-ffi"),
        "CUTE_DSL_CACHE_DIR": str(folder / "cute-dsl"),
        "MINFER_FMHA_CACHE_DIR": str(folder / "fmha-sm100"),
        "CUDA_CACHE_PATH": str(folder / "cuda"),
    }


def is_cold(folder: Path) -> bool:
    """Whether an engine that keeps its caches in `folder` has nothing compiled there yet."""
    return compile_cache.is_cold(cache_environment(folder))
