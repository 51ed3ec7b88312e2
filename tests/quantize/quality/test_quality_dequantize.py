from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.errors import StreamproofError, UsageError
from quantize.audit.folder import Checkpoint, open_checkpoint
from quantize.audit.numbers import from_bf16
from quantize.checkpoint import TOY
from quantize.quality import dequantize as module
from quantize.quality.dequantize import dequantize, dequantized, tenths, to_bf16
from tests.quantize.quality.handmade import nvfp4, quantize_folder, read, scale_2_of, write_safetensors

EXPERTS = "model.language_model.layers.1.mlp.experts"


@pytest.fixture(scope="module")
def quantized(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made") / "toy-nvfp4"
    quantize_folder(TOY, folder)
    return folder


@pytest.fixture(scope="module")
def plain(quantized: Path) -> Path:
    out = quantized.with_name("toy-bf16")
    dequantize(quantized, out)
    return out


def values(checkpoint: Checkpoint, name: str) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    tensor = checkpoint.tensors[name]
    return from_bf16(np.frombuffer(read(checkpoint.path, tensor), dtype=np.uint16)).reshape(tensor.shape)


def test_a_matrix_by_hand() -> None:
    # Codes 1 (0.5) in the low nibble and 0xF (-6) in the high one, all blocks; scales 1 and 448, tensor's scale 2.
    packed = np.full((1, 16), 0xF1, dtype=np.uint8)
    scales = np.array([[0x38, 0x7E]], dtype=np.uint8)
    found = from_bf16(dequantized(packed, scales, 2.0))
    assert found[0, :16].tolist() == [1.0, -12.0] * 8
    assert found[0, 16:].tolist() == [448.0, -5376.0] * 8


@given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1, max_size=64))
def test_bf16_is_the_nearest_and_even_in_a_tie(numbers: list[float]) -> None:
    exact = np.array(numbers, dtype=np.float32)
    bits = to_bf16(exact)
    with np.errstate(over="ignore"):
        below, above = from_bf16((bits - 1).astype(np.uint16)), from_bf16((bits + 1).astype(np.uint16))
        here = from_bf16(bits).astype(np.float64)
        miss = np.abs(here - exact)
        finite = np.isfinite(here) & (bits & 0x7FFF != 0)
        for neighbour in (below.astype(np.float64), above.astype(np.float64)):
            there = np.abs(neighbour - exact)
            settled = ~finite | np.isnan(neighbour) | (miss < there) | ((miss == there) & (bits & 1 == 0))
            assert settled.all()


def test_nan_stays_nan() -> None:
    assert np.isnan(from_bf16(to_bf16(np.array([np.nan], dtype=np.float32)))).all()


def test_quantizing_and_back_is_off_by_half_a_step_at_most() -> None:
    bits = to_bf16(np.random.default_rng(1).normal(size=(32, 64)).astype(np.float32))
    packed, scales = nvfp4(bits, scale_2_of(bits))
    back, exact = from_bf16(dequantized(packed, scales, scale_2_of(bits))), from_bf16(bits)
    # The widest step is from 4 to 6, in a block whose largest value is 6 times its scale, rounded by 1/16 at most.
    largest = np.abs(exact).reshape(32, 4, 16).max(axis=-1, keepdims=True)
    assert (np.abs(back - exact).reshape(32, 4, 16) <= largest / 6 * (17 / 16) * 1.01).all()


def test_names_and_shapes_are_those_of_the_source(plain: Path) -> None:
    source, found = open_checkpoint(TOY), open_checkpoint(plain)
    assert not found.faults
    assert {n: (t.dtype, t.shape) for n, t in found.tensors.items()} == {
        n: (t.dtype, t.shape) for n, t in source.tensors.items()
    }
    assert "quantization_config" not in found.config
    assert found.hf_quant_config is None
    assert found.config == source.config


