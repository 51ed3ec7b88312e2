"""Ignore lists: which modules a list leaves unquantized, as ModelOpt means it and as vLLM 0.26.0 reads it.

ModelOpt writes names and names with `*` (fnmatch). vLLM reads them more widely (layers/quantization/modelopt.py,
`is_layer_excluded` and `apply_vllm_mapper`): a trailing `*` becomes two patterns, `x` and `x.*`; names get vLLM's
prefixes; and a pattern also counts wherever it is a part of a name. A module can therefore be quantized in the file and
unquantized for the engine, which then reads packed bytes as numbers or refuses to load.
"""

from __future__ import annotations

import re
from fnmatch import fnmatchcase, translate
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

_RUNTIME_PREFIXES: Final = (
    ("model.visual.", "visual."),
    ("lm_head.", "language_model.lm_head."),
    ("model.language_model.", "language_model.model."),
)
"""vLLM's names for those of the hub's files (models/qwen3_vl.py, `hf_to_vllm_mapper`)."""


class IgnoreList:
    """One ignore list.

    Args:
        patterns: as written.
    """

    def __init__(self, patterns: Sequence[str]) -> None:
        self.patterns = tuple(patterns)
        self._names = frozenset(pattern for pattern in patterns if not _is_wild(pattern))
        self._wild = _any_of([pattern for pattern in patterns if _is_wild(pattern)])
        self._runtime = tuple(dict.fromkeys(_runtime(half) for pattern in patterns for half in _halves(pattern)))
        self._runtime_wild = _any_of([pattern for pattern in self._runtime if _is_wild(pattern)])
        self._runtime_experts = tuple(pattern for pattern in self._runtime if "experts" in pattern)

    def leaves_out(self, module: str) -> bool:
        """Whether the module is left unquantized, as ModelOpt means the list."""
        return module in self._names or (self._wild is not None and self._wild.match(module) is not None)

    def covering(self, module: str) -> str | None:
        """The pattern that leaves a module out; None where none does."""
        return next((pattern for pattern in self.patterns if module == pattern or fnmatchcase(module, pattern)), None)

    def engine_leaves_out(self, layer: str, members: Sequence[str]) -> bool:
        """Whether vLLM builds a layer unquantized.

        Args:
            layer: the engine's module, in the checkpoint's naming: `...self_attn.qkv_proj`, `...mlp.experts`.
            members: modules of the checkpoint that it is made of.
        """
        name = _runtime(f"{layer}.").removesuffix(".")
        if layer.endswith(".experts"):
            exact = any(name in pattern for pattern in self._runtime_experts)
        else:
            exact = name in self._runtime or all(
                _runtime(f"{member}.").removesuffix(".") in self._runtime for member in members
            )
        inside = any(pattern in name or pattern in name.removeprefix("language_model.") for pattern in self._runtime)
        return exact or inside or (self._runtime_wild is not None and self._runtime_wild.match(name) is not None)


def _is_wild(pattern: str) -> bool:
    return any(character in pattern for character in "*?[")


def _any_of(patterns: Sequence[str]) -> re.Pattern[str] | None:
    return re.compile("|".join(translate(pattern) for pattern in patterns)) if patterns else None


def _halves(pattern: str) -> tuple[str, ...]:
    """`x*` names the tree of modules below x: for vLLM `x` and `x.*`."""
    if len(pattern) > 1 and pattern.endswith("*") and pattern[-2] != ".":
        return pattern[:-1], f"{pattern[:-1]}.*"
    return (pattern,)


def _runtime(name: str) -> str:
    for prefix, runtime in _RUNTIME_PREFIXES:
        if name.startswith(prefix):
            return runtime + name.removeprefix(prefix)
    return name
