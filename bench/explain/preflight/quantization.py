"""How a checkpoint stores its linear layers, and what that costs.

Sources: `quantization_config` of a checkpoint's `config.json`; vLLM 0.26.0, `layers/quantization/fp8.py` (one float32
scale a block of 128 x 128) and `modelopt.py` (NVFP4: one FP8 scale for 16 values along the input, and two float32
scalars, `weight_scale_2` and `input_scale`, a linear).
"""

from __future__ import annotations

import fnmatch
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from bench.errors import UsageError

Scheme: TypeAlias = Literal["bf16", "fp8", "nvfp4"]

NVFP4_GROUP: Final = 16
"""Values that share one FP8 scale."""
NVFP4_SCALARS: Final = 2 * 4
"""Bytes of `weight_scale_2` and `input_scale` of one linear."""
FLOAT32: Final = 4
_TEXT: Final = "language_model."

EXPERTS_ONLY: Final = ("*.mlp.experts",)
"""What ModelOpt's preset `nvfp4_experts_only` quantizes: the linears of the routed experts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantization:
    """How linear layers are stored.

    Attributes:
        scheme: of those that are quantized; "bf16" where none is.
        block: rows and columns that share a scale ("fp8"); None for one scale a linear.
        excluded: names of modules, or patterns, that stay as they were.
        only: patterns; where there are any, nothing else is quantized.
        why: where this is known from.
    """

    scheme: Scheme
    block: tuple[int, int] | None = None
    excluded: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    why: str

    def covers(self, module: str) -> bool:
        """Whether a linear layer of that name is quantized."""
        if self.scheme == "bf16" or any(_names(pattern, module) for pattern in self.excluded):
            return False
        return not self.only or any(_names(pattern, module) for pattern in self.only)

    def bytes_of(self, rows: int, columns: int) -> tuple[int, int]:
        """Bytes of the values and of the scales of one linear that is quantized.

        Args:
            rows: outputs.
            columns: inputs.
        """
        values = rows * columns
        if self.scheme == "nvfp4":
            return math.ceil(values / 2), rows * math.ceil(columns / NVFP4_GROUP) + NVFP4_SCALARS
        if self.scheme == "fp8":
            high, wide = self.block or (rows, columns)
            return values, math.ceil(rows / high) * math.ceil(columns / wide) * FLOAT32
        return 2 * values, 0


def quantization_of(config: object, where: str) -> Quantization:
    """From the table `quantization_config`; None is a checkpoint as it was trained.

    Raises:
        UsageError: a method that is not known here.
    """
    if config is None:
        return Quantization(scheme="bf16", why="no quantization_config")
    if not isinstance(config, Mapping):
        raise UsageError(f"{where}: quantization_config is no table.", remedy="Is the file damaged?")
    method, algorithm = config.get("quant_method"), config.get("quant_algo")
    why = "quantization_config of the checkpoint"
    if method == "fp8":
        return Quantization(
            scheme="fp8", block=_block(config, where), excluded=_excluded(config, "modules_to_not_convert"), why=why
        )
    if method == "modelopt" and algorithm == "NVFP4":
        return Quantization(scheme="nvfp4", excluded=_excluded(config, "ignore", "exclude_modules"), why=why)
    if method == "modelopt" and algorithm == "FP8":
        return Quantization(scheme="fp8", excluded=_excluded(config, "ignore", "exclude_modules"), why=why)
    raise UsageError(
        f"{where}: quantization {method} {algorithm or ''}".rstrip() + " is not known here.",
        remedy="Known: fp8, and modelopt with quant_algo FP8 or NVFP4 (vLLM's modelopt_fp4 refuses a mixed one).",
    )


def assumed_nvfp4() -> Quantization:
    """NVFP4 of a checkpoint that is not here yet."""
    return Quantization(
        scheme="nvfp4",
        excluded=("mtp*",),
        only=EXPERTS_ONLY,
        why="assumed: routed experts only (nvfp4_experts_only, what `just quantize` makes); the checkpoint is not here",
    )


def _block(config: Mapping[str, Any], where: str) -> tuple[int, int] | None:
    match config.get("weight_block_size"):
        case None:
            return None
        case [int(high), int(wide)] if high > 0 and wide > 0:
            return high, wide
        case other:
            raise UsageError(f"{where}: weight_block_size is {other!r}.", remedy="It is [rows, columns].")


def _excluded(config: Mapping[str, Any], *keys: str) -> tuple[str, ...]:
    found: object = next((config[key] for key in keys if config.get(key)), [])
    return tuple(str(name) for name in found) if isinstance(found, list) else ()


def _names(pattern: str, module: str) -> bool:
    """Whether an entry of such a list means a module.

    It is the name of the module or of one that it lies in, wildcards allowed, or the last parts of such a name. Some
    lists leave out "language_model", as some checkpoints do.
    """
    pattern, module = pattern.replace(_TEXT, ""), module.replace(_TEXT, "")
    parts = module.split(".")
    names = (".".join(parts[: end + 1]) for end in range(len(parts)))
    return any(fnmatch.fnmatchcase(name, pattern) for name in names) or f".{pattern}." in f".{module}."
