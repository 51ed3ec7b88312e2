"""Writes the checkpoint's folder: weights, configuration, tokenizer, chat template."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch  # type: ignore[import-not-found, unused-ignore]  # only in the training environment
from safetensors.torch import save_file  # type: ignore[import-not-found, unused-ignore]  # as above

from quantize.toy.layout import TOKENIZER, WEIGHTS
from quantize.toy.shape import Shape, model_config, tensor_shapes
from quantize.toy.tokenizer import (
    CHAT_TEMPLATE,
    END_OF_TEXT,
    TURN_END,
    VISION_TOKEN,
    generation_config,
    token_id,
    tokenizer_config,
)

if TYPE_CHECKING:
    from tokenizers import Tokenizer

    from quantize.toy.model import Toy


def export(toy: Toy, shape: Shape, tokenizer: Tokenizer, folder: Path) -> None:
    """Writes everything that the engine needs to serve the toy.

    Args:
        toy: the trained modules.
        shape: their widths.
        tokenizer: the vocabulary they were trained on.
        folder: created where it is missing; files of the same names are replaced.

    Raises:
        ValueError: the modules' tensors are not those that `tensor_shapes` promises.
    """
    tensors = {name: value.detach().to("cpu", torch.bfloat16).contiguous() for name, value in toy.tensors().items()}
    promised = tensor_shapes(shape)
    written = {name: tuple(value.shape) for name, value in tensors.items()}
    if written != promised:
        differing = sorted(name for name in written.keys() | promised.keys() if written.get(name) != promised.get(name))
        raise ValueError(f"tensors that are not as the shape promises: {', '.join(differing)}")
    folder.mkdir(parents=True, exist_ok=True)
    save_file(tensors, folder / WEIGHTS, metadata={"format": "pt"})
    (folder / WEIGHTS).chmod(0o644)  # save_file leaves it to its owner alone
    tokenizer.save(str(folder / TOKENIZER))
    shutil.copyfile(CHAT_TEMPLATE, folder / "chat_template.jinja")
    config = model_config(
        shape,
        end_token_id=token_id(tokenizer, TURN_END),
        pad_token_id=token_id(tokenizer, END_OF_TEXT),
        vision_token_id=token_id(tokenizer, VISION_TOKEN),
    )
    write_json(folder / "config.json", config)
    write_json(folder / "tokenizer_config.json", tokenizer_config(shape.context))
    write_json(folder / "generation_config.json", generation_config(tokenizer))


def write_json(path: Path, content: dict[str, Any]) -> None:
    """Writes JSON the way all files of the checkpoint are written: two spaces, keys in the given order."""
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
