"""Runs in the engine's environment, where torch is: measures the toy's modules against slow references, prints JSON."""

import json
import sys
from pathlib import Path

import torch  # type: ignore[import-not-found, unused-ignore]  # only in the engine's environment

from quantize.toy import train
from quantize.toy.layout import WEIGHTS
from quantize.toy.model import Toy
from quantize.toy.objective import loss
from quantize.toy.provenance import file_digest
from quantize.toy.shape import TOY, tensor_shapes


def draft_as_the_engine_does(
    toy: Toy, hidden: torch.Tensor, embedded: torch.Tensor, anchor: int, steps: int
) -> list[torch.Tensor]:
    """Drafts from one anchor with the layer's own causal attention over everything that the engine has cached."""
    draft = toy.draft
    entered: list[torch.Tensor] = []
    outputs = []

    def enter(state: torch.Tensor, embedding: torch.Tensor) -> None:
        pair = torch.cat([draft.pre_fc_norm_embedding(embedding), draft.pre_fc_norm_hidden(state)], dim=-1)
        entered.append(draft.fc(pair))

    for place in range(anchor + 1):
        enter(hidden[:, place : place + 1], embedded[:, place + 1 : place + 2])
    for step in range(steps):
        sequence = torch.cat(entered, dim=1)
        positions = torch.arange(sequence.shape[1]).expand(3, 1, -1)
        states = draft.layer(sequence, position_embeddings=draft.rotary(sequence, positions), attention_mask=None)
        outputs.append(draft.norm(states[:, -1:]))
        enter(outputs[-1], embedded[:, anchor + 2 + step : anchor + 3 + step])
    return outputs


def largest_draft_error(toy: Toy, tokens: torch.Tensor) -> float:
    hidden = toy.decoder(input_ids=tokens, use_cache=False).last_hidden_state
    embedded = toy.decoder.embed_tokens(tokens)
    steps = 3
    together = toy.draft(hidden, embedded, steps)
    errors = [
        (together[step][:, anchor] - alone[:, 0]).abs().max().item()
        for anchor in (0, 1, 7, together[0].shape[1] - 1)
        for step, alone in enumerate(draft_as_the_engine_does(toy, hidden, embedded, anchor, steps))
    ]
    return float(max(errors))


def largest_experts_error(toy: Toy) -> float:
    block = toy.decoder.layers[0].mlp
    hidden = torch.randn(1, 40, TOY.hidden)
    ours = block(hidden)
    toy.decoder.config._experts_implementation = "eager"
    theirs = block(hidden)
    toy.decoder.config._experts_implementation = "dense"
    return float((ours - theirs).abs().max())


def untouched_parameters(toy: Toy, tokens: torch.Tensor) -> list[str]:
    loss(toy, tokens, torch.ones_like(tokens, dtype=torch.bool), 2).total.backward()
    return [name for name, parameter in toy.named_parameters() if parameter.grad is None or not parameter.grad.any()]


def digest_of_training(corpus: Path, out: Path, seed: int) -> str:
    options = ["--device", "cpu", "--steps", "2", "--rows", "1", "--draft-steps", "2", "--seed", str(seed)]
    train.main(["--corpus", str(corpus), "--out", str(out), *options])
    return file_digest(out / WEIGHTS)


def main() -> None:
    corpus, work = Path(sys.argv[1]), Path(sys.argv[2])
    torch.manual_seed(0)
    toy = Toy(TOY, end_token_id=1, pad_token_id=0)
    tokens = torch.randint(TOY.vocab, (2, 20))
    with torch.no_grad():
        draft_error, experts_error = largest_draft_error(toy, tokens), largest_experts_error(toy)
    report = {
        "draft_error": draft_error,
        "experts_error": experts_error,
        "names_as_promised": {name: tuple(value.shape) for name, value in toy.tensors().items()} == tensor_shapes(TOY),
        "untouched": untouched_parameters(toy, tokens),
        "digests": [digest_of_training(corpus, work / name, seed) for name, seed in (("a", 1), ("b", 1), ("c", 2))],
    }
    sys.stdout.write(json.dumps(report) + "\n")


if __name__ == "__main__":
    main()
