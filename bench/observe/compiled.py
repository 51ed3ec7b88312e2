"""Compiled code that appeared in an engine's caches while a point was measured."""

from __future__ import annotations

from typing import Annotated, Final, Literal, Self, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, model_validator

from bench.observe.observed import Observed, Replica, Time

FILES_LISTED: Final = 1_000
"""Of one point: 500 kernels of DeepGEMM, whose compilation takes minutes."""

Cache: TypeAlias = Literal[
    "torch_compile", "deep_gemm", "inductor", "triton", "flashinfer", "tvm_ffi", "cute_dsl", "fmha_sm100", "cuda"
]
"""What keeps its code there: `bench.engine.compile_cache.named_caches`."""

Count: TypeAlias = Annotated[int, Field(ge=0, le=10**9)]
CachePath: TypeAlias = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[ -~]+$")]
WhyNot: TypeAlias = Annotated[str, Field(min_length=1, max_length=300, pattern=r"^[ -~]+$")]


class CompiledFile(BaseModel):
    """A file of compiled code.

    Attributes:
        t: when it was last written. A file system tells that in Unix time, up to a tick of the kernel (10 ms at most)
            too early; it is converted by how the two clocks stood when somebody looked. What the wall clock was set or
            slewed by between the file and the look is therefore in it: 0.5 ms a second at most where it is slewed.
        cache: whose.
        path: below the folder of that cache.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    t: Time
    cache: Cache
    path: CachePath


class CompiledFiles(Observed):
    """What an engine compiled since a point began, looked for after its drain.

    Attributes:
        since: when the point began.
        count: files of compiled code that were written since; null where nobody could look.
        files: of these, by time. Where there are more than `FILES_LISTED`, those that were written before the window
            are left out first, then the latest.
        why_not: why nobody could look; null where somebody did.
        replica: whose caches, from 0; left out where there is one engine, or where all replicas have the same ones.
    """

    kind: Literal["compiled"] = "compiled"
    point: int
    since: Time
    count: Count | None
    files: Annotated[tuple[CompiledFile, ...], Field(max_length=FILES_LISTED)]
    why_not: WhyNot | None
    replica: Replica = None

    @property
    def left_out(self) -> int:
        """Files that are counted and not listed."""
        return (self.count or 0) - len(self.files)

    @model_validator(mode="after")
    def _agrees(self) -> Self:
        check_agrees(self.count, len(self.files), self.why_not)
        return self


def check_agrees(count: int | None, listed: int, why_not: str | None) -> None:
    """Checks that files are counted, or it is said why not, and that as many are listed as can be.

    Raises:
        ValueError: it is not so.
    """
    if (count is None) != (why_not is not None):
        raise ValueError("either the files are counted, or it is said why not")
    if listed != min(count or 0, FILES_LISTED):
        raise ValueError(f"{listed} files are listed of {count}")
