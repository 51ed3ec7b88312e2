"""What published checkpoints declare, in miniature, and what the audit calls them.

The shapes of these files are those of public ones: keys, nesting and spelling; names and lists are cut down.
"""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from quantize.audit.model import Audit, GateName, Verdict
from quantize.audit.run import audit_checkpoint
from quantize.audit.show import shown
from tests.quantize.audit.synthetic import Folder, write_safetensors

FOUR = {"dynamic": False, "num_bits": 4, "type": "float", "group_size": 16}
EIGHT = {"dynamic": False, "num_bits": 8, "type": "float"}


def legacy(algo: object, **more: object) -> dict[str, Any]:
    """hf_quant_config.json."""
    return {"producer": {"name": "modelopt", "version": "0.41.0"}, "quantization": {"quant_algo": algo, **more}}


def modelopt(algo: object, **more: object) -> dict[str, Any]:
    """`quantization_config` of config.json."""
    return {
        "quant_method": "modelopt",
        "quant_algo": algo,
        "producer": {"name": "modelopt", "version": "0.41.0"},
        **more,
    }


PER_LAYER = {
    "model.language_model.layers.0.mlp.experts": {"quant_algo": "W4A16_NVFP4", "group_size": 16},
    "model.language_model.layers.3.self_attn.q_proj": {"quant_algo": "FP8"},
    "lm_head": {"quant_algo": "W4A16_NVFP4", "group_size": 16},
}
MIXED_GROUPS = {
    "group_0": {"weights": FOUR, "targets": ["model.language_model.layers.0.mlp.experts"]},
    "group_1": {"weights": EIGHT, "targets": ["model.language_model.layers.3.self_attn.q_proj"]},
}

PUBLISHED: list[Any] = [
    pytest.param(
        modelopt("NVFP4", config_groups={"group_0": {"weights": FOUR}}, ignore=["lm_head", "mtp.layers.0*"]),
        legacy("NVFP4", kv_cache_quant_algo="FP8", group_size=16, exclude_modules=["lm_head", "mtp.layers.0*"]),
        "nvfp4",
        "an NVFP4 checkpoint of ModelOpt",
        id="single-format NVFP4",
    ),
    pytest.param(
        None,
        legacy("NVFP4", kv_cache_quant_algo=None, group_size=16, exclude_modules=["lm_head"]),
        "nvfp4",
        "an NVFP4 checkpoint of ModelOpt",
        id="an older one, hf_quant_config.json alone",
    ),
    pytest.param(
        {"quant_method": "modelopt", **legacy("NVFP4", group_size=16, exclude_modules=[])},
        None,
        "nvfp4",
        "an NVFP4 checkpoint of ModelOpt",
        id="hf_quant_config.json inside config.json",
    ),
    pytest.param(
        modelopt("MIXED_PRECISION", config_groups=MIXED_GROUPS, quantized_layers=PER_LAYER, ignore=["mtp*"]),
        legacy("MIXED_PRECISION", kv_cache_quant_algo="FP8", exclude_modules=["mtp*"], quantized_layers=PER_LAYER),
        "mixed",
        "it mixes formats (FP8, W4A16_NVFP4); vLLM takes it as modelopt_mixed and refuses it as modelopt_fp4",
        id="mixed precision, layer by layer",
    ),
    pytest.param(
        modelopt("NVFP4", quantized_layers={"mtp.layers.0.mlp.experts": {"quant_algo": "FP8_PB_WO"}}),
        None,
        "mixed",
        "it mixes formats (FP8_PB_WO)",
        id="NVFP4 with an FP8 head",
    ),
    pytest.param(modelopt("W4A16_NVFP4", ignore=[]), None, "nvfp4-weight-only", "weight-only NVFP4", id="weight-only"),
    pytest.param(
        modelopt("FP8", ignore=["lm_head"], kv_cache_scheme=EIGHT),
        legacy("FP8", kv_cache_quant_algo="FP8", exclude_modules=["lm_head"]),
        "fp8",
        "it is FP8 of ModelOpt (FP8)",
        id="FP8",
    ),
    pytest.param(modelopt("fp8_pb_wo"), None, "fp8", "it is FP8 of ModelOpt (FP8_PB_WO)", id="FP8 in lower case"),
    pytest.param(
        None,
        legacy("W4A8_AWQ", group_size=128, has_zero_point=False, pre_quant_scale=True),
        "awq",
        "AWQ of ModelOpt",
        id="AWQ",
    ),
    pytest.param(None, legacy("NVFP4_AWQ", group_size=16), "awq", "a pre_quant_scale", id="NVFP4 with AWQ"),
    pytest.param(modelopt("NVFP4_SVD"), None, "modelopt-other", "it is NVFP4_SVD", id="NVFP4 with SVD"),
    pytest.param(modelopt(None), None, "modelopt-other", "it is without a quant_algo", id="no algorithm"),
    pytest.param(
        {"quant_method": "compressed-tensors", "format": "nvfp4-pack-quantized", "ignore": ["re:.*mtp.*"]},
        None,
        "compressed-tensors",
        "compressed-tensors (nvfp4-pack-quantized): the same numbers under other names",
        id="compressed-tensors NVFP4",
    ),
    pytest.param(
        {"quant_method": "compressed-tensors", "format": "int-quantized"},
        None,
        "compressed-tensors",
        "it is compressed-tensors (int-quantized)",
        id="compressed-tensors INT8",
    ),
    pytest.param(
        {"quant_method": "fp8", "weight_block_size": [128, 128], "activation_scheme": "dynamic"},
        None,
        "fp8",
        "it is fp8",
        id="block FP8",
    ),
    pytest.param({"quant_method": "awq", "bits": 4, "group_size": 128}, None, "awq", "it is awq", id="AutoAWQ"),
    pytest.param({"quant_method": "gptq", "bits": 4}, None, "gptq", "it is gptq", id="GPTQ"),
    pytest.param({"quant_method": "mxfp4"}, None, "mxfp4", "it is mxfp4", id="MXFP4"),
    pytest.param({"quant_method": "bitsandbytes"}, None, "other", "it is bitsandbytes", id="bitsandbytes"),
    pytest.param({"mode": "nvfp4", "bits": 4}, None, "other", "a quantization without a quant_method", id="no method"),
    pytest.param(None, None, "unquantized", "neither config.json nor hf_quant_config.json declares one", id="BF16"),
]  # fmt: skip


