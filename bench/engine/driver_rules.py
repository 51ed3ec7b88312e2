"""Will this driver run that CUDA? Asked before minutes are spent on an engine that cannot open the GPU.

A CUDA release needs a driver branch at least as new, or NVIDIA's forward compatibility: user-mode driver libraries of
the newer release (`cuda-compat`) in front of the host's own. Those libraries help an older driver on a data-centre
card, and break everything else: a driver of the same release or newer with error 803, any other card with error 804.

Sources: "CUDA Compatibility" (docs.nvidia.com/deploy/cuda-compatibility) and the CUDA release notes' table of minimum
drivers. Which older branches the libraries bridge is read from the image: its `NVIDIA_REQUIRE_CUDA` lists them. Cases:
vllm-project/vllm#33992, #32373, #34821 (803 on a B200 under driver 580), #4940, #5283 (804), and
NVIDIA/nvidia-container-toolkit#152 (a container that is refused). vLLM 0.26.0 puts the libraries in front only where
`VLLM_ENABLE_CUDA_COMPATIBILITY` is set (vllm/env_override.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from bench.errors import StreamproofError

MINIMUM_DRIVER: Final = {11: 450, 12: 525, 13: 580}
"""Major CUDA release to the oldest driver branch that runs it by itself, all minor releases alike."""

ENGINE_CUDA: Final = {"0.26.0": "13.0"}
"""Release of vLLM to the CUDA release that it is built for: what is known of an image before it is here."""

_BRIDGED: Final = re.compile(r"\bbrand=tesla,driver>=(\d+)\b")
_NO_DATA_CENTRE_CARD: Final = re.compile(r"\b(?:GeForce|TITAN|Quadro|RTX)\b", re.IGNORECASE)

_COMPATIBILITY: Final = "VLLM_ENABLE_CUDA_COMPATIBILITY"


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """What decides.

    Attributes:
        driver: version of the host's driver, "580.159.03".
        cuda: release that the engine was built for, "13.0".
        cards: product names of the GPUs.
        compatibility: the compatibility libraries are put in front of the host's own.
        bridged: older driver branches that those libraries are made for; None where the image does not say, or is not
            here yet.
    """

    driver: str
    cuda: str
    cards: tuple[str, ...]
    compatibility: bool
    bridged: frozenset[int] | None = None

    @property
    def branch(self) -> int:
        """Of the driver: 580."""
        return int(self.driver.split(".")[0])

    @property
    def major(self) -> int:
        """Of CUDA: 13."""
        return int(self.cuda.split(".")[0])

    @property
    def needs(self) -> int | None:
        """The oldest branch that runs this CUDA by itself; None for a release that the table does not know."""
        return MINIMUM_DRIVER.get(self.major)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One way to fail: the situation that leads to it, the line by which its log tells it, and what to do.

    Attributes:
        name: short, for tests and logs.
        compatibility: with or without the compatibility libraries; None does not matter.
        old_driver: the driver is older than the release needs; None does not matter.
        data_centre: all cards are of the data-centre kind; None does not matter.
        bridged: the libraries exist for this older branch; None does not matter.
        message: what is wrong; may name {driver}, {branch}, {cuda}, {needs} and {cards}.
        remedy: what to do.
        line: what CUDA, PyTorch or the container toolkit says where nobody looked before.
    """

    name: str
    compatibility: bool | None = None
    old_driver: bool | None = None
    data_centre: bool | None = None
    bridged: bool | None = None
    message: str
    remedy: str
    line: re.Pattern[str]


_NEWER: Final = "branch {needs} or newer"
_UPDATE: Final = f"Update the host's driver to {_NEWER}"
_LEAVE_OUT: Final = (
    f"Leave the compatibility libraries out: --set 'engine.env.{_COMPATIBILITY}=\"0\"', and take "
    "/usr/local/cuda/compat out of LD_LIBRARY_PATH and of the image's /etc/ld.so.conf.d"
)

