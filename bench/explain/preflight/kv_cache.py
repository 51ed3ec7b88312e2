"""The KV cache of a hybrid model: what a token, a block and a sequence take, and how many fit.

Attention blocks and recurrent states share one pool of equal pages. Layers are put into groups of equal size, each
group has its own table of blocks, and a block of the pool is a page for every layer of one group.

Source: `_align_hybrid_block_size` in vllm/platforms/interface.py (size of a block, see `bench.workload.block_size`),
`_get_kv_cache_groups_uniform_page_size`, `get_num_blocks` and `get_max_concurrency_for_kv_cache_config` in
vllm/v1/core/kv_cache_utils.py, `MambaSpec.max_memory_usage_bytes` in vllm/v1/kv_cache_interface.py, vLLM 0.26.0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from bench.explain.preflight.weights import BF16
from bench.workload.block_size import attention_block_size

if TYPE_CHECKING:
    from bench.explain.preflight.settings import Settings
    from bench.explain.preflight.shapes import ModelShapes

_FEW_MORE: Final = 1.5
"""A kind of layer that has less than this many times as many layers as the other gives the groups their size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KvCache:
    """The pool, for one GPU.

    Attributes:
        block_size: tokens of a block.
        token_bytes: keys and values of one token in one attention layer.
        state_bytes: state of one GDN layer: the delta rule's, and the convolution's with room for the drafts.
        attention_layers: with those of the draft.
        gdn_layers: layers with a state.
        group_size: layers of a group, padding included.
        state_blocks: blocks of states that a sequence holds in each group of GDN layers.
    """

    block_size: int
    token_bytes: int
    state_bytes: int
    attention_layers: int
    gdn_layers: int
    group_size: int
    state_blocks: int

    @property
    def page_bytes(self) -> int:
        """One block of one layer; a state is padded to it."""
        return self.block_size * self.token_bytes

    @property
    def block_bytes(self) -> int:
        """One block of the pool."""
        return self.page_bytes * self.group_size

    @property
    def attention_groups(self) -> int:
        """Groups of attention layers."""
        return math.ceil(self.attention_layers / self.group_size)

    @property
    def gdn_groups(self) -> int:
        """Groups of GDN layers."""
        return math.ceil(self.gdn_layers / self.group_size)

    @property
    def padding_layers(self) -> int:
        """Layers that exist only to fill a group: their part of each block is never used."""
        groups = self.attention_groups + self.gdn_groups
        return groups * self.group_size - self.attention_layers - self.gdn_layers

    @property
    def token_bytes_all_layers(self) -> int:
        """Keys and values of one token in all attention layers."""
        return self.token_bytes * self.attention_layers

    @property
    def sequence_state_bytes(self) -> int:
        """GDN states of one sequence: one of every layer, and what is kept of them as whole blocks."""
        return self.state_blocks * self.gdn_groups * self.block_bytes

    def blocks(self, memory: int) -> int:
        """Blocks that fit into so many bytes."""
        return max(0, memory // self.block_bytes)

    def blocks_of(self, tokens: int) -> int:
        """Blocks of the pool that one sequence of so many tokens holds."""
        return math.ceil(tokens / self.block_size) * self.attention_groups + self.state_blocks * self.gdn_groups

    def sequences(self, blocks: int, tokens: int) -> float:
        """Sequences of so many tokens that fit, none sharing a block."""
        return blocks / self.blocks_of(tokens)

    def tokens(self, blocks: int, longest: int) -> int:
        """What vLLM prints as "GPU KV cache size": tokens of all sequences of the longest context that fit."""
        return int(self.sequences(blocks, longest) * longest)


def kv_cache_of(shapes: ModelShapes, settings: Settings) -> KvCache:
    """The pool of an engine."""
    draft = settings.draft_tokens
    attention = shapes.attention_layers + (shapes.mtp_layers if draft else 0)
    state, conv = settings.state_bytes or shapes.state_bytes, settings.conv_bytes or BF16
    token = shapes.hybrid.bytes_per_token(settings.kv_bytes)
    block = attention_block_size(
        shapes.hybrid,
        kv_bytes=settings.kv_bytes,
        draft_tokens=draft,
        state_bytes=state,
        conv_bytes=conv,
        alignment=settings.block_alignment,
    )
    return KvCache(
        block_size=block,
        token_bytes=token,
        state_bytes=shapes.hybrid.bytes_per_state(state_bytes=state, conv_bytes=conv, draft_tokens=draft),
        attention_layers=attention,
        gdn_layers=shapes.gdn_layers,
        group_size=_group_size(attention, shapes.gdn_layers),
        # "align" keeps the newest state and the one before it; every draft token needs a block of its own.
        state_blocks=(2 if settings.prefix_caching else 1) + draft,
    )


def _group_size(*layers: int) -> int:
    counts = [count for count in layers if count]
    fewest, most = min(counts), max(counts)
    return most if most < fewest * _FEW_MORE else fewest
