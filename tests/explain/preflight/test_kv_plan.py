"""The KV cache's arithmetic: units, and more of one thing never gives more of what it is spent on."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from bench.explain.preflight.kv_cache import KvCache, kv_cache_of
from bench.explain.preflight.settings import settings_of
from recipes.load import load_recipe
from tests.explain.preflight.planned import basis, full_size

SETTINGS = settings_of(load_recipe("h200-fp8"))


def cache(draft: int = 4, kv_bytes: int = 1, *, caching: bool = True) -> KvCache:
    return kv_cache_of(full_size(), replace(SETTINGS, draft_tokens=draft, kv_bytes=kv_bytes, prefix_caching=caching))


def test_layers_are_grouped_as_the_engine_does() -> None:
    plain, drafts = basis("vanilla").cache, basis("h200-fp8").cache
    assert (plain.group_size, plain.gdn_groups, plain.padding_layers) == (10, 3, 0)
    assert (drafts.group_size, drafts.gdn_groups, drafts.padding_layers) == (11, 3, 3)  # "Add 3 padding layers"
    assert drafts.block_bytes == 2_211_840 * 11


def test_a_sequence_holds_whole_blocks_and_its_states() -> None:
    drafts = cache()
    states = 3 * (2 + 4)
    assert drafts.blocks_of(1) == 1 + states
    assert drafts.blocks_of(2160) == 1 + states
    assert drafts.blocks_of(2161) == 2 + states
    assert drafts.sequence_state_bytes == states * drafts.block_bytes
    assert cache(caching=False).blocks_of(1) == 1 + 3 * (1 + 4)


def test_a_page_holds_a_state() -> None:
    for draft in range(6):
        for kv_bytes in (1, 2):
            found = cache(draft, kv_bytes)
            assert found.page_bytes >= found.state_bytes
            assert found.page_bytes - found.state_bytes < 16 * found.token_bytes


@given(memory=st.integers(0, 2**40), more=st.integers(0, 2**36), tokens=st.integers(1, 300_000))
def test_more_memory_holds_no_less_and_longer_sequences_are_no_more(memory: int, more: int, tokens: int) -> None:
    found = cache()
    blocks = found.blocks(memory)
    assert blocks * found.block_bytes <= memory
    assert found.blocks(memory + more) >= blocks
    assert found.sequences(blocks, tokens) >= found.sequences(blocks, tokens + 1)
    assert found.tokens(blocks, tokens) <= blocks * found.block_size


@given(draft=st.integers(0, 8))
def test_more_drafts_need_larger_blocks_and_more_state(draft: int) -> None:
    fewer, more = cache(draft), cache(draft + 1)
    assert more.block_size >= fewer.block_size
    assert more.sequence_state_bytes > fewer.sequence_state_bytes


def test_a_narrower_state_makes_smaller_blocks() -> None:
    narrow = basis("vanilla", ("engine.flags.mamba_ssm_cache_dtype", "bfloat16")).cache
    assert narrow.block_size == 16 * -(-(8192 * 3 * 2 + 32 * 128 * 128 * 2) // (16 * 2048)) == 544
    wide = basis("vanilla", ("engine.flags.mamba_cache_dtype", "float32")).cache
    assert wide.state_bytes - basis("vanilla").cache.state_bytes == 8192 * 3 * 2
