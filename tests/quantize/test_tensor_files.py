from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quantize.audit.header import read_header
from quantize.tensor_files import InMemory, Placed, copy_tensors, file_size, write_tensor

SIZES = {"U8": 1, "BF16": 2, "F32": 4}


def tensors(path: Path) -> list[Placed]:
    with path.open("rb") as file:
        return [Placed(path, tensor) for tensor in read_header(file.fileno(), path.stat().st_size, path.name)]


def content(placed: Placed) -> bytes:
    raw = placed.file.read_bytes()
    return raw[placed.tensor.offset : placed.tensor.offset + placed.tensor.size]


@given(
    st.lists(
        st.tuples(st.sampled_from(sorted(SIZES)), st.lists(st.integers(0, 5), max_size=3), st.integers(0, 255)),
        min_size=1,
        max_size=6,
    )
)
def test_copied_tensors_are_the_same_bytes_and_aligned(
    tmp_path_factory: pytest.TempPathFactory, drawn: list[tuple[str, list[int], int]]
) -> None:
    folder = tmp_path_factory.mktemp("tensors")
    placed = []
    for number, (dtype, shape, byte) in enumerate(drawn):
        size = SIZES[dtype]
        for extent in shape:
            size *= extent
        path = folder / f"{number}.safetensors"
        write_tensor(path, InMemory(f"t{number}", dtype, tuple(shape), bytes([byte]) * size))
        placed += tensors(path)
    copy_tensors(folder / "all.safetensors", placed)
    assert (folder / "all.safetensors").stat().st_size == file_size(placed)
    copied = {one.tensor.name: one for one in tensors(folder / "all.safetensors")}
    for original in placed:
        copy = copied[original.tensor.name]
        assert (copy.tensor.dtype, copy.tensor.shape) == (original.tensor.dtype, original.tensor.shape)
        assert content(copy) == content(original)
        assert copy.tensor.offset % SIZES[copy.tensor.dtype] == 0


def test_a_source_that_became_shorter_leaves_no_file(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    write_tensor(path, InMemory("a", "U8", (1000,), bytes(1000)))
    placed = tensors(path)
    path.write_bytes(path.read_bytes()[:500])
    with pytest.raises(OSError, match="became shorter"):
        copy_tensors(tmp_path / "b.safetensors", placed)
    assert [found.name for found in tmp_path.iterdir()] == ["a.safetensors"]
