"""`data/cpu-toy-loading.log`: real vLLM 0.26.0 (CPU) loading the toy with its MTP head, the loaders speaking."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import pytest

from bench.engine.log_lines import parse_line
from quantize.audit.folder import Checkpoint, open_checkpoint
from quantize.audit.header import Tensor
from quantize.checkpoint import TOY
from quantize.quality.load_log import LOADERS, LoadLog, logging_config, read_load_log, read_log_file
from quantize.quality.loaded import compare

LOG = Path(__file__).with_name("data") / "cpu-toy-loading.log"
KV_SCALES = LOG.with_name("h200-nvfp4-kv-scales.log")
H200 = Path(__file__).parents[3] / "evidence" / "h200" / "h200-fp8-dummy-20261130" / "engine-0.log"


def log_without(*parts: str) -> LoadLog:
    lines = LOG.read_bytes().splitlines()
    kept = [line for line in lines if not any(part.encode() in line for part in parts)]
    assert len(kept) == len(lines) - len(parts)
    return read_load_log(parse_line(number, line) for number, line in enumerate(kept, 1))


def log_of(*messages: str) -> LoadLog:
    return read_load_log(
        parse_line(number, f"(EngineCore pid=1) INFO 11-30 04:00:00 [x.py:1] {message}".encode())
        for number, message in enumerate(messages, 1)
    )


def holding(names: Iterable[str]) -> Checkpoint:
    """A checkpoint of a family that the audit does not know."""
    return Checkpoint(Path(), tensors={name: Tensor(name, "F32", (), "", 0, 4) for name in names})


def test_a_whole_load() -> None:
    log = read_log_file(LOG)
    assert (log.tracked, log.drafting, log.names_tensors) == (True, True, True)
    assert (log.told_quantization, log.quantization) == (True, None)
    assert log.load_s == pytest.approx(0.05)
    experts, decoder, drafter = compare(open_checkpoint(TOY), log)
    assert (experts.expected, experts.loaded, experts.missing) == (4 * 8 * 3, 4 * 8 * 3, ())
    assert (decoder.loaded, decoder.missing) == (decoder.expected, ())
    assert drafter is not None
    assert (drafter.loaded, drafter.missing) == (drafter.expected, ())
    # Every tensor is accounted for: fused experts are 8 tensors for 96 parts.
    assert decoder.expected + decoder.unseen + 8 + drafter.expected + drafter.unseen == len(
        open_checkpoint(TOY).tensors
    )


def test_what_the_weights_tracker_does_not_see_is_seen() -> None:
    log = log_without(
        "Loaded weight fc.weight",
        "Loaded expert 3 of shard w3 into w13_weight for layer mtp.layers.0",
        "Loaded expert 5 of shard w2 into w2_weight for layer language_model.model.layers.2",
        "Loaded weight layers.1.linear_attn.out_proj.weight",
    )
    experts, decoder, drafter = compare(open_checkpoint(TOY), log)
    assert experts.missing == ("model.language_model.layers.2.mlp.experts.down_proj (expert 5, w2)",)
    assert decoder.missing == ("model.language_model.layers.1.linear_attn.out_proj.weight",)
    assert drafter is not None
    assert drafter.missing == ("mtp.fc.weight", "mtp.layers.0.mlp.experts.3.up_proj.weight (expert 3, w3)")


def test_without_a_drafter_the_head_is_not_expected() -> None:
    log = log_without("Loading drafter model")
    assert compare(open_checkpoint(TOY), log)[2] is None


def test_the_four_tensors_of_a_quantized_expert_are_told_apart() -> None:
    """The parameters' names are those of `ModelOptNvFp4FusedMoE.create_weights` in vLLM 0.26.0."""
    linear = "model.language_model.layers.7.mlp.experts.200"
    checkpoint = holding(
        f"{linear}.{projection}_proj.{part}"
        for projection in ("gate", "up", "down")
        for part in ("weight", "weight_scale", "weight_scale_2", "input_scale")
    )
    said = [
        f"Loaded expert 200 of shard {shard} into {group}_{part} for layer language_model.model.layers.7.mlp.experts"
        for shard, group in (("w1", "w13"), ("w3", "w13"), ("w2", "w2"))
        for part in ("weight", "weight_scale", "weight_scale_2", "input_scale")
    ]
    assert compare(checkpoint, log_of(*said))[0].loaded == 12
    assert compare(checkpoint, log_of(*said[:-1]))[0].missing == (f"{linear}.down_proj.input_scale (expert 200, w2)",)