def test_what_was_not_quantized_is_the_same_to_the_byte(plain: Path) -> None:
    source, found = open_checkpoint(TOY), open_checkpoint(plain)
    for name, tensor in source.tensors.items():
        changed = read(plain, found.tensors[name]) != read(TOY, tensor)
        assert changed == (".mlp.experts." in name and not name.startswith("mtp.")), name


def test_every_expert_is_in_its_place(plain: Path) -> None:
    source, found = open_checkpoint(TOY), open_checkpoint(plain)
    for projection in ("gate_up_proj", "down_proj"):
        exact, back = values(source, f"{EXPERTS}.{projection}"), values(found, f"{EXPERTS}.{projection}")
        for one, other in zip(exact, back, strict=True):
            assert np.linalg.norm(one - other) < 0.15 * np.linalg.norm(one)


def test_several_files_with_an_index(
    quantized: Path, plain: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SHARD_BYTES", 1_000_000)
    dequantize(quantized, tmp_path / "out")
    found = open_checkpoint(tmp_path / "out")
    assert not found.faults
    assert len(found.shards) > 3
    whole = open_checkpoint(plain)
    assert {n: read(found.path, t) for n, t in found.tensors.items()} == {
        n: read(whole.path, t) for n, t in whole.tensors.items()
    }


def test_progress_ends_at_the_whole(quantized: Path, tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    dequantize(quantized, tmp_path / "out", on_bytes=lambda done, total: told.append((done, total)))
    assert told[-1][0] == told[-1][1] == open_checkpoint(TOY).data_bytes
    assert told == sorted(told)


def test_a_line_for_each_tenth() -> None:
    said: list[str] = []
    tenths(said.append)(5, 10)  # too small to wait for
    on_bytes = tenths(said.append)
    for done in range(0, 10_000_000_001, 100_000_000):
        on_bytes(done, 10_000_000_000)
    assert said == [f"  {gb:.1f} of 10.0 GB written" for gb in range(1, 11)]


def test_a_checkpoint_that_is_not_quantized_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no NVFP4 weights"):
        dequantize(TOY, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_folder_that_is_there_is_left_alone(quantized: Path, tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("kept")
    with pytest.raises(UsageError, match="is there already"):
        dequantize(quantized, tmp_path)
    assert (tmp_path / "mine").read_text() == "kept"


def damaged(quantized: Path, out: Path, *, without: str = "", **changed: tuple[str, tuple[int, ...], bytes]) -> Path:
    checkpoint = open_checkpoint(quantized)
    tensors = {n: (t.dtype, t.shape, read(quantized, t)) for n, t in checkpoint.tensors.items() if n != without}
    out.mkdir()
    (out / "config.json").write_text(json.dumps(checkpoint.config))
    write_safetensors(out / "model.safetensors", {**tensors, **changed})
    return out


@pytest.mark.parametrize(
    ("without", "said"),
    [
        (f"{EXPERTS}.3.up_proj.weight_scale", "has no E4M3 scale"),
        (f"{EXPERTS}.3.up_proj.weight_scale_2", "has no FP32 scale"),
        (f"{EXPERTS}.3.up_proj.weight", "lacks a projection of an expert"),
    ],
)
def test_a_missing_part_is_named_and_nothing_is_left(quantized: Path, tmp_path: Path, without: str, said: str) -> None:
    folder = damaged(quantized, tmp_path / "damaged", without=without)
    with pytest.raises(StreamproofError, match=said):
        dequantize(folder, tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["damaged"]


def test_a_truncated_file_is_refused(quantized: Path, tmp_path: Path) -> None:
    folder = damaged(quantized, tmp_path / "damaged")
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1])
    with pytest.raises(StreamproofError, match="is damaged"):
        dequantize(folder, tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["damaged"]


def test_a_place_that_cannot_be_written_is_said(quantized: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StreamproofError, match="cannot be written"):
        dequantize(quantized, tmp_path / "file" / "out")
