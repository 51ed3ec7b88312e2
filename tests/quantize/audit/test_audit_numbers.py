from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from quantize.audit import numbers
from quantize.audit.measure import LIMIT
from tests.quantize.audit import synthetic

BYTES = arrays(np.uint8, st.tuples(st.integers(1, 4), st.sampled_from([8, 16, 40])))


def test_published_values_of_e2m1() -> None:
    """OCP Microscaling Formats 1.0, table of FP4 E2M1."""
    assert numbers.E2M1.tolist() == [0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6]


@pytest.mark.parametrize(
    ("byte", "value"),
    [
        (0x00, 0.0),
        (0x01, 2**-9),
        (0x07, 7 * 2**-9),
        (0x08, 2**-6),
        (0x38, 1.0),
        (0x7E, 448.0),
        (0xB8, -1.0),
        (0xFE, -448.0),
    ],
)
def test_published_values_of_e4m3(byte: int, value: float) -> None:
    """OCP 8-bit Floating Point 1.0, table of E4M3: smallest subnormal, largest subnormal, smallest normal, ..."""
    assert numbers.E4M3[byte] == value


def test_two_bytes_of_e4m3_are_nan() -> None:
    assert np.nonzero(np.isnan(numbers.E4M3))[0].tolist() == [0x7F, 0xFF]


@given(BYTES)
def test_the_even_index_is_in_the_low_nibble(packed: np.ndarray[tuple[int, int], np.dtype[np.uint8]]) -> None:
    values = numbers.unpack(packed)
    assert values.shape == (packed.shape[0], packed.shape[1] * 2)
    assert np.array_equal(values[:, 0::2], numbers.E2M1[packed & 15])
    assert np.array_equal(values[:, 1::2], numbers.E2M1[packed >> 4])


@given(st.floats(2**-9, 448, width=32))
def test_rounding_to_e4m3_is_that_of_the_definition(value: float) -> None:
    assert numbers.to_e4m3(np.array([value], np.float32))[0] == synthetic.nearest_e4m3(value)


@pytest.mark.parametrize("code", range(1, 126))
def test_ties_of_e4m3_go_to_the_even_byte(code: int) -> None:
    middle = (synthetic.E4M3_POSITIVE[code] + synthetic.E4M3_POSITIVE[code + 1]) / 2
    assert numbers.to_e4m3(np.array([middle], np.float32))[0] == code + (code & 1)


@given(st.floats(-6, 6, width=32))
def test_a_value_lies_in_the_cell_of_its_nearest_code(value: float) -> None:
    code = synthetic.nearest_e2m1(value)
    assert numbers.CELL_LOW[code] <= value <= numbers.CELL_HIGH[code]


@pytest.mark.parametrize("code", range(16))
def test_a_cell_ends_where_the_next_code_begins(code: int) -> None:
    packed = np.full((1, 8), code * 17, np.uint8)
    low, high = numbers.cells(packed)
    middle = (low[0, 0] + high[0, 0]) / 2
    if abs(numbers.E2M1[code]) < 6:
        assert synthetic.nearest_e2m1(float(middle)) & 7 == code & 7
        for outside in (low[0, 0] - 0.03, high[0, 0] + 0.03):
            assert numbers.E2M1[synthetic.nearest_e2m1(float(outside))] != numbers.E2M1[code]
    assert low.shape == (1, 16)


@settings(max_examples=60)
@given(st.integers(0, 2**32 - 1), st.sampled_from(["normal", "heavy", "two", "sparse"]), st.floats(1e-6, 1e3))
def test_no_weight_is_further_from_its_source_than_the_format_allows(seed: int, kind: str, size: float) -> None:
    random = np.random.default_rng(seed)
    shape = (4, 64)
    drawn = {
        "normal": random.standard_normal(shape),
        "heavy": random.standard_t(2, shape),
        "two": random.choice([5.0, 6.0], shape),  # halfway between 4 and 6, beside a block's largest
        "sparse": random.standard_normal(shape) * (random.random(shape) < 0.2),
    }[kind]
    weight = synthetic.floats(synthetic.bf16(drawn * size))
    scale_2 = float(synthetic.scale_2_of([weight])) or 1.0
    packed, scales = synthetic.quantize(weight, scale_2)
    values = synthetic.dequantize(packed, scales, scale_2)
    assert np.linalg.norm(values - weight) <= LIMIT * 1.01 * np.linalg.norm(weight)
    step = np.repeat(numbers.E4M3[scales] * np.float32(scale_2), 16, axis=1)
    assert np.allclose(numbers.unpack(packed) * step, values, rtol=1e-6)
    assert np.array_equal(numbers.max_calibrated_scales(numbers.block_amax(weight), scale_2), scales)
    low, high = numbers.cells(packed)
    assert np.all((weight >= low * step) & (weight <= high * step))


def test_the_limit_is_reached() -> None:
    """The worst block: one value whose scale was rounded up, 15 halfway between 4 and 6."""
    step = 9.0  # 8.5 rounds up to 9
    block = np.full((1, 16), 5.0 * step, np.float64)
    block[0, 0] = 6 * 8.5001
    other = np.full((1, 16), 0.0)
    other[0, 0] = 6 * 448.0  # the tensor's largest, so that its scale_2 is 1
    weight = np.concatenate([block, other], axis=1).astype(np.float32)
    packed, scales = synthetic.quantize(weight, 1.0)
    assert synthetic.E4M3_POSITIVE[scales[0, 0]] == step
    values = synthetic.dequantize(packed, scales, 1.0)[:, :16]
    assert np.linalg.norm(values - block) / np.linalg.norm(block) == pytest.approx(LIMIT, rel=1e-4)


def test_a_block_of_zeros_has_the_scale_one() -> None:
    assert numbers.max_calibrated_scales(np.zeros((1, 1), np.float32), 0.001)[0, 0] == numbers.E4M3_ONE


@given(arrays(np.float32, (3, 32), elements=st.floats(-(2.0**99), 2.0**99, width=32)))
def test_block_amax(values: np.ndarray[tuple[int, int], np.dtype[np.float32]]) -> None:
    assert np.array_equal(numbers.block_amax(values), np.abs(values).reshape(3, 2, 16).max(axis=2))
