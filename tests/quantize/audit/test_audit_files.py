"""Gate 0: folders that somebody hostile, or an interrupted download, left."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.errors import StreamproofError
from quantize.audit.header import HEADER_LIMIT
from quantize.audit.model import GateName, Verdict
from quantize.audit.run import audit_checkpoint
from tests.quantize.audit.auditing import failing
from tests.quantize.audit.synthetic import Folder, write_safetensors

SHARD = "model-00001-of-00002.safetensors"
OTHER = "model-00002-of-00002.safetensors"
INDEX = "model.safetensors.index.json"


def header_of(path: Path) -> tuple[dict[str, Any], bytes]:
    raw = path.read_bytes()
    length = int.from_bytes(raw[:8], "little")
    header: dict[str, Any] = json.loads(raw[8 : 8 + length])
    return header, raw[8 + length :]


def rewrite(path: Path, header: object, data: bytes, *, raw_header: bytes | None = None) -> None:
    text = json.dumps(header).encode() if raw_header is None else raw_header
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)


def edit_header(how: Callable[[dict[str, Any]], object]) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        header, data = header_of(folder / SHARD)
        how(header)
        rewrite(folder / SHARD, header, data)

    return damage


def edit_index(how: Callable[[dict[str, str]], object]) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        content = json.loads((folder / INDEX).read_text())
        how(content["weight_map"])
        (folder / INDEX).write_text(json.dumps(content))

    return damage


def first_entry(header: dict[str, Any]) -> dict[str, Any]:
    entry: dict[str, Any] = header[next(name for name in header if name != "__metadata__")]
    return entry


def second_offsets(header: dict[str, Any]) -> list[int]:
    entries = [entry for name, entry in header.items() if name != "__metadata__"]
    offsets: list[int] = entries[1]["data_offsets"]
    return offsets


def truncate(folder: Path) -> None:
    os.truncate(folder / SHARD, (folder / SHARD).stat().st_size - 1)


def cut_in_header(folder: Path) -> None:
    os.truncate(folder / SHARD, 100)


def longer(folder: Path) -> None:
    with (folder / SHARD).open("ab") as file:
        file.write(b"hidden")


def huge_header(folder: Path) -> None:
    raw = (folder / SHARD).read_bytes()
    (folder / SHARD).write_bytes((HEADER_LIMIT + 1).to_bytes(8, "little") + raw[8:])


def nan_header(folder: Path) -> None:
    header, data = header_of(folder / SHARD)
    text = json.dumps(header).replace('"shape": [', '"shape": [NaN, ', 1).encode()
    rewrite(folder / SHARD, None, data, raw_header=text)


def duplicate_name(folder: Path) -> None:
    header, data = header_of(folder / SHARD)
    name = next(name for name in header if name != "__metadata__")
    text = json.dumps(header)[:-1] + f', "{name}": {json.dumps(header[name])}}}'
    rewrite(folder / SHARD, None, data, raw_header=text.encode())


def overlap(folder: Path) -> None:
    def shift(header: dict[str, Any]) -> None:
        offsets = second_offsets(header)
        offsets[0] -= 2
        offsets[1] -= 2

    edit_header(shift)(folder)


def hole(folder: Path) -> None:
    header, data = header_of(folder / SHARD)
    entries = [entry for name, entry in header.items() if name != "__metadata__"]
    for entry in entries[1:]:
        entry["data_offsets"] = [place + 16 for place in entry["data_offsets"]]
    at = entries[0]["data_offsets"][1]
    rewrite(folder / SHARD, header, data[:at] + b"\0" * 16 + data[at:])


def stray_shard(folder: Path) -> None:
    write_safetensors(folder / "stray.safetensors", {"x": ("F32", np.zeros(3, np.float32))})


def in_two_shards(folder: Path) -> None:
    header, data = header_of(folder / SHARD)
    other, other_data = header_of(folder / OTHER)
    name = next(name for name in header if name != "__metadata__")
    begin, end = header[name]["data_offsets"]
    size = len(other_data)
    other[name] = header[name] | {"data_offsets": [size, size + end - begin]}
    rewrite(folder / OTHER, other, other_data + data[begin:end])


def linked_out(folder: Path) -> None:
    outside = folder.parent / "outside.safetensors"
    (folder / SHARD).rename(outside)
    (folder / SHARD).symlink_to(outside)


def pipe(folder: Path) -> None:
    (folder / SHARD).unlink()
    os.mkfifo(folder / SHARD)


def pickle(folder: Path) -> None:
    (folder / "pytorch_model.bin").write_bytes(b"\x80\x04.")


def no_weights(folder: Path) -> None:
    for file in (SHARD, OTHER, INDEX):
        (folder / file).unlink()


def no_index(folder: Path) -> None:
    (folder / INDEX).unlink()


def nan_config(folder: Path) -> None:
    (folder / "config.json").write_text('{"model_type": "qwen3_5_moe", "x": NaN, "quantization_config": {}}')


def lost_shard(folder: Path) -> None:
    (folder / OTHER).unlink()


DAMAGES: list[Any] = [
    (truncate, "was cut off: its tensors end at byte"),
    (cut_in_header, "but the file has 100: it was cut off"),
    (longer, "has 6 bytes behind its last tensor"),
    (huge_header, "says that its header has 100,000,001 bytes"),
    (nan_header, "it holds NaN"),
    (duplicate_name, "stands in it twice"),
    (overlap, "has overlapping tensors"),
    (hole, "has a hole of 16 bytes"),
    (edit_header(lambda h: first_entry(h).update(dtype="F7")), "the type 'F7' is unknown"),
    (edit_header(lambda h: first_entry(h).update(shape=[-1, 4])), "its shape is no list"),
    (edit_header(lambda h: first_entry(h).update(shape=[True])), "its shape is no list"),
    (edit_header(lambda h: first_entry(h).update(shape=[3])), "but its offsets hold"),
    (edit_header(lambda h: first_entry(h).update(data_offsets=[4, 2])), "data_offsets are not"),
    (edit_header(lambda h: first_entry(h).update(more=1)), "and nothing else"),
    (edit_header(lambda h: h.update(__metadata__={"format": 1})), "no mapping of strings"),
    (stray_shard, "stray.safetensors is a shard outside the index"),
    (lost_shard, "is named by the index and is not there"),
    (in_two_shards, "lies in two shards"),
    (edit_index(lambda m: m.update(x="../outside.safetensors")), "no file name within the folder"),
    (edit_index(lambda m: m.update(x="/etc/passwd")), "/etc/passwd is named by the index and is no file name"),
    (edit_index(lambda m: m.update(x="a\\b.safetensors")), "no file name within the folder"),
    (edit_index(lambda m: m.update(x=SHARD)), f"x is in the index, but not in {SHARD}"),
    (edit_index(lambda m: m.update({"lm_head.weight": OTHER if m["lm_head.weight"] == SHARD else SHARD})), "says"),
    (edit_index(lambda m: m.pop("lm_head.weight")), "but not in the index"),
    (edit_index(lambda m: m.update(x=["a"])), "has no weight_map from names to shards"),  # type: ignore[call-overload]
    (linked_out, "a link that leads out of the folder"),
    (pipe, "it is no plain file"),
    (pickle, "pytorch_model.bin is a pickle, which runs code"),
    (no_weights, "there are no weights"),
    (no_index, "nothing says that the 2 shards are all"),
    (nan_config, "config.json cannot be read: it holds NaN"),
]


@pytest.mark.parametrize(("damage", "says"), DAMAGES)
def test_each_damage_fails_the_files_and_nothing_else_is_green(
    damage: Callable[[Path], None], says: str, sound: Folder, source: Path, tmp_path: Path
) -> None:
    folder = sound.write(tmp_path / "checkpoint")
    damage(folder)
    audit = audit_checkpoint(folder, source=source, processes=1)
    assert failing(audit) == {GateName.FILES}
    assert any(says in f"{o.name} {o.reason}" for o in audit.gate(GateName.FILES).offenders)
    assert {gate.verdict for gate in audit.gates[1:]} == {Verdict.NOT_CHECKED}
    assert not audit.passed


def test_links_of_the_hubs_cache_are_followed(sound: Folder, source: Path, tmp_path: Path) -> None:
    written = sound.write(tmp_path / "written")
    blobs, snapshot = tmp_path / "models--x--y" / "blobs", tmp_path / "models--x--y" / "snapshots" / "abc"
    blobs.mkdir(parents=True)
    snapshot.mkdir(parents=True)
    for number, file in enumerate(sorted(written.iterdir())):
        file.rename(blobs / str(number))
        (snapshot / file.name).symlink_to(Path("../../blobs") / str(number))
    assert audit_checkpoint(snapshot, source=source, processes=1).passed


def test_a_single_file_needs_no_index(sound: Folder, source: Path, tmp_path: Path) -> None:
    folder = sound.write(tmp_path / "checkpoint")
    (folder / INDEX).unlink()
    (folder / SHARD).unlink()
    (folder / OTHER).unlink()
    write_safetensors(folder / "model.safetensors", sound.tensors)
    assert audit_checkpoint(folder, source=source, processes=1).passed


def test_a_hostile_name_is_shown_escaped(sound: Folder, tmp_path: Path) -> None:
    folder = sound.write(tmp_path / "checkpoint")
    write_safetensors(folder / "a\x1b[31mred.safetensors", {})
    offender = audit_checkpoint(folder, processes=1).gate(GateName.FILES).offenders[0]
    assert offender.name == "a\\x1b[31mred.safetensors"


@pytest.mark.parametrize("make", [Path.exists, Path.mkdir, Path.touch])
def test_what_is_no_checkpoint_cannot_be_read(make: Callable[[Path], object], tmp_path: Path) -> None:
    make(tmp_path / "folder")
    with pytest.raises(StreamproofError, match="The checkpoint") as caught:
        audit_checkpoint(tmp_path / "folder")
    assert caught.value.exit_code == 1
    assert "config.json" in caught.value.remedy


def test_a_broken_source_is_an_error_that_names_the_file(sound: Folder, source: Path, tmp_path: Path) -> None:
    broken = tmp_path / "source"
    broken.mkdir()
    for file in source.iterdir():
        (broken / file.name).write_bytes(file.read_bytes())
    truncate(broken)
    with pytest.raises(StreamproofError, match="was cut off"):
        audit_checkpoint(sound.write(tmp_path / "checkpoint"), source=broken, processes=1)


def test_a_quantized_source_is_an_error(sound: Folder, tmp_path: Path) -> None:
    folder = sound.write(tmp_path / "checkpoint")
    with pytest.raises(StreamproofError, match="is quantized already: an NVFP4 checkpoint"):
        audit_checkpoint(folder, source=folder, processes=1)
