"""What training minimizes: the decoder's next-token loss, the draft layer's, and balance among the experts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

import torch  # type: ignore[import-not-found, unused-ignore]  # only in the training environment
from torch.nn import functional  # type: ignore[import-not-found, unused-ignore]  # as above

if TYPE_CHECKING:
    from types import TracebackType

    from quantize.toy.model import Toy

DRAFT_WEIGHT: Final = 0.3
"""Share of the draft loss: it also shapes the decoder's hidden states, and must not rule them."""

REPLY_WEIGHT: Final = 4.0
"""How much more a token of a reply counts than one of a prompt: replies are what is generated, and they are short."""

BALANCE_WEIGHT: Final = 0.01
"""Share of the balance loss, as in the Switch Transformer paper (arXiv 2101.03961, equation 4)."""


@dataclass(frozen=True, slots=True)
class Loss:
    """The parts of one step's loss, each a scalar tensor.

    Attributes:
        decoder: next-token cross entropy in nats, weighted by `REPLY_WEIGHT`.
        draft: cross entropy of the draft layer against the decoder's own distribution, weighted likewise, mean over
            its steps.
        balance: 1 where every expert gets the same share, more otherwise.
    """

    decoder: torch.Tensor
    draft: torch.Tensor
    balance: torch.Tensor

    @property
    def total(self) -> torch.Tensor:
        """What is differentiated."""
        return self.decoder + DRAFT_WEIGHT * self.draft + BALANCE_WEIGHT * self.balance


class RouterWatch:
    """Collects the balance loss of every router that runs while the context is open.

    Args:
        toy: its routers are watched.
    """

    def __init__(self, toy: Toy) -> None:
        self._routers = [module for module in toy.modules() if type(module).__name__.endswith("TopKRouter")]
        self._seen: list[torch.Tensor] = []

    def __enter__(self) -> Self:
        self._seen.clear()
        self._hooks = [router.register_forward_hook(self._record) for router in self._routers]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for hook in self._hooks:
            hook.remove()

    def _record(self, router: torch.nn.Module, _: object, output: tuple[torch.Tensor, ...]) -> None:
        logits, _shares, chosen = output
        probability = logits.float().softmax(-1).mean(0)
        share = functional.one_hot(chosen, router.num_experts).float().mean((0, 1))
        self._seen.append(router.num_experts * (probability * share).sum())

    def balance(self) -> torch.Tensor:
        """Mean over the routers, a scalar."""
        return torch.stack(self._seen).mean()


def loss(toy: Toy, tokens: torch.Tensor, spoken: torch.Tensor, draft_steps: int) -> Loss:
    """One forward pass of decoder and draft layer.

    The draft layer learns what the decoder would say, not what the text says: its drafts are checked against the
    decoder, and where the text is a surprise to the decoder a right guess would be rejected.

    Args:
        toy: the modules.
        tokens: [rows, length].
        spoken: True for the tokens of a reply, [rows, length].
        draft_steps: how often the draft layer is applied to its own output, the first time included.

    Returns:
        The parts of the loss.
    """
    with RouterWatch(toy) as routers:
        hidden = toy.decoder(input_ids=tokens, use_cache=False).last_hidden_state
        drafts = toy.draft(hidden, toy.decoder.embed_tokens(tokens), draft_steps)
        balance = routers.balance()
    weights = 1 + (REPLY_WEIGHT - 1) * spoken.float()
    logits = toy.project(hidden).float()
    decoder = _weighted_cross_entropy(logits[:, :-1], tokens[:, 1:], weights[:, 1:])
    said = logits.detach().softmax(-1)
    draft = torch.stack(
        [
            _weighted_cross_entropy(
                toy.project(state).float(),
                said[:, step + 1 : step + 1 + state.shape[1]],
                weights[:, step + 2 : step + 2 + state.shape[1]],
            )
            for step, state in enumerate(drafts)
        ]
    ).mean()
    return Loss(decoder, draft, balance)


def _weighted_cross_entropy(logits: torch.Tensor, target: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
    """Mean over all tokens; `target` is token ids or distributions."""
    each = functional.cross_entropy(logits.flatten(0, 1), target.flatten(0, 1), reduction="none")
    return (each * weights.flatten()).sum() / weights.sum()


@torch.no_grad()  # type: ignore[untyped-decorator, unused-ignore]  # torch is Any in the client's environment
def agreement(toy: Toy, tokens: torch.Tensor, spoken: torch.Tensor, draft_steps: int) -> tuple[float, list[float]]:
    """How well decoder and draft layer do in replies that they were not trained on.

    Args:
        toy: the modules.
        tokens: [rows, length].
        spoken: True for the tokens of a reply, [rows, length].
        draft_steps: drafts per anchor.

    Returns:
        (share of reply tokens that are the decoder's first choice, for each step the share of anchors where this and
        every earlier draft is the decoder's first choice). The engine's acceptance differs: it drafts from its own
        replies, not from the text.
    """
    hidden = toy.decoder(input_ids=tokens, use_cache=False).last_hidden_state
    choice = toy.project(hidden).argmax(-1)
    accuracy = (choice[:, :-1] == tokens[:, 1:])[spoken[:, 1:]].float().mean().item()
    drafts = toy.draft(hidden, toy.decoder.embed_tokens(tokens), draft_steps)
    anchors = drafts[0].shape[1]
    chain = torch.ones_like(spoken[:, :anchors])
    shares = []
    for step, state in enumerate(drafts):
        chain = chain & (toy.project(state).argmax(-1) == choice[:, step + 1 : step + 1 + anchors])
        shares.append(chain[spoken[:, :anchors]].float().mean().item())
    return accuracy, shares
