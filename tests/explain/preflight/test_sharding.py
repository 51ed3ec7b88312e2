"""One GPU's part of a model: parts add up to the whole where it is divided, and are the whole where it is not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bench.explain.preflight.budget import forward_peak
from bench.explain.preflight.floors import reply_floor
from bench.explain.preflight.kv_cache import kv_cache_of
from bench.explain.preflight.settings import Settings, settings_of
from bench.explain.preflight.sharding import indivisible, one_gpu
from bench.explain.preflight.verdicts import verdicts_of
from bench.explain.preflight.weights import weights
from recipes.load import load_recipe
from tests.explain.preflight.planned import basis, full_size, lines

DP2 = "h200-fp8-dp2-dummy"
X2 = "h200-fp8-x2-dummy"
ALONE = "h200-fp8-fast-dummy"
WHOLE_EVERYWHERE = {"norms"}


def settings(*, tensor: int = 1, data: int = 1, expert_parallel: bool = False) -> Settings:
    return replace(settings_of(load_recipe("h200-fp8")), tensor=tensor, data=data, expert_parallel=expert_parallel)


def parts(*, tensor: int = 1, data: int = 1) -> dict[str, int]:
    shapes = one_gpu(full_size(), settings(tensor=tensor, data=data))
    return {part.part: part.total for part in weights(shapes, draft=True, vision=False)}


def test_one_gpu_has_the_model() -> None:
    assert one_gpu(full_size(), settings()) == full_size()


def test_data_parallel_divides_the_routed_experts_and_nothing_else() -> None:
    whole, half = parts(), parts(data=2)
    assert half["routed experts"] * 2 == whole["routed experts"]
    assert half["MTP"] < whole["MTP"]  # its layer has experts too
    others = whole.keys() - {"routed experts", "MTP"}
    assert {name: half[name] for name in others} == {name: whole[name] for name in others}


def test_tensor_parallel_divides_all_but_norms_and_routers() -> None:
    whole, half = parts(), parts(tensor=2)
    for name in ("routed experts", "attention", "GDN", "embedding", "LM head"):
        assert half[name] * 2 == pytest.approx(whole[name], rel=0.001), name
    assert half["norms"] == whole["norms"]
    assert whole["MLP and routers"] / 2 < half["MLP and routers"] < whole["MLP and routers"]


def test_both_divide_the_experts_among_all_gpus() -> None:
    assert parts(tensor=2, data=2)["routed experts"] * 4 == parts()["routed experts"]
    assert parts(tensor=2, data=2)["attention"] == parts(tensor=2)["attention"]


def test_keys_and_states_are_divided_with_their_heads_and_keys_are_never_less_than_one_head() -> None:
    one, two, four = (
        kv_cache_of(one_gpu(full_size(), settings(tensor=tensor)), settings(tensor=tensor)) for tensor in (1, 2, 4)
    )
    assert two.token_bytes * 2 == one.token_bytes
    assert two.state_bytes * 2 == one.state_bytes
    assert four.token_bytes == two.token_bytes  # two heads of keys and values: four GPUs hold each twice
    assert four.state_bytes * 4 == one.state_bytes
    data = settings(data=2)
    assert kv_cache_of(one_gpu(full_size(), data), data) == one


def test_the_tokens_of_all_ranks_meet_in_the_experts() -> None:
    alone, two = (forward_peak(one_gpu(full_size(), settings(data=data)), 4096) for data in (1, 2))
    assert two > alone
    assert forward_peak(one_gpu(full_size(), settings(tensor=2)), 4096) < alone


def test_what_does_not_divide_is_named() -> None:
    assert list(indivisible(full_size(), settings())) == []
    assert list(indivisible(full_size(), settings(tensor=2, data=2))) == []
    assert list(indivisible(full_size(), settings(tensor=3))) == [
        "16 attention heads over 3 GPUs",
        "16 GDN key heads over 3 GPUs",
        "32 GDN value heads over 3 GPUs",
        "2 heads of keys and values over 3 GPUs",
        "experts of width 512 over 3 GPUs, in blocks of 128",
        "the shared expert of width 512 over 3 GPUs, in blocks of 128",
    ]
    assert list(indivisible(full_size(), settings(data=8))) == ["experts of width 512 over 8 GPUs, in blocks of 128"]
    assert list(indivisible(full_size(), settings(data=8, expert_parallel=True))) == []


def test_the_plan_of_two_ranks_is_of_one_of_them() -> None:
    one, two = lines(basis(ALONE)), lines(basis(DP2))
    assert "parallel.gpus" not in one
    assert two["parallel.gpus"].value == 2
    assert two["memory.total"].value == one["memory.total"].value
    assert (two["weights.total"].value or 0) < (one["weights.total"].value or 0)
    assert (two["kv.blocks"].value or 0) > (one["kv.blocks"].value or 0)
    assert two["kv.block_size"].value == one["kv.block_size"].value
    assert two["prefix.rate"].value == one["prefix.rate"].value
    assert "NCCL" in two["memory.non_torch"].how


def test_ranks_share_the_load() -> None:
    alone, two = {v.name: v for v in verdicts_of(basis(ALONE))}, {v.name: v for v in verdicts_of(basis(DP2))}
    assert "data parallel" not in alone
    assert two["data parallel"].verdict == "tight"
    assert "replicas" in two["data parallel"].why
    assert "max_num_seqs" not in two  # 120 streams are 60 at each rank, of 64
    more = basis(DP2, ("engine.flags.max_num_seqs", "48"))
    (short,) = (v for v in verdicts_of(more) if v.name == "max_num_seqs")
    assert (short.verdict, "up to 60 at each rank" in short.why, short.change) == ("tight", True, "max_num_seqs = 60")
    of = basis(DP2)
    assert of.machine is not None
    point = of.recipe.load.ladder[2].model_copy(update={"streams": 1200})
    once, shared = (reply_floor(of.machine, of.request, point, 0.0, ranks) for ranks in (1, 2))
    assert once is not None
    assert shared == pytest.approx(once / 2)


def test_the_plan_of_replicas_is_of_one_of_them() -> None:
    one, two, of = lines(basis(ALONE)), lines(basis(X2)), basis(X2)
    assert (two["parallel.gpus"].value, two["parallel.gpus"].label) == (2, "GPUs of all replicas")
    assert "2 replicas, independent engines" in two["parallel.gpus"].how
    assert {key: line.value for key, line in two.items() if key in one and not key.startswith("floor.e2e")} == {
        key: line.value for key, line in one.items() if not key.startswith("floor.e2e")
    }
    assert [two[f"floor.e2e.{point}"].value for point in range(4)] == [
        one[f"floor.e2e.{point}"].value for point in range(4)
    ]  # twice the load, at two
    verdicts = {v.name for v in verdicts_of(of)}
    assert not verdicts & {"data parallel", "max_num_seqs"}
    (short,) = (v for v in verdicts_of(basis(X2, ("engine.flags.max_num_seqs", "48"))) if v.name == "max_num_seqs")
    assert "up to 60 at each replica" in short.why
    (instead,) = (v for v in verdicts_of(basis(DP2)) if v.name == "data parallel")
    assert "engine.replicas = 2" in instead.change


def test_what_cannot_start_is_said() -> None:
    eight = basis(DP2, ("engine.flags.data_parallel_size", "8"), ("hardware.count", "8"))
    assert next(v for v in verdicts_of(eight) if v.name == "GPUs").verdict == "cannot"
    toy = basis("cpu", ("engine.flags.data_parallel_size", "2"))
    assert next(v for v in verdicts_of(toy) if v.name == "data parallel").verdict == "cannot"
