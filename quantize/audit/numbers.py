"""The number formats of an NVFP4 checkpoint, as tables and vectorized conversions.

- E2M1 (4 bits: sign, 2 exponent bits, 1 mantissa bit): 0, 0.5, 1, 1.5, 2, 3, 4, 6 and their negatives.
- E4M3 (8 bits, "fn": no infinity, 0x7F and 0xFF are NaN): the scale of 16 values. Largest value 448 = 0x7E, smallest
  positive 2^-9 = 0x01.
- A value is `E2M1 * E4M3 scale of its block * FP32 scale of its tensor`.

Both 8-bit and 4-bit formats: OCP "OFP8" 1.0 and "Microscaling Formats" (MX) 1.0, section 5.3.
"""

from __future__ import annotations

from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

Bytes: TypeAlias = NDArray[np.uint8]
Floats: TypeAlias = NDArray[np.float32]

BLOCK: Final = 16
"""Values that share an E4M3 scale."""
E2M1_MAX: Final = 6.0
E4M3_MAX: Final = 448.0
AMAX_PER_SCALE_2: Final = E2M1_MAX * E4M3_MAX
"""2688: `weight_scale_2` is the largest absolute value of the tensor over this."""
AMAX_PER_SCALE_2_FOUR_OVER_SIX: Final = E2M1_MAX * 256.0
"""1536: the same in ModelOpt's "four over six" variant, whose block scales end at 256."""

_MAGNITUDES: Final = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
E2M1: Final[Floats] = np.array([*_MAGNITUDES, *(-value for value in _MAGNITUDES)], dtype=np.float32)
"""Value of each 4-bit code."""

_LOWER: Final = (-0.25, 0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0)
_UPPER: Final = (0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0, 9.0)
_EDGE_SLACK: Final = 1 / 256
"""Half a unit in the last place of BF16, relative: exporters that divide in BF16 are off by that much at an edge."""
CLIPPED_TO: Final = _UPPER[-1]
"""Where the cell of the code 6 ends, in units of the block's scale. Nearest rounding has no such end; scales have:
max calibration rounds a block's scale to E4M3 and so clips up to 6 * 17/16 = 6.375 (9 for the smallest scale, 0x01,
which stands for up to 1.5 times itself). A scale chosen by mean squared error clips only while that costs less than
rounding the 15 other values more coarsely: at most sqrt(15 * (0.5 * 4/3)^2) = 2.6 beyond 6."""


def _cell_edges(positive: tuple[float, ...], negative: tuple[float, ...], direction: int) -> Floats:
    edges = np.array([*positive, *(-edge for edge in negative)], dtype=np.float32)
    return (edges + direction * np.abs(edges) * _EDGE_SLACK).astype(np.float32)


CELL_LOW: Final[Floats] = _cell_edges(_LOWER, _UPPER, -1)
"""Smallest value, in units of the block's scale, that a code may stand for."""
CELL_HIGH: Final[Floats] = _cell_edges(_UPPER, _LOWER, +1)
"""Largest such value."""


def _four_at_once(table: Floats) -> NDArray[np.complex128]:
    """A table over 16 bits, i.e. four codes: one look-up of 16 bytes gives four floats. Lowest nibble first."""
    pairs = np.arange(1 << 16, dtype=np.uint32)
    nibbles = np.stack([(pairs >> shift) & 0xF for shift in (0, 4, 8, 12)], axis=1)
    return np.ascontiguousarray(table[nibbles]).view(np.complex128).ravel()


_VALUES_OF_FOUR: Final = _four_at_once(E2M1)
_LOW_OF_FOUR: Final = _four_at_once(CELL_LOW)
_HIGH_OF_FOUR: Final = _four_at_once(CELL_HIGH)


def _e4m3_table() -> Floats:
    code = np.arange(256)
    exponent, mantissa = (code >> 3) & 0xF, code & 7
    magnitude = np.where(exponent == 0, mantissa * 2.0**-9, (8 + mantissa) * 2.0 ** (exponent - 10.0))
    value = np.where(code & 0x80, -magnitude, magnitude)
    value[[0x7F, 0xFF]] = np.nan
    return value.astype(np.float32)


E4M3: Final[Floats] = _e4m3_table()
"""Value of each byte."""
E4M3_SMALLEST: Final = 2.0**-9
E4M3_ONE: Final = 0x38


def unpack(packed: Bytes) -> Floats:
    """The E2M1 values of packed weights.

    Args:
        packed: [rows, columns / 2]; the value with the even index is in the low nibble.

    Returns:
        [rows, columns], before any scale.
    """
    return _look_up(_VALUES_OF_FOUR, packed)


def cells(packed: Bytes) -> tuple[Floats, Floats]:
    """For each packed code the range of scaled values that round to it: (lowest, highest), each [rows, columns]."""
    return _look_up(_LOW_OF_FOUR, packed), _look_up(_HIGH_OF_FOUR, packed)


def _look_up(table: NDArray[np.complex128], packed: Bytes) -> Floats:
    fours = np.ascontiguousarray(packed).view("<u2")
    return np.take(table, fours).view(np.float32).reshape(packed.shape[0], -1)


def to_e4m3(values: Floats) -> Bytes:
    """Rounds positive values to the nearest E4M3 byte, ties to even, as a cast of torch does.

    Args:
        values: in [2^-9, 448]; clamp before.
    """
    bits = values.view(np.uint32)
    normal = ((bits + 0x7FFFF + ((bits >> 20) & 1)) >> 20) - (120 << 3)  # 20 mantissa bits go; bias 127 becomes 7
    return np.where(values < 2.0**-6, np.rint(values * 512.0), normal).astype(np.uint8)


def block_amax(values: Floats) -> Floats:
    """Largest absolute value of each block of 16.

    Args:
        values: [rows, columns], columns a multiple of 16.

    Returns:
        [rows, columns / 16].
    """
    largest = np.abs(values)
    for _ in range(4):  # halving by slices is five times faster than a reduction over so short an axis
        largest = np.maximum(largest[:, 0::2], largest[:, 1::2])
    return largest


def from_bf16(bits: NDArray[np.uint16]) -> Floats:
    """BF16 bits as float32 (exact)."""
    wide = bits.astype(np.uint32)
    wide <<= 16
    return wide.view(np.float32)


def max_calibrated_scales(amax: Floats, scale_2: float) -> Bytes:
    """The block scales that max calibration gives.

    `E4M3(clamp(amax / (6 * weight_scale_2), 2^-9, 448))`, and 1 for a block of zeros.

    Args:
        amax: of each block.
        scale_2: the tensor's `weight_scale_2`.
    """
    scales = amax / np.float32(np.float32(E2M1_MAX) * np.float32(scale_2))
    scales[scales == 0] = 1.0
    return to_e4m3(np.clip(scales, np.float32(E4M3_SMALLEST), np.float32(E4M3_MAX)))
