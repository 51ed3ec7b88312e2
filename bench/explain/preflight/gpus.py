"""What a card has: from `gpus.toml`, and from the device itself where there is one."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Annotated, Final, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from bench.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.observe.gpu import Gpu

GIB: Final = 1 << 30
_UNSEEN_BY_CUDA: Final = 150_754_820_096 - int(139.8 * GIB)
"""The driver counts more memory than CUDA gives away: measured on an H200, 0.6 GiB."""

Above: TypeAlias = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class Card(BaseModel):
    """One kind of card.

    Attributes:
        match: a device whose name contains this is one.
        memory_gb, bandwidth_tb_s: as published, decimal.
        cuda_gib: total that CUDA reports, binary.
        non_torch_gib: what the CUDA context and libraries take beside the allocator.
        tflops: dense rate by the storage of the weights ("bf16", "fp8", "nvfp4"); a card computes what it has no rate
            for in the next wider one.
        sources: for each of these, where it is from.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    match: str
    memory_gb: Above
    bandwidth_tb_s: Above
    cuda_gib: Above
    non_torch_gib: Above
    tflops: dict[str, Above]
    sources: dict[str, str]

    @property
    def memory_bytes(self) -> int:
        """Total as CUDA reports it."""
        return round(self.cuda_gib * GIB)

    def flops(self, scheme: str) -> float:
        """Operations a second for weights stored like this."""
        wider = {"nvfp4": ("nvfp4", "fp8", "bf16"), "fp8": ("fp8", "bf16"), "bf16": ("bf16",)}[scheme]
        return next(self.tflops[name] for name in wider if name in self.tflops) * 1e12


@cache
def cards() -> dict[str, Card]:
    """Every card that is known, by name."""
    text = files("bench.explain.preflight").joinpath("gpus.toml").read_text(encoding="utf-8")
    return {name: Card.model_validate(table) for name, table in tomllib.loads(text).items()}


def card_named(name: str, devices: Sequence[Gpu] = ()) -> Card:
    """A card by name, with the memory of the real device where this host has one.

    Args:
        name: "H200", "B200", or a name that contains one of them.
        devices: the GPUs of this host.

    Raises:
        UsageError: no such card is known.
    """
    card = next((c for c in cards().values() if c.match.lower() in name.lower()), None)
    if card is None:
        raise UsageError(
            f"no figures of a card {name} are known here.",
            remedy=f"Known: {', '.join(cards())}. Add it to bench/explain/preflight/gpus.toml, with its sources.",
        )
    device = next((d for d in devices if card.match.lower() in d.name.lower() and d.memory_bytes), None)
    if device is None or device.memory_bytes is None:
        return card
    total = (device.memory_bytes - _UNSEEN_BY_CUDA) / GIB
    source = f"this host's {device.name}, as its driver says, less what CUDA keeps (0.6 GiB, measured on an H200)"
    return card.model_copy(update={"cuda_gib": total, "sources": card.sources | {"cuda_gib": source}})