def published(path: Path, config: dict[str, Any] | None, legacy_config: dict[str, Any] | None) -> Audit:
    path.mkdir()
    content = {"model_type": "qwen3_5_moe"} | ({"quantization_config": config} if config else {})
    (path / "config.json").write_text(json.dumps(content))
    if legacy_config is not None:
        (path / "hf_quant_config.json").write_text(json.dumps(legacy_config))
    write_safetensors(path / "model.safetensors", {"x.weight": ("F32", np.zeros((2, 2), np.float32))})
    return audit_checkpoint(path, processes=1)


@pytest.mark.parametrize(("config", "legacy_config", "kind", "says"), PUBLISHED)
def test_a_published_declaration_has_a_clear_verdict(
    config: dict[str, Any] | None, legacy_config: dict[str, Any] | None, kind: str, says: str, *, tmp_path: Path
) -> None:
    audit = published(tmp_path / "checkpoint", config, legacy_config)
    assert audit.format.kind == kind
    assert says in audit.format.says
    assert not audit.passed
    if kind != "nvfp4":
        assert audit.format.says.startswith("not an NVFP4 checkpoint of ModelOpt")
        assert {gate.verdict for gate in audit.gates[1:]} == {Verdict.NOT_CHECKED}
        assert audit.gate(GateName.SCALES).says == audit.format.says
        assert audit.exit_code == 3


def test_what_vllm_takes_it_as(tmp_path: Path) -> None:
    engines = {}
    for algo in ("NVFP4", "MIXED_PRECISION", "W4A16_NVFP4", "FP8"):
        engines[algo] = published(tmp_path / algo, modelopt(algo), None).format.engine
    assert engines == {
        "NVFP4": "modelopt_fp4", "MIXED_PRECISION": "modelopt_mixed", "W4A16_NVFP4": "modelopt_fp4", "FP8": "",
    }  # fmt: skip


def test_pickles_are_refused(tmp_path: Path) -> None:
    folder = tmp_path / "checkpoint"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    (folder / "pytorch_model-00001-of-00002.bin").write_bytes(b"\x80\x04.")
    audit = audit_checkpoint(folder)
    assert audit.format.kind == "pickle"
    assert "run code when loaded" in audit.format.says
    assert audit.gate(GateName.FILES).verdict is Verdict.FAILED


