"""Which data-parallel rank a request goes to, so that a call finds what its earlier turns left in the prefix cache.

Every rank of an engine has a prefix cache of its own, and vLLM's load balancer looks at queues only: the next turn of a
call would find its own beginning at one rank in N. So streams are pinned, stream s to rank s modulo N, and every rank
is primed. vLLM takes the rank from a header of the request (`_get_data_parallel_rank` in
vllm/entrypoints/generate/base/serving.py, 0.26.0; a router in front of it sets the same header).
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


def ranks_of(streams: NDArray[np.int64], ranks: int) -> NDArray[np.int64]:
    """`rank_of`, of many; shape (n,)."""
    return np.asarray(np.where(streams >= 0, streams, NO_STREAM - streams) % ranks)
