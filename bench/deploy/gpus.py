"""What a scheduler calls a card."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from bench.errors import UsageError

if TYPE_CHECKING:
    from recipes.schema import Hardware

PRODUCT_LABEL: Final = "nvidia.com/gpu.product"
"""Label of a node, which NVIDIA's GPU feature discovery sets: the driver's name for the card, with dashes for spaces.
Of cards that are split (MIG) or shared in time the value is another one, so that such nodes are left out."""

_LABEL_VALUE: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
_SKYPILOT_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")


def product_label(hardware: Hardware, given: str | None) -> str:
    """Value of `PRODUCT_LABEL` for a recipe's card: "NVIDIA-H200".

    Args:
        hardware: of a recipe for GPUs.
        given: on the command line, where a cluster's cards are called otherwise.

    Raises:
        UsageError: no label can have this value.
    """
    name = hardware.gpu or ""
    value = given or "-".join((name if name.startswith("NVIDIA") else f"NVIDIA {name}").split())
    if _LABEL_VALUE.fullmatch(value) is None:
        raise UsageError(
            f"{value!a} can be no node's label {PRODUCT_LABEL}.",
            remedy=f"Say what your nodes have: kubectl get nodes -L {PRODUCT_LABEL}, then --gpu-label VALUE.",
        )
    return value


def skypilot_accelerators(hardware: Hardware) -> str:
    """As SkyPilot names cards, with their number: "H200:1".

    Raises:
        UsageError: SkyPilot has no name of this form.
    """
    name = hardware.gpu or ""
    if _SKYPILOT_NAME.fullmatch(name) is None:
        raise UsageError(
            f"SkyPilot knows no card called {name!a}.", remedy="`sky show-gpus -a` lists the names that it knows."
        )
    return f"{name}:{hardware.count}"
