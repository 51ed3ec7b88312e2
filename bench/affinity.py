"""Which rank a request goes to, so that a call finds what its earlier turns left in the prefix cache.

A rank is whatever has a prefix cache of its own: a replica of the engine, a data-parallel rank of one engine, or such
a rank of a replica. vLLM's load balancer looks at the queues of its ranks only: the next turn of a call would find its
own beginning at one rank in N. So streams are pinned, stream s to rank s modulo N, and every rank is primed.

Ranks are counted through all replicas: rank r is at replica r // M, where each has M data-parallel ranks. A replica has
an address of its own; vLLM takes its rank there from a header of the request (`_get_data_parallel_rank` in
vllm/entrypoints/generate/base/serving.py, 0.26.0). A router in front of them would do the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

RANK_HEADER: Final = "x-data-parallel-rank"

NO_STREAM: Final = -1
"""The stream of a priming request: it belongs to none. That of rank r has the number `NO_STREAM` - r."""


def prime_stream(rank: int) -> int:
    """The stream number of the requests that prime a rank."""
    return NO_STREAM - rank


def rank_of(stream: int, ranks: int) -> int:
    """The rank of a stream, or of the priming requests that `prime_stream` has numbered."""
    return (stream if stream >= 0 else NO_STREAM - stream) % ranks


def replica_of(rank: int | None, ranks_each: int) -> tuple[int, int | None]:
    """Where a rank is.

    Args:
        rank: counted through all replicas; None where there is one replica, whose load balancer chooses.
        ranks_each: data-parallel ranks of each replica.

    Returns:
        The replica, and what a request to it names: its own rank there; None where it has only one.
    """
    if rank is None:
        return 0, None
    replica, own = divmod(rank, ranks_each)
    return replica, own if ranks_each > 1 else None


def ranks_of(streams: NDArray[np.int64], ranks: int) -> NDArray[np.int64]:
    """`rank_of`, of many; shape (n,)."""
    return np.asarray(np.where(streams >= 0, streams, NO_STREAM - streams) % ranks)
