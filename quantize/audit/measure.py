"""Measures one tensor: the scales of a quantized linear, its distance from the source, or whether a copy is a copy.

Runs in worker processes. Everything is read in pieces and computed in chunks that stay in a core's cache, so that
memory does not depend on the size of a tensor, let alone of the model. Files are read, not mapped: a file that is cut
off while it is audited is an error then, and not a signal that kills the process.
"""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from quantize.audit import numbers
from quantize.audit.folder import open_file

if TYPE_CHECKING:
    from numpy.typing import NDArray

PIECE_VALUES: Final = 1 << 22
"""Values read at once: 8 MiB of BF16."""
CHUNK_VALUES: Final = 1 << 17
"""Values computed at once: half a MiB of float32, a few of which fit into a core's cache."""
COPY_PIECE: Final = 8 << 20
"""Bytes compared at once."""
DTYPES: Final = {"BF16": "<u2", "F16": "<f2", "F32": "<f4"}
"""Of a source, by the format's names; BF16 is read as bits."""
LOWEST_LARGEST: Final = 6 * 17 / 18
"""Where the largest value of a block lies at least, in units of its scale."""
LIMIT: Final = math.sqrt((15 * 1.0**2 + (6 - LOWEST_LARGEST) ** 2) / (15 * 5.0**2 + LOWEST_LARGEST**2))
"""Largest relative error that NVFP4 allows a tensor: 0.193; `quantize.audit.gate_compare` derives it."""
COSINE_LIMIT: Final = math.sqrt(1 - LIMIT**2)
"""Smallest cosine between a tensor and its source that goes with it: 0.981."""
_OPEN: Final[dict[tuple[str, str], int]] = {}
"""Descriptors that this process holds, by folder and file: not one more open a tensor."""


@dataclass(frozen=True, slots=True)
class Extent:
    """Bytes of a file: folder, name within it, offset and size."""

    folder: str
    shard: str
    offset: int
    size: int


@dataclass(frozen=True, slots=True)
class LinearJob:
    """One quantized linear.

    Attributes:
        module: its name.
        rows, columns: of the unpacked weight.
        weight: packed, [rows, columns / 2].
        scale: of the blocks, [rows, columns / 16].
        scale_2: of the tensor.
        source: the same weight unquantized; None to look at the scales alone.
        source_dtype: a key of `DTYPES`.
    """

    module: str
    rows: int
    columns: int
    weight: Extent
    scale: Extent
    scale_2: float = math.nan
    source: Extent | None = None
    source_dtype: str = "BF16"

    @property
    def bytes(self) -> int:
        """To be read."""
        return self.scale.size + (self.weight.size + self.source.size if self.source else 0)


@dataclass(frozen=True, slots=True)
class CopyJob:
    """An unquantized tensor and the one of the source."""

    name: str
    here: Extent
    there: Extent

    @property
    def bytes(self) -> int:
        """To be read."""
        return self.here.size + self.there.size


@dataclass(slots=True)
class Distance:
    """How far a dequantized weight is from its source.

    Attributes:
        amax: largest absolute value of the source.
        error: sum of squared differences.
        source: sum of the source's squares.
        dequantized: sum of the dequantized weight's squares.
        outside: values of the source that do not round to the code that stands for them.
        blocks: of 16 values.
        near_scales: blocks whose scale is the E4M3 neighbour of the one that max calibration gives.
        other_scales: blocks whose scale is neither.
    """

    amax: float = 0.0
    error: float = 0.0
    source: float = 0.0
    dequantized: float = 0.0
    outside: int = 0
    blocks: int = 0
    near_scales: int = 0
    other_scales: int = 0

    @property
    def relative(self) -> float:
        """Root of the squared error over the squared source; infinite or NaN where that is not defined."""
        if self.source == 0:
            return 0.0 if self.error == 0 else math.inf
        return math.sqrt(self.error / self.source)

    @property
    def cosine(self) -> float:
        """Of the angle between weight and source, by the law of cosines; NaN where one of them is zero."""
        lengths = math.sqrt(self.source) * math.sqrt(self.dequantized)
        return (self.source + self.dequantized - self.error) / (2 * lengths) if lengths else math.nan


@dataclass(frozen=True, slots=True)
class LinearResult:
    """What was found of a quantized linear.

    Attributes:
        module: its name.
        bad_scales: scale bytes that must not occur.
        first_bad: place (row, block) and byte of the first of them.
        distance: None where there is no source, or where the scales are broken.
    """

    module: str
    bad_scales: int
    first_bad: tuple[int, int, int] | None
    distance: Distance | None

    @property
    def is_another_weight(self) -> bool:
        """Whether it points elsewhere than its source: then no scale of it can be compared with that."""
        return self.distance is not None and not self.distance.cosine >= COSINE_LIMIT


@dataclass(frozen=True, slots=True)
class CopyResult:
    """What was found of a copy: how many bytes differ, and where the first one is."""

    name: str
    differing: int
    first: int | None


