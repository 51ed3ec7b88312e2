"""Trains the toy checkpoint: `python -m quantize.toy.train --corpus DIR --out DIR`.

Runs on one H200 in five minutes as it stands, or on two CPU cores in a quarter of an hour with fewer and smaller steps
(`--steps 150 --rows 1 --draft-steps 2 --peak-rate 4e-3`); with two drafts a step the engine then makes 1.97 tokens
a step instead of 2.57. The same seed on the same machine and library versions gives the same weights on CPU; on a GPU
some kernels add in an order of their own.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch  # type: ignore[import-not-found, unused-ignore]  # only in the training environment
from tokenizers import Tokenizer

from quantize.toy.documents import Tokens, encode, read_documents
from quantize.toy.export import export
from quantize.toy.layout import CORPUS, MANIFEST, TOKENIZER, TOKENIZER_TEXT
from quantize.toy.model import Toy
from quantize.toy.objective import agreement, loss
from quantize.toy.provenance import TrainingRecord, write_provenance
from quantize.toy.shape import TOY
from quantize.toy.tokenizer import END_OF_TEXT, TURN_END, token_id

_HELD_OUT: Final = 64
_EVALUATED_ROWS: Final = 16
_WINDOW: Final = 2560
"""Tokens a row: nearly every document fits with its last reply, and the engine's prompts are no longer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How to train.

    Attributes:
        seed: of the weights and of the order of documents.
        steps: optimizer steps.
        rows: windows of 2,560 tokens a step.
        peak_rate: highest learning rate, reached after a twentieth of the steps; it falls to a twentieth of itself.
        weight_decay: of matrices.
        draft_steps: how often the draft layer is applied to its own output.
    """

    seed: int = 20_261_130
    steps: int = 700
    rows: int = 16
    peak_rate: float = 2e-3
    weight_decay: float = 0.05
    draft_steps: int = 4

    def rate(self, step: int) -> float:
        """Learning rate at a step: linear warm-up, then half a cosine."""
        warm = max(1, self.steps // 20)
        if step < warm:
            return self.peak_rate * (step + 1) / warm
        along = (step - warm) / max(1, self.steps - warm)
        return self.peak_rate * (0.05 + 0.95 * (1 + math.cos(math.pi * along)) / 2)


def optimizer(toy: Toy, settings: Settings) -> torch.optim.Optimizer:
    """AdamW; norms, biases, decay rates and the embedding are not decayed."""
    decayed: list[torch.nn.Parameter] = []
    kept: list[torch.nn.Parameter] = []
    for name, parameter in toy.named_parameters():
        matrix = parameter.ndim > 1 and "embed_tokens" not in name and "conv1d" not in name
        (decayed if matrix else kept).append(parameter)
    groups = [{"params": decayed, "weight_decay": settings.weight_decay}, {"params": kept, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=settings.peak_rate, betas=(0.9, 0.95))


def fit(toy: Toy, tokens: Tokens, settings: Settings, device: torch.device) -> dict[str, float]:
    """Trains in place, printing progress.

    Args:
        toy: the modules, on `device`.
        tokens: what to learn.
        settings: how.
        device: where.

    Returns:
        Means of each part of the loss over the last steps (a twentieth of all).
    """
    optimize = optimizer(toy, settings)
    random = np.random.default_rng(settings.seed)
    tail: list[tuple[float, float, float]] = []
    began = time.perf_counter()
    toy.train()
    for step in range(settings.steps):
        batch = tokens.windows(settings.rows, _WINDOW, random)
        for group in optimize.param_groups:
            group["lr"] = settings.rate(step)
        ids, spoken = (torch.from_numpy(array).to(device) for array in (batch.ids, batch.spoken))
        parts = loss(toy, ids, spoken, settings.draft_steps)
        optimize.zero_grad(set_to_none=True)
        parts.total.backward()
        torch.nn.utils.clip_grad_norm_(toy.parameters(), 1.0)
        optimize.step()
        last = step >= settings.steps - max(1, settings.steps // 20)
        if last or step % 20 == 0:
            now = (parts.decoder.item(), parts.draft.item(), parts.balance.item())
            if last:
                tail.append(now)
            if step % 20 == 0 or step == settings.steps - 1:
                spent = time.perf_counter() - began
                print(  # noqa: T201  a command's progress
                    f"step {step:5d}  decoder {now[0]:.3f}  draft {now[1]:.3f}"
                    f"  balance {now[2]:.3f}  {spent:.0f} s, {spent / (step + 1):.3f} s a step",
                    flush=True,
                )
    return dict(zip(("decoder", "draft", "balance"), np.mean(tail, axis=0).tolist(), strict=True))


def evaluate(toy: Toy, tokens: Tokens, settings: Settings, device: torch.device) -> dict[str, Any]:
    """Accuracy in replies and draft agreement on held-out documents, see `quantize.toy.objective.agreement`."""
    toy.eval()
    batch = tokens.windows(_EVALUATED_ROWS, _WINDOW, np.random.default_rng(0))
    ids, spoken = (torch.from_numpy(array).to(device) for array in (batch.ids, batch.spoken))
    accuracy, shares = agreement(toy, ids, spoken, settings.draft_steps)
    return {"reply_accuracy": round(accuracy, 4), "draft_agreement": [round(share, 4) for share in shares]}


def train(corpus: Path, out: Path, settings: Settings, device_name: str, command: str) -> dict[str, Any]:
    """Trains and writes the checkpoint.

    Args:
        corpus: folder that `quantize.toy.prepare` wrote.
        out: the checkpoint's folder.
        settings: how.
        device_name: "cpu" or "cuda".
        command: the command line, for the provenance.

    Returns:
        Final losses and the evaluation.
    """
    # cuBLAS reads this when it starts; without it, its results may differ between two runs.
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(mode=True, warn_only=True)
    torch.set_float32_matmul_precision("high")
    torch.manual_seed(settings.seed)
    tokenizer = Tokenizer.from_file(str(corpus / TOKENIZER))
    tokens, held_out = encode(tokenizer, read_documents(corpus / CORPUS)).split(_HELD_OUT)
    device = torch.device(device_name)
    toy = Toy(TOY, end_token_id=token_id(tokenizer, TURN_END), pad_token_id=token_id(tokenizer, END_OF_TEXT)).to(device)
    began = time.perf_counter()
    losses = fit(toy, tokens, settings, device)
    seconds = time.perf_counter() - began
    export(toy, TOY, tokenizer, out)
    shutil.copyfile(corpus / TOKENIZER_TEXT, out / TOKENIZER_TEXT)
    toy.to(device)
    result = {"final_loss": {name: round(value, 4) for name, value in losses.items()}}
    result |= {"held_out": evaluate(toy, held_out, settings, device)}
    record = TrainingRecord(
        command=command,
        settings=asdict(settings) | {"window": _WINDOW},
        device=torch.cuda.get_device_name(device)
        if device.type == "cuda"
        else f"CPU, {torch.get_num_threads()} threads",
        seconds=round(seconds, 1),
        corpus=json.loads((corpus / MANIFEST).read_text(encoding="utf-8")),
        result=result,
    )
    write_provenance(out, record)
    return result


def _name_of(device: torch.device) -> str:
    if device.type == "cuda":
        return f"GPU, {torch.cuda.get_device_name(device)}"
    return f"CPU, {torch.backends.cpu.get_cpu_capability()}, {torch.get_num_threads()} threads"


def main(arguments: list[str] | None = None) -> None:
    """Command line; see the module's docstring."""
    default = Settings()
    parser = argparse.ArgumentParser(prog="python -m quantize.toy.train", description=__doc__)
    parser.add_argument("--corpus", type=Path, required=True, help="folder that quantize.toy.prepare wrote")
    parser.add_argument("--out", type=Path, required=True, help="folder of the checkpoint")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu", choices=("cpu", "cuda"))
    parser.add_argument("--seed", type=int, default=default.seed)
    parser.add_argument("--steps", type=int, default=default.steps)
    parser.add_argument("--rows", type=int, default=default.rows)
    parser.add_argument("--peak-rate", type=float, default=default.peak_rate)
    parser.add_argument("--weight-decay", type=float, default=default.weight_decay)
    parser.add_argument("--draft-steps", type=int, default=default.draft_steps)
    arguments = sys.argv[1:] if arguments is None else arguments
    given = vars(parser.parse_args(arguments))
    corpus, out, device = given.pop("corpus"), given.pop("out"), given.pop("device")
    print(train(corpus, out, Settings(**given), device, " ".join(["python -m quantize.toy.train", *arguments])))  # noqa: T201  a command's result


if __name__ == "__main__":
    main()
