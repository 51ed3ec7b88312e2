"""Reads the checkpoint to quantize, a layer at a time."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Final

import torch
from safetensors import safe_open
from transformers import AutoConfig

INDEX: Final = "model.safetensors.index.json"
SINGLE: Final = "model.safetensors"
_DECODER: Final = re.compile(r"(model\.(?:language_model\.)?)layers\.0\.")


class Source:
    """A checkpoint's folder.

    Attributes:
        text: configuration of the language model.
        prefix: before every tensor of the decoder, e.g. "model.language_model.".
    """

    def __init__(self, folder: Path, device: str) -> None:
        config = AutoConfig.from_pretrained(folder)
        self.text: Any = config.get_text_config()
        self._device = device
        self._folder = folder
        self._file_of = _weight_map(folder)
        prefixes = {found[1] for name in self._file_of if (found := _DECODER.match(name))}
        if len(prefixes) != 1:
            raise ValueError(f"the decoder's tensors have {len(prefixes)} prefixes instead of one")
        self.prefix: str = prefixes.pop()

    @property
    def layers(self) -> int:
        """How many decoder layers there are, without MTP."""
        return int(self.text.num_hidden_layers)

    def layer(self, index: int) -> dict[str, torch.Tensor]:
        """The tensors of one decoder layer, by their names inside it, on the device and in BF16."""
        prefix = f"{self.prefix}layers.{index}."
        names = [name for name in self._file_of if name.startswith(prefix)]
        return {name.removeprefix(prefix): tensor for name, tensor in self._read(names).items()}

    def embedding(self) -> torch.Tensor:
        """The token embedding, [vocabulary, hidden]."""
        name = f"{self.prefix}embed_tokens.weight"
        return self._read([name])[name]

    def _read(self, names: list[str]) -> dict[str, torch.Tensor]:
        found = {}
        for file in sorted({self._file_of[name] for name in names}):
            # Closed at once: a file that stays open stays mapped, and would count as memory of ours.
            with safe_open(self._folder / file, framework="pt", device=self._device) as shard:
                for name in names:
                    if self._file_of[name] == file:
                        found[name] = shard.get_tensor(name).to(torch.bfloat16)
        return found


def _weight_map(folder: Path) -> dict[str, str]:
    if (folder / INDEX).is_file():
        weight_map: dict[str, str] = json.loads((folder / INDEX).read_text(encoding="utf-8"))["weight_map"]
        return weight_map
    with safe_open(folder / SINGLE, framework="pt") as file:
        return dict.fromkeys(file.keys(), SINGLE)
