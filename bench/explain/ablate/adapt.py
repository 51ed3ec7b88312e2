"""Values that a configuration needs to be served at all, where those of its factors contradict each other.

Two of vLLM 0.26.0's rules tie values of different factors together, and an engine that breaks one refuses to start:
`max_cudagraph_capture_size` is the largest capture size within `max_num_batched_tokens`
(`_set_cudagraph_sizes` in vllm/config/vllm.py), and `prefix_match_unit` divides the attention block
(`resolve_kv_cache_block_sizes` in vllm/v1/core/kv_cache_utils.py), whose length follows from drafts and KV format.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, Literal

from pydantic import BaseModel, ConfigDict

from bench.errors import StreamproofError, UsageError
from bench.explain.preflight.command import plan
from bench.explain.preflight.settings import settings_of
from recipes.layers import flatten, unflatten
from recipes.schema import Recipe

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_UNIT: Final = "engine.flags.prefix_match_unit"
_LARGEST: Final = (
    "engine.flags.compilation_config.max_cudagraph_capture_size",
    "engine.flags.max_cudagraph_capture_size",
)


class Adapted(BaseModel):
    """A value that a configuration has instead of its factors'.

    Attributes:
        key: dotted.
        value: of it.
        kind: of its source, as in `recipes.schema.Source`.
        why: for people.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    key: str
    value: int | float
    kind: Literal["engine", "assumption"] = "engine"
    why: str

    @property
    def says(self) -> str:
        """E.g. "prefix_match_unit is 131: 60 does not divide its block of 2,096 tokens"."""
        return f"{self.key.removeprefix('engine.flags.')} is {self.value:,}: {self.why}"


def with_adapted(recipe: Recipe, adapted: Iterable[Adapted]) -> Recipe:
    """The recipe with other values, each with its source."""
    raw = recipe.model_dump(mode="json", exclude_none=True)
    values = dict(flatten({"engine": raw["engine"]}))
    for each in adapted:
        values[each.key] = each.value
        raw["sources"][each.key] = {"kind": each.kind, "why": each.why}
    raw |= unflatten(values)
    return Recipe.model_validate(raw)


def adaptations(recipe: Recipe) -> tuple[Adapted, ...]:
    """What a recipe needs to be served; nothing for one that can be, or that no plan can be made for."""
    graphs = tuple(_largest_graph(recipe))
    return (*graphs, *_unit(with_adapted(recipe, graphs)))


def _largest_graph(recipe: Recipe) -> Iterator[Adapted]:
    values = dict(flatten({"engine": {"flags": recipe.engine.flags}}))
    key = next((key for key in _LARGEST if key in values), None)
    try:
        settings = settings_of(recipe)
    except UsageError:
        return
    if key is None or not settings.capture_sizes:
        return
    tokens = settings.max_num_batched_tokens
    left = max((size for size in settings.capture_sizes if size <= tokens), default=settings.max_capture)
    if left is not None and left != settings.max_capture:
        instead = f"instead of {settings.max_capture:,}"
        why = f"the largest capture size within max_num_batched_tokens = {tokens:,}, {instead}"
        yield Adapted(key=key, value=left, why=why)


def _unit(recipe: Recipe) -> Iterator[Adapted]:
    unit = recipe.engine.flags.get("prefix_match_unit")
    if not isinstance(unit, int) or unit < 1:
        return
    try:
        block = plan(recipe, offline=True).cache.block_size
    except StreamproofError:
        return
    if block % unit:
        nearest = min(divisors(block), key=lambda divisor: (abs(math.log(divisor / unit)), divisor))
        yield Adapted(key=_UNIT, value=nearest, why=f"{unit} does not divide its block of {block:,} tokens")


def divisors(number: int) -> list[int]:
    """All of a positive number, in order."""
    return [divisor for divisor in range(1, number + 1) if number % divisor == 0]
