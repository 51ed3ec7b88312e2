"""What a card has: published, measured, or as the device itself says."""

from __future__ import annotations

import pytest

from bench.errors import UsageError
from bench.explain.preflight.gpus import GIB, card_named, cards
from bench.observe.gpu import Gpu


def device(name: str, memory_bytes: int | None) -> Gpu:
    return Gpu(
        index=0,
        uuid="GPU-0",
        name=name,
        memory_bytes=memory_bytes,
        memory_free_bytes=memory_bytes,
        sm_clock_mhz=None,
        sm_clock_max_mhz=None,
        memory_clock_mhz=None,
        memory_clock_max_mhz=None,
        power_limit_w=None,
        power_limit_default_w=None,
        ecc=None,
        mig=False,
        persistence=None,
        processes=(),
    )


def test_every_figure_has_a_source() -> None:
    for card in cards().values():
        named = set(type(card).model_fields) - {"match", "sources"}
        assert card.sources.keys() == named
        assert all(card.sources.values())


def test_published_memory_and_bandwidth() -> None:
    assert (cards()["H200"].memory_gb, cards()["H200"].bandwidth_tb_s) == (141, 4.8)
    assert (cards()["B200"].memory_gb, cards()["B200"].bandwidth_tb_s) == (180, 8.0)


def test_a_card_computes_narrow_weights_in_the_next_wider_rate_that_it_has() -> None:
    assert cards()["B200"].flops("nvfp4") == 2 * cards()["B200"].flops("fp8")
    assert cards()["H200"].flops("nvfp4") == cards()["H200"].flops("fp8") == 2 * cards()["H200"].flops("bf16") + 1e12


def test_the_real_device_is_asked_where_there_is_one() -> None:
    known = card_named("H200")
    here = card_named("NVIDIA H200", [device("NVIDIA H200", 150_754_820_096)])  # as measured
    assert here.memory_bytes == pytest.approx(known.memory_bytes, abs=1 << 20)
    smaller = card_named("H200", [device("NVIDIA B200", 1), device("NVIDIA H200", 100 * GIB)])
    assert smaller.memory_bytes < 100 * GIB
    assert "this host" in smaller.sources["cuda_gib"]
    assert card_named("H200", [device("NVIDIA H200", None)]) == known


def test_an_unknown_card_is_refused_with_those_that_are_known() -> None:
    with pytest.raises(UsageError, match="GTX") as refused:
        card_named("GTX 970")
    assert "H200, B200" in refused.value.remedy
