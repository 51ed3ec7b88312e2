"""Makes a checkpoint of full-size shapes with random BF16 weights, shard by shard: nothing is downloaded.

It is for measuring what quantization takes, and that engines load what comes out; its text means nothing. The same
seed on the same kind of device gives the same bytes.

    python -m quantize.shapes.make FOLDER [--layers N] [--experts N] ...      (in an environment with torch)
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

import torch
from safetensors.torch import save_file

from quantize.shapes.plan import BYTES, Spec, configuration, shards

if TYPE_CHECKING:
    from collections.abc import Sequence

TOKENIZER: Final = Path(__file__).resolve().parents[1] / "toy" / "checkpoint"
TOKENIZER_FILES: Final = ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "generation_config.json")
"""Of the toy: every id that it knows is one of the large vocabulary too."""
_SIZES: Final = {
    "layers": "num_hidden_layers",
    "experts": "num_experts",
    "experts_per_token": "num_experts_per_tok",
    "hidden": "hidden_size",
    "expert_width": "moe_intermediate_size",
    "vocabulary": "vocab_size",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Makes the folder; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m quantize.shapes.make", description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path, help="to make; a RAM disk is fastest (72 GB at full size)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    for option, key in _SIZES.items():
        parser.add_argument(f"--{option.replace('_', '-')}", type=int, help=f"instead of the full size's {key}")
    options = parser.parse_args(arguments)
    if options.folder.exists():
        parser.error(f"{options.folder} exists already")
    changes = {key: getattr(options, option) for option, key in _SIZES.items() if getattr(options, option)}
    started = time.monotonic()
    size = make(options.folder, changes, seed=options.seed, device=options.device)
    sys.stdout.write(f"{options.folder}: {size / 1e9:.2f} GB in {time.monotonic() - started:.1f} s\n")
    return 0


def make(folder: Path, changes: dict[str, int], *, seed: int, device: str) -> int:
    """Writes the checkpoint, whole or not at all.

    Args:
        folder: to make.
        changes: sizes of the language model that shall differ, see `quantize.shapes.plan.configuration`.
        seed: of all weights.
        device: that draws them: "cpu" or "cuda".

    Returns:
        Bytes of all tensors.
    """
    config = configuration(changes)
    planned = shards(config)
    partial = folder.with_name(f".{folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    weight_map: dict[str, str] = {}
    size = 0
    for number, specs in enumerate(planned, 1):
        name = f"model-{number:05d}-of-{len(planned):05d}.safetensors"
        tensors = {spec.name: draw(spec, seed, device).cpu() for spec in specs}
        save_file(tensors, partial / name, metadata={"format": "pt"})
        (partial / name).chmod(0o644)  # save_file leaves it to its owner alone
        weight_map |= dict.fromkeys(tensors, name)
        size += sum(tensor.numel() * BYTES for tensor in tensors.values())
        sys.stderr.write(f"shard {number} of {len(planned)}\n")
    index = {"metadata": {"total_size": size}, "weight_map": dict(sorted(weight_map.items()))}
    (partial / "model.safetensors.index.json").write_text(json.dumps(index, indent=2) + "\n", encoding="utf-8")
    (partial / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    for file in TOKENIZER_FILES:
        shutil.copyfile(TOKENIZER / file, partial / file)
    partial.replace(folder)
    return size


def draw(spec: Spec, seed: int, device: str) -> torch.Tensor:
    """A tensor's weights: its name and the seed decide them, so that no tensor depends on the others."""
    digest = hashlib.sha256(f"{seed}:{spec.name}".encode()).digest()
    generator = torch.Generator(device).manual_seed(int.from_bytes(digest[:8], "big") >> 1)
    tensor = torch.empty(spec.shape, dtype=torch.bfloat16, device=device)
    return tensor.normal_(spec.mean, spec.deviation, generator=generator)


if __name__ == "__main__":
    sys.exit(main())