RULES: Final = (
    Rule(
        name="803",
        compatibility=True,
        old_driver=False,
        message="CUDA would refuse (error 803: system has unsupported display driver / cuda driver combination): the "
        "host's driver {driver} runs CUDA {cuda} by itself, and the compatibility libraries hide it behind older ones",
        remedy=f"{_LEAVE_OUT}.",
        line=re.compile(r"Error 803\b|unsupported display driver / cuda driver combination"),
    ),
    Rule(
        name="804",
        compatibility=True,
        old_driver=True,
        data_centre=False,
        message="CUDA would refuse (error 804: forward compatibility was attempted on non supported HW): {cards} is no "
        "data-centre card, and its driver {driver} is too old for CUDA {cuda}",
        remedy=f"{_UPDATE}; forward compatibility exists for data-centre cards only. Then: {_LEAVE_OUT}.",
        line=re.compile(r"Error 804\b|forward compatibility was attempted on non supported HW"),
    ),
    Rule(
        name="branch without compatibility",
        compatibility=True,
        old_driver=True,
        data_centre=True,
        bridged=False,
        message="the host's driver {driver} is too old for CUDA {cuda}, and no compatibility libraries exist for "
        "branch {branch}",
        remedy=f"{_UPDATE}.",
        line=re.compile(r"CUDA driver version is insufficient for CUDA runtime version"),
    ),
    Rule(
        name="driver too old, may be bridged",
        compatibility=False,
        old_driver=True,
        data_centre=True,
        bridged=True,
        message="the host's driver {driver} is too old for CUDA {cuda}, which needs branch {needs}",
        remedy=f"{_UPDATE}. If you cannot: NVIDIA's compatibility libraries bridge some older branches on this card: "
        f"--set 'engine.env.{_COMPATIBILITY}=\"1\"' (the report then names it).",
        line=re.compile(r"The NVIDIA driver on your system is too old"),
    ),
    Rule(
        name="driver too old",
        compatibility=False,
        old_driver=True,
        message="the host's driver {driver} is too old for CUDA {cuda}, which needs branch {needs}",
        remedy=f"{_UPDATE}.",
        line=re.compile(r"nvidia-container-cli: requirement error: unsatisfied condition: cuda"),
    ),
)
"""The first one that fits a situation counts."""


def check_driver(situation: Situation) -> None:
    """Return if the driver will run the engine's CUDA, or if no rule is known for it.

    Raises:
        StreamproofError: it will not; says which of the ways to fail this is, and what to do.
    """
    for rule in RULES:
        if _fits(rule, situation):
            raise StreamproofError(_fill(rule.message, situation), remedy=_fill(rule.remedy, situation))


def situation_of(variables: Mapping[str, str], *, driver: str, cards: Iterable[str]) -> Situation | None:
    """What an engine in an image will find.

    Args:
        variables: environment variables of the engine, those of the image included.
        driver: version of the host's driver.
        cards: product names of the GPUs.

    Returns:
        The situation; None for an image that does not say which CUDA is in it.
    """
    cuda = variables.get("CUDA_VERSION")
    if not cuda:
        return None
    requirement = variables.get("NVIDIA_REQUIRE_CUDA")
    asked = variables.get(_COMPATIBILITY, "0").strip().lower() in {"1", "true"}
    return Situation(
        driver=driver,
        cuda=cuda,
        cards=tuple(cards),
        compatibility=asked or "/compat" in variables.get("LD_LIBRARY_PATH", ""),
        bridged=None if requirement is None else frozenset(map(int, _BRIDGED.findall(requirement))),
    )


def advice_for(words: str) -> str:
    """What to do when CUDA or the container toolkit refuses with these words; "" where they tell of something else."""
    for rule in RULES:
        if rule.line.search(words):
            return rule.remedy.replace(_NEWER, "a branch that the image's CUDA runs on (580 or newer for CUDA 13)")
    return ""


def _fits(rule: Rule, situation: Situation) -> bool:
    if situation.needs is None:
        return False
    here = {
        "compatibility": situation.compatibility,
        "old_driver": situation.branch < situation.needs,
        "data_centre": not any(map(_NO_DATA_CENTRE_CARD.search, situation.cards)),
        "bridged": None if situation.bridged is None else situation.branch in situation.bridged,
    }
    # What is not known does not speak against a rule.
    return all(value is None or getattr(rule, name) in {None, value} for name, value in here.items())


def _fill(text: str, situation: Situation) -> str:
    return text.format(
        driver=situation.driver,
        branch=situation.branch,
        cuda=situation.cuda,
        needs=situation.needs,
        cards=", ".join(sorted(set(situation.cards))),
    )