def test_what_the_checkpoint_lost_is_missed_too() -> None:
    lost = (
        "mtp.fc.weight",
        "mtp.layers.0.mlp.experts.3.up_proj.weight",
        "model.language_model.layers.2.mlp.experts.down_proj",
    )
    checkpoint = open_checkpoint(TOY)
    for name in lost:
        del checkpoint.tensors[name]
    log = log_without(
        "Loaded weight fc.weight",
        "Loaded expert 3 of shard w3 into w13_weight for layer mtp.layers.0",
        *(
            f"Loaded expert {number} of shard w2 into w2_weight for layer language_model.model.layers.2"
            for number in range(8)
        ),
    )
    experts, decoder, drafter = compare(checkpoint, log)
    assert (experts.expected, experts.loaded, decoder.missing) == (96, 88, ())
    assert drafter is not None
    assert drafter.missing == ("mtp.fc.weight", "mtp.layers.0.mlp.experts.3.up_proj.weight (expert 3, w3)")


def test_where_one_expert_has_a_scale_every_one_must() -> None:
    linear = "model.language_model.layers.0.mlp.experts.5.up_proj"
    checkpoint = open_checkpoint(TOY)
    checkpoint.tensors[f"{linear}.weight_scale"] = Tensor(f"{linear}.weight_scale", "F8_E4M3", (1, 1), "", 0, 1)
    experts = compare(checkpoint, read_log_file(LOG))[0]
    assert (experts.expected, experts.loaded) == (192, 96)


def test_scales_of_the_kv_cache_and_the_vision_tower_are_not_expected() -> None:
    names = ("model.language_model.layers.3.self_attn.k_proj.k_scale", "model.visual.blocks.0.norm1.weight")
    decoder = compare(holding(names), LoadLog())[1]
    assert (decoder.expected, decoder.unseen) == (0, 2)


def test_nvfp4_lines() -> None:
    """As `oracle/nvfp4.py`, `marlin_utils_fp4.py` and `kernels/linear/__init__.py` of vLLM 0.26.0 write them."""
    log = log_of(
        "Initializing a V1 LLM engine (v0.26.0) with config: model='x', quantization=modelopt_fp4, seed=0",
        "Using 'MARLIN' NvFp4 MoE backend out of potential backends: ['FLASHINFER_TRTLLM', 'MARLIN'].",
        "Your GPU does not have native support for FP4 computation but FP4 quantization is being used. Weight-only FP4 "
        "compression will be used leveraging the Marlin kernel. This may degrade performance.",
        "Loading drafter model...",
        "Using TRITON Unquantized MoE backend out of potential backends: ['TRITON'].",
        "Using MarlinNvFp4LinearKernel for NVFP4 GEMM",
        "Model loading took 24.5 GiB memory and 12.763148 seconds",
    )
    assert (log.quantization, log.moe_backend, log.weight_only) == ("modelopt_fp4", "MARLIN", True)
    assert log.moe_line is not None
    assert "NvFp4" in log.moe_line
    assert (log.linear_kernel, log.loaded_gib) == ("MarlinNvFp4LinearKernel", 24.5)


def test_a_calibrated_target_and_its_drafter_without_scales() -> None:
    """`data/h200-nvfp4-kv-scales.log`: lines of a real start on one H200 with a checkpoint of 20 KV scales."""
    log = read_log_file(KV_SCALES)
    assert (log.kv_scales, log.kv_scales_drafter) == ("checkpoint", "1.0")


FP8_CACHE = "Checkpoint does not provide a q scaling factor. Setting it to k_scale. This only matters for FP8."
NO_SCALES = "Using KV cache scaling factor 1.0 for fp8_e4m3. If this is unintended, verify the checkpoint."
DRAFTER = "Loading drafter model..."


@pytest.mark.parametrize(
    ("messages", "target", "drafter"),
    [
        ((), None, None),
        ((DRAFTER,), None, None),  # the cache is not FP8
        ((FP8_CACHE,), "checkpoint", None),
        ((FP8_CACHE, NO_SCALES), "1.0", None),
        ((FP8_CACHE, DRAFTER), "checkpoint", "checkpoint"),
        ((FP8_CACHE, DRAFTER, NO_SCALES), "checkpoint", "1.0"),
        ((FP8_CACHE, NO_SCALES, DRAFTER), "1.0", None),  # said once: the drafter cannot say it again
        ((DRAFTER, FP8_CACHE, NO_SCALES), None, "1.0"),
    ],
)
def test_whose_kv_scales_a_line_is_about(messages: tuple[str, ...], target: str | None, drafter: str | None) -> None:
    log = log_of(*messages)
    assert (log.kv_scales, log.kv_scales_drafter) == (target, drafter)


def test_a_real_start_on_an_h200() -> None:
    log = read_log_file(H200)
    assert (log.quantization, log.moe_backend) == ("fp8", "TRITON")
    assert (log.loaded_gib, log.drafting) == (34.1, True)
    # Dummy weights: the target itself has no scales, and what the drafter has is not said again.
    assert (log.kv_scales, log.kv_scales_drafter) == ("1.0", None)
    assert (log.names_tensors, log.tracked, log.weight_only) == (False, False, False)


def test_the_logging_configuration_lets_the_loaders_speak() -> None:
    loggers = json.loads(logging_config())["loggers"]
    assert {name for name, settings in loggers.items() if settings["level"] == "DEBUG"} == set(LOADERS)
    assert loggers["vllm"]["level"] == "INFO"
