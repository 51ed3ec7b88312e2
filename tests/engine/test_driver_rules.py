from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.engine.driver_rules import MINIMUM_DRIVER, RULES, Situation, advice_for, check_driver, situation_of
from bench.errors import StreamproofError

# What nvidia/cuda:12.4.1 sets, shortened; newer images list their branches the same way.
REQUIRE = "cuda>=13.0 brand=tesla,driver>=535,driver<536 brand=unknown,driver>=535,driver<536 brand=tesla,driver>=570"
IMAGE = {"CUDA_VERSION": "13.0.2", "NVIDIA_REQUIRE_CUDA": REQUIRE}
H200, GEFORCE = "NVIDIA H200", "NVIDIA GeForce RTX 4090"


def refusal(driver: str, card: str = H200, **variables: str) -> StreamproofError | None:
    situation = situation_of({**IMAGE, **variables}, driver=driver, cards=[card])
    assert situation is not None
    try:
        check_driver(situation)
    except StreamproofError as error:
        return error
    return None


ON = {"VLLM_ENABLE_CUDA_COMPATIBILITY": "1"}


@pytest.mark.parametrize(
    ("driver", "card", "variables"),
    [
        ("580.159.03", H200, {}),  # measured: this driver, card and release serve
        ("615.10", H200, {}),
        ("580.65.06", GEFORCE, {}),
        ("570.86.15", H200, ON),  # what forward compatibility is for
        ("535.230.02", H200, ON),
        ("550.90.07", H200, {"CUDA_VERSION": "12.4.1"}),
    ],
)
def test_what_runs(driver: str, card: str, variables: dict[str, str]) -> None:
    assert refusal(driver, card, **variables) is None


def test_803_compatibility_libraries_hide_a_driver_that_is_new_enough() -> None:
    error = refusal("580.105.08", "NVIDIA B200", **ON)
    assert error is not None
    assert "error 803" in error.message
    assert "580.105.08" in error.message
    assert """--set 'engine.env.VLLM_ENABLE_CUDA_COMPATIBILITY="0"'""" in error.remedy
    by_path = refusal("580.105.08", LD_LIBRARY_PATH="/usr/local/cuda/compat:/usr/local/cuda/lib64")
    assert by_path is not None
    assert "error 803" in by_path.message


def test_804_compatibility_libraries_on_a_card_that_cannot() -> None:
    error = refusal("570.86.15", GEFORCE, **ON)
    assert error is not None
    assert "error 804" in error.message
    assert GEFORCE in error.message
    assert error.remedy.startswith("Update the host's driver to branch 580")


def test_a_driver_that_is_too_old_and_what_can_be_done() -> None:
    bridged, unbridged, consumer = refusal("570.86.15"), refusal("560.35.05"), refusal("570.86.15", GEFORCE)
    assert bridged is not None
    assert "too old for CUDA 13.0.2, which needs branch 580" in bridged.message
    assert """--set 'engine.env.VLLM_ENABLE_CUDA_COMPATIBILITY="1"'""" in bridged.remedy
    for other in (unbridged, consumer):
        assert other is not None
        assert other.remedy == "Update the host's driver to branch 580 or newer."
    no_libraries = refusal("560.35.05", **ON)
    assert no_libraries is not None
    assert "no compatibility libraries exist for branch 560" in no_libraries.message


def test_an_image_that_is_not_here_yet_may_be_bridged() -> None:
    situation = situation_of({"CUDA_VERSION": "13.0"}, driver="560.35.05", cards=[H200])
    assert situation is not None
    with pytest.raises(StreamproofError) as caught:
        check_driver(situation)
    assert "compatibility libraries bridge some older branches" in caught.value.remedy


def test_what_nobody_knows_is_not_refused() -> None:
    assert situation_of({}, driver="580.1", cards=[H200]) is None
    check_driver(Situation(driver="1.0", cuda="99.0", cards=(H200,), compatibility=True))


@given(
    branch=st.integers(300, 700),
    major=st.sampled_from(sorted(MINIMUM_DRIVER)),
    compatibility=st.booleans(),
    card=st.sampled_from([H200, GEFORCE]),
    bridged=st.frozensets(st.integers(300, 700)),
)
def test_a_new_driver_is_only_refused_for_compatibility_and_an_old_one_only_passes_where_it_is_bridged(
    branch: int, major: int, compatibility: bool, card: str, bridged: frozenset[int]
) -> None:
    situation = Situation(
        driver=f"{branch}.1", cuda=f"{major}.0", cards=(card,), compatibility=compatibility, bridged=bridged
    )
    try:
        check_driver(situation)
        refused = False
    except StreamproofError:
        refused = True
    old = branch < MINIMUM_DRIVER[major]
    assert refused == (not (compatibility and card == H200 and branch in bridged) if old else compatibility)


@pytest.mark.parametrize(
    ("line", "advice"),
    [
        ("Error 803: system has unsupported display driver / cuda driver combination", "Leave the compatibility"),
        ("Error 804: forward compatibility was attempted on non supported HW", "data-centre cards only"),
        ("The NVIDIA driver on your system is too old (found version 12090).", "580 or newer for CUDA 13"),
        ("nvidia-container-cli: requirement error: unsatisfied condition: cuda>=13.0", "Update the host's driver"),
    ],
)
def test_words_that_tell_of_it(line: str, advice: str) -> None:
    assert advice in advice_for(f"runc create failed: {line}")
    assert "{" not in advice_for(line)
    assert advice_for("something else") == ""


def test_no_two_rules_have_one_name() -> None:
    assert len({rule.name for rule in RULES}) == len(RULES)
