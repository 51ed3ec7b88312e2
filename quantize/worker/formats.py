"""From a target's words to ModelOpt's configuration of quantizers."""

from __future__ import annotations

import copy
from typing import Any, Final

import modelopt.torch.quantization as mtq

PRESETS: Final = {
    "nvfp4": mtq.NVFP4_DEFAULT_CFG,
    "nvfp4_mlp_only": mtq.NVFP4_MLP_ONLY_CFG,
    "nvfp4_experts_only": mtq.NVFP4_EXPERTS_ONLY_CFG,
}
"""ModelOpt's own, by a target's `preset`."""

MIXED: Final = "nvfp4_experts_fp8_rest"
"""FP8 for every linear that ModelOpt's FP8 preset covers, and NVFP4 for the routed experts."""

_KV_QUANTIZERS: Final = "*[kv]_bmm_quantizer"


def quantizers(preset: str, kv_cache: str) -> dict[str, Any]:
    """ModelOpt's configuration: max calibration, these linears, this KV cache.

    Args:
        preset: a key of `PRESETS`, or `MIXED`.
        kv_cache: "fp8" measures the scales; "fp8_cast" fixes them at 1, so that none is written; "none".
    """
    chosen = _mixed() if preset == MIXED else copy.deepcopy(PRESETS[preset])
    if kv_cache != "none":
        entries = copy.deepcopy(mtq.FP8_KV_CFG["quant_cfg"])
        for entry in entries:
            if kv_cache == "fp8_cast" and entry["quantizer_name"] == _KV_QUANTIZERS:
                entry["cfg"]["use_constant_amax"] = True
        chosen["quant_cfg"] = [*chosen["quant_cfg"], *(e for e in entries if e["quantizer_name"] != "*")]
    return chosen


def _mixed() -> dict[str, Any]:
    chosen: dict[str, Any] = copy.deepcopy(mtq.FP8_DEFAULT_CFG)
    experts = copy.deepcopy(mtq.NVFP4_EXPERTS_ONLY_CFG["quant_cfg"])
    # Later entries win: of the second preset only what it switches on.
    chosen["quant_cfg"] = [*chosen["quant_cfg"], *(entry for entry in experts if "cfg" in entry)]
    return chosen
