"""Which environment variables an engine gets: a short list of the user's, and what environment and recipe set.

Everything else is held back, so that a forgotten `VLLM_...` or `PYTHONPATH` in somebody's shell cannot change a number
that the recipe is supposed to decide. How the GPUs of a host may speak to each other is no choice of the recipe's: a
host where NVLink multicast must stay off says so in these variables, and an engine of several GPUs that did not hear it
could put the cards out of service for everybody. They are in the report's `environment.json`.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

_PASSED: Final = frozenset(
    {
        # Where things are on this host.
        *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "TMPDIR", "XDG_CACHE_HOME", "LD_LIBRARY_PATH", "TZ", "LANG"),
        *("CUDA_HOME", "CUDA_PATH", "CUDA_CACHE_PATH", "TRITON_CACHE_DIR"),
        # Which devices the user lets us have.
        *("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "NVIDIA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES"),
        # How to reach, and be let in by, a hub that the recipe's checkpoint comes from.
        *("HF_HOME", "HF_HUB_CACHE", "HF_ENDPOINT", "HF_TOKEN"),
        *("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy"),
        *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE"),
    }
)

_FABRIC_PREFIXES: Final = ("NCCL_", "NVSHMEM_", "GLOO_", "TORCH_NCCL_", "TORCH_SYMM_MEM_")
"""How processes and GPUs of this host reach each other: NCCL, NVSHMEM, gloo, and PyTorch's use of them."""


def fabric_variables(parent: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The variables that say what the GPUs of this host may use between them (`NCCL_NVLS_ENABLE`, ...), as set here.

    Args:
        parent: the variables to choose from.
    """
    return {name: value for name, value in parent.items() if name.startswith(_FABRIC_PREFIXES)}


def child_environment(*layers: Mapping[str, str], parent: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The whole environment of an engine's process.

    Args:
        layers: what the engine's environment and the recipe set; later ones win.
        parent: the variables to pass from.
    """
    passed = {name: value for name, value in parent.items() if name in _PASSED or name.startswith("LC_")}
    merged = {"PYTHONUNBUFFERED": "1", **passed, **fabric_variables(parent)}  # its log must not lag behind what it does
    for layer in layers:
        merged.update(layer)
    return merged
