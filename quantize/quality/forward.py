"""Runs where torch and transformers are: one forward pass over each text, `python -m quantize.quality.forward`.

For checkpoints that fit into memory, without an engine: weights and arithmetic in float32, every position at once. The
result is what `quantize.quality.ask` gets from a serving engine, but for rounding: the engine computes in BF16.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch  # type: ignore[import-not-found, unused-ignore]  # only in the engine's and the quantizer's environments
from transformers import AutoModelForCausalLM  # type: ignore[import-not-found, unused-ignore]  # as above

from quantize.quality.scores import Scores, save_scores

_ROWS: Final = 512
"""Positions whose logits exist at a time: with 248,000 tokens, half a gigabyte."""


@torch.inference_mode()  # type: ignore[untyped-decorator, unused-ignore]  # torch is Any in the client's environment
def score(model: Any, ids: list[int], top_k: int) -> Scores:  # noqa: ANN401  transformers' classes
    """What the model makes of a text; see `Scores`."""
    tokens = torch.tensor([ids], device=model.device)
    hidden = model.model(input_ids=tokens, use_cache=False).last_hidden_state[0, :-1]
    own, tops, figures = [], [], []
    for start in range(0, len(hidden), _ROWS):
        logprob = model.lm_head(hidden[start : start + _ROWS]).float().log_softmax(-1)
        target = tokens[0, start + 1 : start + 1 + len(logprob), None]
        own.append(logprob.gather(-1, target)[:, 0].cpu())
        top = logprob.topk(top_k, dim=-1)
        tops.append(top.indices.cpu())
        figures.append(top.values.cpu())
    return Scores(
        np.asarray(ids[1:], dtype=np.int32),
        torch.cat(own).numpy().astype(np.float32),
        torch.cat(tops).numpy().astype(np.int32),
        torch.cat(figures).numpy().astype(np.float32),
    )


def main() -> None:
    """Command line; see the module's docstring. A line `N` on standard output for each text that is done."""
    parser = argparse.ArgumentParser(prog="python -m quantize.quality.forward", description=__doc__)
    parser.add_argument("--model", required=True, help="folder of a checkpoint")
    parser.add_argument("--texts", type=Path, required=True, help="JSON: a list of lists of token ids")
    parser.add_argument("--top-k", type=int, required=True)
    parser.add_argument("--out", type=Path, required=True, help="file to write (npz)")
    given = parser.parse_args()
    model = AutoModelForCausalLM.from_pretrained(given.model, dtype=torch.float32).eval()
    if torch.cuda.is_available():
        model = model.to("cuda")
    scores = []
    for number, ids in enumerate(json.loads(given.texts.read_text(encoding="utf-8")), start=1):
        scores.append(score(model, ids, given.top_k))
        sys.stdout.write(f"{number}\n")
        sys.stdout.flush()
    save_scores(given.out, scores)


if __name__ == "__main__":
    main()
