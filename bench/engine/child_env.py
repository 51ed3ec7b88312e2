"""Which environment variables an engine gets: a short list of the user's, and what environment and recipe set.

Everything else is held back, so that a forgotten `VLLM_...` or `PYTHONPATH` in somebody's shell cannot change a number
that the recipe is supposed to decide.
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


def child_environment(*layers: Mapping[str, str], parent: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The whole environment of an engine's process.

    Args:
        layers: what the engine's environment and the recipe set; later ones win.
        parent: the variables to pass from.
    """
    passed = {name: value for name, value in parent.items() if name in _PASSED or name.startswith("LC_")}
    merged = {"PYTHONUNBUFFERED": "1", **passed}  # its log must not lag behind what it does
    for layer in layers:
        merged.update(layer)
    return merged