def read(extent: Extent, start: int = 0, size: int | None = None) -> bytes:
    """Bytes of an extent.

    Raises:
        OSError: it cannot be read, or the file has become shorter.
    """
    wanted = extent.size - start if size is None else size
    got = os.pread(_descriptor(extent.folder, extent.shard), wanted, extent.offset + start)
    if len(got) != wanted:
        raise OSError(0, f"{extent.shard} was changed while it was read")
    return got


def _descriptor(folder: str, shard: str) -> int:
    if (folder, shard) not in _OPEN:
        _OPEN[folder, shard] = open_file(Path(folder), shard)
    return _OPEN[folder, shard]


def forget_files() -> None:
    """Closes what this process holds open."""
    while _OPEN:
        os.close(_OPEN.popitem()[1])


def measure_linear(job: LinearJob) -> LinearResult:
    """Looks at the scales, and where they are sound and there is a source, compares with it."""
    bad_scales, first_bad, found = 0, None, Distance()
    rows = max(1, PIECE_VALUES // job.columns)
    for start in range(0, job.rows, rows):
        count = min(rows, job.rows - start)
        scale = read_scales(job, start, count)
        bad = (scale - np.uint8(1)) >= np.uint8(0x7E)  # 0x00 wraps to 0xFF: this finds 0x00, 0x7F and 0x80 up at once
        if bad.any():
            bad_scales += int(np.count_nonzero(bad))
            row, block = divmod(int(bad.argmax()), scale.shape[1])
            first_bad = first_bad or (start + row, block, int(scale[row, block]))
        elif job.source is not None and not bad_scales:
            _add_piece(found, job, scale, *read_rows(job, start, count))
    return LinearResult(job.module, bad_scales, first_bad, None if bad_scales or job.source is None else found)


def _add_piece(
    found: Distance, job: LinearJob, scale: numbers.Bytes, packed: numbers.Bytes, source: NDArray[np.generic]
) -> None:
    chunk = max(1, CHUNK_VALUES // job.columns)
    with np.errstate(all="ignore"):  # of NaN and infinity the distance becomes one too, and gate 4 says so
        for row in range(0, len(packed), chunk):
            here = slice(row, row + chunk)
            _add_chunk(found, packed[here], scale[here], source[here], job.scale_2)


def read_scales(job: LinearJob, start: int, count: int) -> numbers.Bytes:
    """Block scales of some rows."""
    width = job.columns // numbers.BLOCK
    return np.frombuffer(read(job.scale, start * width, count * width), np.uint8).reshape(count, width)


def read_rows(job: LinearJob, start: int, count: int) -> tuple[numbers.Bytes, NDArray[np.generic]]:
    """Rows of the packed weight, and of its source (BF16 as bits)."""
    if job.source is None:
        raise ValueError(f"{job.module} has no source")
    width = job.columns // 2
    packed = np.frombuffer(read(job.weight, start * width, count * width), np.uint8).reshape(count, width)
    dtype = np.dtype(DTYPES[job.source_dtype])
    size = job.columns * dtype.itemsize
    raw = read(job.source, start * size, count * size)
    return packed, np.frombuffer(raw, dtype).reshape(count, job.columns)


def source_floats(source: NDArray[np.generic]) -> numbers.Floats:
    """A source as float32."""
    if source.dtype == np.uint16:
        return numbers.from_bf16(source.astype(np.uint16, copy=False))
    return source.astype(np.float32)


def _add_chunk(
    found: Distance, packed: numbers.Bytes, scale: numbers.Bytes, source: NDArray[np.generic], scale_2: float
) -> None:
    weight = source_floats(source)
    step = np.repeat(numbers.E4M3[scale] * np.float32(scale_2), numbers.BLOCK, axis=1)
    low, high = numbers.cells(packed)
    low *= step
    high *= step
    found.outside += int(np.count_nonzero((weight < low) | (weight > high)))
    dequantized = numbers.unpack(packed)
    dequantized *= step
    found.dequantized += _squares(dequantized)
    found.source += _squares(weight)
    dequantized -= weight
    found.error += _squares(dequantized)
    amax = numbers.block_amax(weight)
    found.amax = max(found.amax, float(amax.max()))
    apart = np.abs(numbers.max_calibrated_scales(amax, scale_2).astype(np.int16) - scale)
    found.blocks += scale.size
    found.near_scales += int(np.count_nonzero(apart == 1))
    found.other_scales += int(np.count_nonzero(apart > 1))


def _squares(values: numbers.Floats) -> float:
    """Sum of squares: float32 along a row, float64 over the rows."""
    return float(np.einsum("ij,ij->i", values, values).sum(dtype=np.float64))


def compare_copy(job: CopyJob) -> CopyResult:
    """Compares two tensors byte by byte."""
    differing, first = 0, None
    for start in range(0, job.here.size, COPY_PIECE):
        size = min(COPY_PIECE, job.here.size - start)
        here, there = read(job.here, start, size), read(job.there, start, size)
        if here != there:
            places = np.nonzero(np.frombuffer(here, np.uint8) != np.frombuffer(there, np.uint8))[0]
            differing += len(places)
            first = start + int(places[0]) if first is None else first
    return CopyResult(job.name, differing, first)
