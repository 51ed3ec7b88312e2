"""A model of the checkpoint's configuration with one of its decoder layers: all that is in memory at a time.

ModelOpt quantizes and exports it as it would any model of transformers. What comes out equals, to the byte, what it
makes of the whole model (tests/quantize/test_quantize_tiny.py), and of a 72 GB checkpoint 2 GB are in memory.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Final

import torch
from transformers.models.qwen3_5_moe.modeling_qwen3_5_moe import Qwen3_5MoeTextModel

if TYPE_CHECKING:
    from quantize.worker.source import Source

LAYER: Final = "layers.0."
"""Before the layer's own names in the model."""
_VOCABULARY: Final = 16
"""ModelOpt's export runs the model once, on token 1, to see which linears share an input."""


def one_layer(source: Source, index: int, device: str) -> Qwen3_5MoeTextModel:
    """The model with decoder layer `index`, in BF16 on the device, without its final norm.

    Raises:
        RuntimeError: the layer's tensors are not those of this architecture.
    """
    config = copy.deepcopy(source.text)
    config.num_hidden_layers = 1
    config.layer_types = [source.text.layer_types[index]]
    config.vocab_size, config.pad_token_id, config.eos_token_id = _VOCABULARY, None, None
    config.architectures = [Qwen3_5MoeTextModel.__name__]
    with torch.device("meta"):  # nobody needs random weights first
        model = Qwen3_5MoeTextModel(config).to(torch.bfloat16).eval()
    model.layers[0].load_state_dict(source.layer(index), strict=True, assign=True)
    model.rotary_emb = type(model.rotary_emb)(config=config, device=device)  # computed, not loaded
    model.embed_tokens = torch.nn.Embedding(_VOCABULARY, config.hidden_size, device=device, dtype=torch.bfloat16)
    model.norm = torch.nn.Identity()
    return model.requires_grad_(False)
