"""How an engine's flags divide a model among GPUs (tensor, pipeline and data parallel, vLLM's own), and replicas.

Data-parallel ranks are engines side by side behind one server, each with a scheduler, a KV cache and a prefix cache of
its own. Of a dense model each rank is a whole replica. Of a mixture of experts only what is not a routed expert is: the
experts are divided among all ranks, which therefore take every step together (`EngineCoreProc.run_engine_core` in
vllm/v1/engine/core.py, `FusedMoEParallelConfig.make` in vllm/model_executor/layers/fused_moe/config.py, vLLM 0.26.0).

Replicas (`engine.replicas` of a recipe) are not vLLM's: whole engines side by side, each with a server, weights and
GPUs of its own, that know nothing of each other. The client sends each call to one of them, as a router would.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

MOST_RANKS: Final = 1024
"""More data-parallel ranks than any host has GPUs."""

MOST_REPLICAS: Final = 64
"""More than any host has GPUs."""

_FACTORS: Final = (
    "tensor_parallel_size",
    "pipeline_parallel_size",
    "prefill_context_parallel_size",
    "data_parallel_size",
)
_ELSEWHERE: Final = (
    "data_parallel_external_lb",
    "data_parallel_hybrid_lb",
    "data_parallel_multi_port_external_lb",
    "data_parallel_rank",
    "data_parallel_size_local",
    "data_parallel_start_rank",
    "headless",
    "nnodes",
)
"""Flags that leave ranks to other servers or hosts, where this run would neither start nor count them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parallel:
    """How many of each.

    Attributes:
        tensor: GPUs that share every layer of a rank.
        pipeline: groups of them that share the layers of a rank.
        context: groups of them that share a rank's prefills.
        data: ranks.
    """

    tensor: int
    pipeline: int
    context: int
    data: int

    @property
    def gpus(self) -> int:
        """GPUs of the whole engine."""
        return self.tensor * self.pipeline * self.context * self.data

    @property
    def words(self) -> str:
        """E.g. "tensor 2 x data 2"; what is 1 is left out."""
        each = (("tensor", self.tensor), ("pipeline", self.pipeline), ("context", self.context), ("data", self.data))
        return " x ".join(f"{name} {count}" for name, count in each if count > 1) or "one"


def parallel_of(flags: Mapping[str, Any]) -> Parallel:
    """What an engine's flags ask for.

    Raises:
        ValueError: one of them is no number of GPUs, or leaves ranks to other servers.
    """
    for name in _ELSEWHERE:
        if name in flags:
            raise ValueError(
                f"engine.flags.{name} leaves ranks to servers that this run does not start; "
                "data_parallel_size alone starts all of them here"
            )
    tensor, pipeline, context, data = (_factor(name, flags.get(name, 1)) for name in _FACTORS)
    return Parallel(tensor=tensor, pipeline=pipeline, context=context, data=data)


def check_gpus(count: int, each: Parallel, replicas: int) -> None:
    """Return if a recipe's GPUs are those that its engines use.

    Args:
        count: GPUs of the recipe.
        each: how one engine divides a model among them.
        replicas: engines side by side.

    Raises:
        ValueError: there are more, or fewer.
    """
    needed = replicas * each.gpus
    if needed == count:
        return
    if replicas == 1:
        asked = f"the engine's flags ask for {needed} ({each.words})"
    else:
        divided = f" ({each.words})" if each.gpus > 1 else ""
        asked = f"{replicas} replicas of {each.gpus} each{divided} need {needed}"
    raise ValueError(f"hardware.count is {count}, and {asked}; set hardware.count = {needed}")


def _factor(name: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MOST_RANKS:
        raise ValueError(f"engine.flags.{name} is {value!r}: it must be a number from 1 to {MOST_RANKS}")
    return value
