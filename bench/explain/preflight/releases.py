"""What differs between vLLM releases and matters to a plan, and which options a release has."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Final

from bench.errors import UsageError
from bench.explain.doctor.releases import parse_release

if TYPE_CHECKING:
    from collections.abc import Iterable

READ: Final = "0.26.0"
"""The release whose source every rule here was read in."""

_OLDEST: Final = (0, 25, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """The rules of one release.

    Attributes:
        version: as the recipe names it.
        scratch_per_sequence: the KV cache for graph profiling has a block a sequence; before 0.26.0 it had one for
            every token of the largest graph (fixed by vllm-project/vllm#48483).
        rounds_captures: capture sizes are rounded up to multiples of k + 1: model runner V1, which hybrid models get
            before 0.29.0.
        prefix_match_unit: `--prefix-match-unit` is there (0.26.0 and later).
        rejection_chunked: the rejection sampler works in chunks (vllm-project/vllm#48630, 0.28.0 and later).
    """

    version: str
    scratch_per_sequence: bool
    rounds_captures: bool
    prefix_match_unit: bool
    rejection_chunked: bool

    @property
    def was_read(self) -> bool:
        """Whether its own source was read; any other release may have changed a rule that is not named here."""
        return self.version.removeprefix("v") == READ


def release_of(version: str) -> Release:
    """The rules of a release.

    Raises:
        UsageError: no version, or one that is older than any rule here.
    """
    number = parse_release(version)
    if number is None or number < _OLDEST:
        raise UsageError(
            f"vLLM {version}: no plan can be made for this release.",
            remedy=f"The rules were read in {READ}; some are known from 0.25 on. Set engine.version.",
        )
    return Release(
        version=version,
        scratch_per_sequence=number >= (0, 26, 0),
        rounds_captures=number < (0, 29, 0),
        prefix_match_unit=number >= (0, 26, 0),
        rejection_chunked=number >= (0, 28, 0),
    )


@cache
def options(version: str) -> frozenset[str]:
    """Every option of a release's server, with underscores; empty for a release whose parser was not read."""
    listing = files("bench.explain.preflight").joinpath(f"flags-{version.removeprefix('v')}.txt")
    if not listing.is_file():
        return frozenset()
    lines = listing.read_text(encoding="utf-8").splitlines()
    return frozenset(line for line in lines if line and not line.startswith("#"))


def check_flags(flags: Iterable[str], release: Release) -> None:
    """Refuses flags that the release does not have.

    Raises:
        UsageError: names the first one and the nearest that there is.
    """
    version, known = release.version, options(release.version)
    for flag in flags:
        missing = flag not in known if known else flag == "prefix_match_unit" and not release.prefix_match_unit
        if missing:
            near = difflib.get_close_matches(flag, known, n=1)
            raise UsageError(
                f"vLLM {version} has no option --{flag.replace('_', '-')} (engine.flags.{flag}).",
                remedy=f"Did you mean --{near[0].replace('_', '-')}?" if near else "Remove it, or set engine.version.",
            )
