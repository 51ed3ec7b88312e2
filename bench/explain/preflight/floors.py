"""Floors: how fast the card could be if it moved every byte once and computed without a pause.

Not predictions: a real step also launches kernels, waits for memory it reads twice, and computes below the peak. What
is measured must lie above; how far above says where to look.

- A step takes at least bytes over bandwidth and operations over peak, whichever is longer: the roofline (Williams,
  Waterman, Patterson 2009, "Roofline: an insightful visual performance model").
- A reply takes at least its own prefill and its decoding steps, alone on the card; and with N callers who wait Z
  seconds between turns at least N x D - Z, where D is what one request takes of the card when everything that can be
  shared costs nothing: the asymptotic bounds of a closed system (Denning, Buzen 1978, "The operational analysis of
  queueing network models").
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bench.explain.preflight.gpus import Card
    from bench.explain.preflight.kv_cache import KvCache
    from bench.explain.preflight.shapes import ModelShapes
    from bench.explain.preflight.weights import PartWeights
    from recipes.schema import Point


_NOT_ALWAYS: Final = frozenset({"routed experts", "MTP", "embedding", "vision"})
"""Parts of the weights that a step of the model itself does not read as a whole."""
_EVERY_TOKEN: Final = frozenset({"MLP and routers", "attention", "GDN"})
"""Parts that every token is multiplied with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step of the engine.

    Attributes:
        moved: bytes.
        operations: multiplications and additions.
        seconds: the floor.
        bound: what sets it, "bandwidth" or "compute".
    """

    moved: float
    operations: float
    seconds: float
    bound: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """A model on a card, as far as floors go.

    Attributes:
        shapes: of the model.
        parts: bytes of its weights.
        cache: of keys, values and states.
        bandwidth: bytes a second.
        flops: operations a second.
        draft_tokens: k.
    """

    shapes: ModelShapes
    parts: Mapping[str, PartWeights]
    cache: KvCache
    bandwidth: float
    flops: float
    draft_tokens: int

    def decode(self, sequences: int, context: float) -> Step:
        """One decoding step: every sequence verifies k drafts and gets one token, then k tokens are drafted.

        Args:
            sequences: that decode together.
            context: mean tokens that each looks back at.
        """
        tokens = sequences * (self.draft_tokens + 1)
        moved = self._weights_read(tokens) + sequences * self._sequence_read(context)
        if self.draft_tokens:
            moved += self.draft_tokens * self._draft_read(sequences)
        return self._step(moved, tokens * self._operations(context, head=True) + self._draft_operations(sequences))

    def prefill(self, tokens: float, context: float) -> Step:
        """Computing so many tokens of one prompt, at whatever cut.

        Args:
            tokens: that are computed.
            context: mean tokens that each of them looks back at.
        """
        return self._step(self._weights_read(tokens), tokens * self._operations(context, head=False))

    def _step(self, moved: float, operations: float) -> Step:
        memory, compute = moved / self.bandwidth, operations / self.flops
        bound = "bandwidth" if memory >= compute else "compute"
        return Step(moved=moved, operations=operations, seconds=max(memory, compute), bound=bound)

    def _weights_read(self, tokens: float) -> float:
        """Every weight once, of the routed experts those that some token uses: E (1 - (1 - p) ** n) of E."""
        always = sum(part.total for name, part in self.parts.items() if name not in _NOT_ALWAYS)
        if self.shapes.tied:
            always += self._bytes("embedding")
        return always + self._bytes("routed experts") * self._touched(tokens)

    def _draft_read(self, sequences: int) -> float:
        """One draft: the draft layers with the experts that are used, and the LM head."""
        head = self._bytes("embedding") if self.shapes.tied else self._bytes("LM head")
        experts = self.shapes.experts
        if experts is None or "MTP" not in self.parts:
            return self._bytes("MTP") + head
        # Experts are nearly all of a draft layer; its other weights are left out of the floor.
        return self._bytes("MTP") * self._touched(sequences) + head

    def _sequence_read(self, context: float) -> float:
        """Keys and values of one sequence, and its states, read and written."""
        attention = self.cache.token_bytes * self.shapes.attention_layers * context
        return attention + 2 * self.cache.state_bytes * self.shapes.gdn_layers

    def _touched(self, tokens: float) -> float:
        experts = self.shapes.experts
        if experts is None:
            return 1.0
        share: float = 1 - (1 - experts.per_token / experts.count) ** tokens
        return share

    def _bytes(self, part: str) -> int:
        return self.parts[part].total if part in self.parts else 0

    def _operations(self, context: float, *, head: bool) -> float:
        """Of one token: two for every weight that it meets, and four for every number of the keys looked back at."""
        experts = self.shapes.experts
        met: float = sum(
            self.parts[name].parameters for name in ("MLP and routers", "attention", "GDN") if name in self.parts
        )
        if experts is not None:
            met += self.parts["routed experts"].parameters * experts.per_token / experts.count
        if head:
            met += self.shapes.vocabulary_rows * self.shapes.hidden
        width = self.shapes.heads * self.shapes.hybrid.head_dim
        return 2 * met + 4 * context * width * self.shapes.attention_layers

    def _draft_operations(self, sequences: int) -> float:
        if not self.draft_tokens:
            return 0.0
        return 2.0 * sequences * self.draft_tokens * self.shapes.vocabulary_rows * self.shapes.hidden

    def own(self, request: Request) -> float:
        """Seconds of the card that one request takes when all weights are read for others anyway (D above)."""
        steps = request.steps(self.draft_tokens)
        tokens = steps * (self.draft_tokens + 1)
        operations = request.computed * self._operations(request.prompt / 2, head=False)
        operations += tokens * self._operations(request.prompt, head=True)
        return max(steps * self._sequence_read(request.prompt) / self.bandwidth, operations / self.flops)

    def alone(self, request: Request) -> float:
        """Seconds of one request with the card for itself."""
        prefill = self.prefill(request.computed, request.prompt - request.computed / 2).seconds
        return prefill + request.steps(self.draft_tokens) * self.decode(1, request.prompt).seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The mean request of a workload.

    Attributes:
        prompt: tokens of its prompt.
        computed: of these, how many are no prefix hits.
        reply: tokens of its reply.
        acceptance: tokens a decoding step gives; None where nobody states it: then k + 1, the most there can be.
    """

    prompt: float
    computed: float
    reply: int
    acceptance: float | None

    def steps(self, draft_tokens: int) -> float:
        """Decoding steps of the reply; its first token comes with the prefill."""
        return (self.reply - 1) / (self.acceptance or draft_tokens + 1)


