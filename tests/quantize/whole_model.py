"""Runs in the quantizer's environment: ModelOpt on the whole toy at once, as its own example does it.

whole_model.py SOURCE TOKENS PRESET KV OUT
"""

import sys

import modelopt.torch.quantization as mtq
import torch
from modelopt.torch.export import export_hf_checkpoint
from safetensors.torch import load_file
from transformers import Qwen3_5MoeForConditionalGeneration

from quantize.worker.formats import quantizers

source, tokens, preset, kv_cache, out = sys.argv[1:]
model = Qwen3_5MoeForConditionalGeneration.from_pretrained(source, dtype=torch.bfloat16)
batches = load_file(tokens)["tokens"].long().split(2)


def loop(quantized: torch.nn.Module) -> None:
    for batch in batches:
        quantized(input_ids=batch, use_cache=False)


with torch.inference_mode():
    mtq.quantize(model, quantizers(preset, kv_cache), loop)
    export_hf_checkpoint(model, export_dir=out)