@pytest.mark.parametrize("missing", ["group_size", "kv_cache_quant_algo", "exclude_modules"])
def test_a_key_that_vllm_needs(missing: str, sound: Folder, source: Path, tmp_path: Path) -> None:
    folder = sound.copy()
    assert folder.hf_quant_config is not None
    del folder.hf_quant_config["quantization"][missing]
    audit = audit_checkpoint(folder.write(tmp_path / "checkpoint"), source=source, processes=1)
    reasons = [offender.reason for offender in audit.gate(GateName.IGNORED).offenders]
    assert f"lacks {missing}, without which vLLM refuses it" in reasons


@pytest.mark.parametrize("ignored", [None, "lm_head", ["lm_head", 3], {"lm_head": 1}])
def test_an_ignore_list_that_is_none(ignored: object, sound: Folder, source: Path, tmp_path: Path) -> None:
    folder = sound.copy()
    folder.config["quantization_config"]["ignore"] = ignored
    audit = audit_checkpoint(folder.write(tmp_path / "checkpoint"), source=source, processes=1)
    assert [offender.reason for offender in audit.gate(GateName.IGNORED).offenders] == ["has no ignore list"]


@pytest.mark.parametrize(
    "nonsense", [[], 3, "NVFP4", {"quant_method": 4}, {"quant_method": "modelopt", "quant_algo": []}]
)
def test_nonsense_is_no_traceback(nonsense: object, tmp_path: Path) -> None:
    folder = tmp_path / "checkpoint"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"quantization_config": nonsense, "text_config": nonsense}))
    (folder / "hf_quant_config.json").write_text(json.dumps({"quantization": nonsense, "producer": nonsense}))
    write_safetensors(folder / "model.safetensors", {"x": ("F32", np.zeros(2, np.float32))})
    assert not audit_checkpoint(folder).passed


def test_a_hostile_declaration_cannot_write_to_the_terminal(sound: Folder, source: Path, tmp_path: Path) -> None:
    folder = sound.copy()
    assert folder.hf_quant_config is not None
    folder.hf_quant_config["quantization"] |= {"quant_algo": "a\x1b[2J", "kv_cache_quant_algo": "b\x1b[2J"}
    folder.hf_quant_config["quantization"]["exclude_modules"].append("c\x1b[2J*")
    folder.config["quantization_config"]["kv_cache_scheme"] = "d\x1b[2J"
    folder.config["dtype"] = "e\x1b[2J"
    audit = audit_checkpoint(folder.write(tmp_path / "checkpoint"), source=source, processes=1)
    console = Console(width=200, record=True, file=StringIO())
    console.print(shown(audit))
    assert "\x1b" not in console.export_text()


def test_another_family_is_checked_as_far_as_it_goes(sound: Folder, source: Path, tmp_path: Path) -> None:
    """Never green: without the family's inventory nothing can say that nothing is missing."""
    folder = sound.copy()
    del folder.config["model_type"]
    audit = audit_checkpoint(folder.write(tmp_path / "checkpoint"), processes=1)
    verdicts = {gate.name: gate.verdict for gate in audit.gates}
    assert verdicts[GateName.FILES] is Verdict.PASSED
    assert verdicts[GateName.SCALES] is Verdict.PASSED
    for name in (GateName.INVENTORY, GateName.SIZES, GateName.IGNORED, GateName.KV_CACHE):
        assert verdicts[name] is Verdict.NOT_CHECKED
    assert not audit.passed
    assert audit.failed == ()
    assert audit.family is None
    with_source = audit_checkpoint(tmp_path / "checkpoint", source=source, processes=1)
    assert with_source.gate(GateName.INVENTORY).verdict is Verdict.PASSED
    assert with_source.gate(GateName.DEQUANTIZED).verdict is Verdict.PASSED
    assert with_source.gate(GateName.UNQUANTIZED).verdict is Verdict.PASSED


def test_another_family_still_fails_on_what_is_wrong_in_any(sound: Folder, tmp_path: Path) -> None:
    folder = sound.copy()
    folder.config["model_type"] = "somebody_elses"
    name = next(name for name in folder.tensors if name.endswith("weight_scale"))
    folder.tensors[name][1][0, 0] = 0
    assert audit_checkpoint(folder.write(tmp_path / "checkpoint"), processes=1).failed[0].name is GateName.SCALES