def machine_of(shapes: ModelShapes, parts: tuple[PartWeights, ...], cache: KvCache, card: Card, draft: int) -> Machine:
    """A model on a card. All linears are taken at the peak of the narrowest that is stored: the floor stays one."""
    return Machine(
        shapes=shapes,
        parts={part.part: part for part in parts},
        cache=cache,
        bandwidth=card.bandwidth_tb_s * 1e12,
        flops=card.flops(shapes.quantization.scheme),
        draft_tokens=draft,
    )


def reply_floor(machine: Machine, request: Request, point: Point, gap_s: float, ranks: int = 1) -> float | None:
    """The least mean E2E at an operating point, in seconds; None where the load alone is more than the card can do.

    Args:
        machine: model and card.
        request: the mean request.
        point: of the ladder. A trace has no rate to tell: its floor is that of a request alone.
        gap_s: mean turn gap of the streams.
        ranks: ranks of all replicas that the load is shared by. The floors are convex in the load, so that no way of
            sharing it has a lower mean than even shares.
    """
    alone, own = machine.alone(request), machine.own(request)
    if point.rate is not None:
        return alone if point.rate / ranks * own < 1 else None
    if point.concurrent is not None:
        return max(alone, point.concurrent / ranks * own)
    return max(alone, (point.streams or 0) / ranks * own - gap_s)
