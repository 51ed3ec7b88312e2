from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from bench.errors import StreamproofError
from quantize.quality.judge import judge
from quantize.quality.result import Quality, Slice
from quantize.quality.served import (
    CHECKS,
    EngineFacts,
    Interval,
    LoadedTensors,
    Parting,
    Repeat,
    Replies,
    Served,
    read_served,
)
from quantize.quality.show import markdown
from quantize.quality.side import Settings, Side
from recipes.load import load_recipe

LOADED = LoadedTensors(expected=96, loaded=96, missing=(), unseen=0)
LOST = LoadedTensors(expected=96, loaded=95, missing=("mtp.fc.weight",), unseen=0)
NVFP4_LINE = "Using 'MARLIN' NvFp4 MoE backend out of potential backends: ['MARLIN']."


def facts(**changed: Any) -> EngineFacts:
    usual = {
        "version": "0.26.0",
        "argv": ("python", "-m", "vllm"),
        "ready_s": 200.0,
        "quantization": "modelopt_fp4",
        "moe_backend": "MARLIN",
        "moe_line": NVFP4_LINE,
        "linear_kernel": None,
        "weight_only": True,
        "kv_scales": None,
        "load_s": 12.0,
        "loaded_gib": 24.5,
    }
    return EngineFacts.model_validate(usual | changed)


def side(accepted: int = 80, texts: int = 12, **changed: Any) -> Side:
    settings = Settings(
        method="vllm",
        workload=load_recipe("cpu").workload,
        seed=1,
        texts=texts,
        top_k=20,
        scored=True,
        flags=(),
    )
    usual = {
        "settings": settings,
        "checkpoint": "ab" * 32,
        "engine": facts(),
        "logged": True,
        "tracked": True,
        "told_method": True,
        "drafting": True,
        "experts": LOADED,
        "decoder": LOADED,
        "drafter": LOADED,
        "replies": Replies(asked=12, exact=12, prompt_tokens=120, reply_tokens=60, first_wrong=None),
        "repeat": Repeat(tokens=32, same=32, differs_from_b=True),
        "drafts": ((100, accepted, accepted // 2),) * texts,
    }
    return Side.model_validate(usual | changed)


def repeated(same: int, *gaps: float | None) -> Repeat:
    """Four replies of 32 tokens; as many as there are gaps part after so many tokens. Another prompt's: 4 nats away."""
    return Repeat(
        tokens=32,
        same=same,
        differs_from_b=True,
        replies=4,
        compared=same * len(gaps) + 32 * (3 - len(gaps)),
        partings=tuple(Parting(reply=number, at=same, gap=gap) for number, gap in enumerate(gaps, 2)),
        moved=0.1,
        other_gap=4.0,
    )


def interval(value: float, low: float | None, high: float | None) -> Interval:
    return Interval(value=value, low=low, high=high, confidence=0.95, blocks=12)


def quality(recovery: Interval, right: float = 0.88) -> Quality:
    part = Slice(
        name="all",
        tokens=1000,
        perplexity_reference=1.5,
        perplexity_quantized=1.6,
        perplexity_ratio=interval(1.01, 1.0, 1.02),
        recovery=recovery,
        divergence=interval(0.002, 0.001, 0.003),
        divergence_ceiling=0.01,
        rest=0.001,
        same_first=interval(0.98, 0.97, 0.99),
        accuracy_reference=right,
        accuracy_quantized=right,
        accuracy_recovery=interval(100, 99, 101),
    )
    return Quality(
        title="a title",
        method="vllm",
        weights_only=False,
        reference="cd" * 32,
        quantized="ab" * 32,
        workload_version="1",
        seed=1,
        texts=12,
        top_k=20,
        all=part,
        roles=(),
        positions=(),
    )


def judged(
    quantized: Side, reference: Side | None = None, measured: Quality | None = None, stand_in: str | None = None
) -> Served:
    found = judge(quantized, reference, measured, title="a title", real=True, stand_in=stand_in)
    assert found is not None
    assert tuple(check.name for check in found.checks) == CHECKS
    return found


def outcomes(served: Served) -> dict[str, str]:
    return {check.name: check.outcome for check in served.checks}


def detail(served: Served, name: str) -> str:
    return next(check.detail for check in served.checks if check.name == name)


def test_everything_passes() -> None:
    served = judged(side(), side(), quality(interval(99.8, 99.7, 99.9)))
    assert set(outcomes(served).values()) == {"passed"}
    assert served.outcome == "passed"
    assert "only weights are quantized on this card" in detail(served, "backend")


def test_without_a_reference_the_run_can_still_pass() -> None:
    served = judged(side())
    assert {name for name, outcome in outcomes(served).items() if outcome == "no information"} == {
        "acceptance",
        "quality",
    }
    assert served.outcome == "passed"


@pytest.mark.parametrize(
    ("changed", "name", "said"),
    [
        ({"drafter": LOST}, "drafter", "1 of 96 tensors of the MTP head were not loaded.*mtp.fc.weight"),
        ({"experts": LOST}, "experts", "1 of 96 parts of routed experts were not loaded"),
        ({"decoder": LOST}, "load", "1 of 96 other tensors"),
        ({"drafter": LOADED.model_copy(update={"expected": 0})}, "drafter", "has no tensors of the MTP head"),
        ({"engine": facts(quantization="modelopt_mixed")}, "method", "resolved modelopt_mixed"),
        ({"engine": facts(quantization=None)}, "method", "resolved no quantization"),
        ({"engine": facts(moe_line="Using TRITON Unquantized MoE backend")}, "backend", "no NVFP4 backend"),
        (
            {"replies": Replies(asked=2, exact=1, prompt_tokens=9, reply_tokens=9, first_wrong="text 1: short")},
            "replies",
            "1 of 2 .* text 1: short",
        ),
        (
            {"repeat": repeated(4, 0.1, 0.6)},
            "repeatable",
            "reply 3 to the same prompt differs from token 5 of 32 on, .* moved by 0.60 nats, a tie by 0.25 at most",
        ),
    ],
)
def test_one_failing_check_fails_the_run(changed: dict[str, Any], name: str, said: str) -> None:
    served = judged(side(**changed), side(), quality(interval(99.8, 99.7, 99.9)))
    assert [n for n, outcome in outcomes(served).items() if outcome == "failed"] == [name]
    assert served.outcome == "failed"
    assert re.search(said, detail(served, name))


@pytest.mark.parametrize(
    ("changed", "names"),
    [
        (
            {"logged": False, "tracked": False, "experts": None, "drafter": None},
            {"load", "experts", "drafter", "method"},
        ),
        ({"tracked": False}, {"load"}),
        ({"repeat": Repeat(tokens=32, same=32, differs_from_b=False)}, {"repeatable"}),
        ({"repeat": Repeat(tokens=32, same=4, differs_from_b=True)}, {"repeatable"}),  # made without log-probabilities
        ({"repeat": repeated(4, None, 0.1, 0.1)}, {"repeatable"}),
        ({"repeat": repeated(4, 0.1, 0.25, 0.0)}, {"repeatable"}),
        ({"drafting": False, "drafter": None}, {"drafter"}),
    ],
)
def test_what_was_not_seen_is_no_information(changed: dict[str, Any], names: set[str]) -> None:
    served = judged(side(**changed, told_method="logged" not in changed), side(), quality(interval(99.8, 99.7, 99.9)))
    silent = {name for name, outcome in outcomes(served).items() if outcome == "no information"}
    assert names <= silent
    assert served.outcome == "no information"


def test_a_reply_s_worth_of_tokens_that_came_again_is_enough() -> None:
    served = judged(side(repeat=repeated(16, 0.1, 0.2)))  # 16 + 16 + a whole reply of 32
    assert outcomes(served)["repeatable"] == "passed"
    said = detail(served, "repeatable")
    assert said.startswith("2 of 3 later replies to the same prompt part from the first one at a tie (within 0.25 ")
    assert "64 tokens were the same until then, where no log-probability moved by more than 0.10 nats" in said


@pytest.mark.parametrize(
    ("gap", "real", "outcome"),
    [
        (0.1, False, "no information"),
        (0.6, False, "no information"),  # an expert was swapped
        (0.6, True, "failed"),
        (3.0, False, "failed"),  # as far as another prompt's
    ],
)
def test_random_weights_show_only_another_state(gap: float, real: bool, outcome: str) -> None:
    served = judge(side(repeat=repeated(0, 0.1, gap, 0.0)), None, None, title="", real=real, stand_in=None)
    assert served is not None
    assert outcomes(served)["repeatable"] == outcome
    assert ("only another state would be noticed" in detail(served, "repeatable")) is (outcome == "no information")


def test_a_stand_in_says_nothing_of_the_quantized_path() -> None:
    served = judged(side(), stand_in="its weights")
    assert outcomes(served)["method"] == outcomes(served)["backend"] == "no information"
    assert served.outcome == "no information"


@pytest.mark.parametrize(
    ("mine", "theirs", "texts", "outcome", "said"),
    [
        (79, 80, 12, "passed", "2.18 tokens a step, the reference 2.20"),
        (0, 80, 12, "failed", "below 0.9"),
        (0, 1, 12, "no information", "as random weights do"),
        (79, 80, 5, "no information", "too few texts"),
    ],
)
def test_acceptance(mine: int, theirs: int, texts: int, outcome: str, said: str) -> None:
    served = judged(side(mine, texts), side(theirs, texts))
    assert outcomes(served)["acceptance"] == outcome
    assert said in detail(served, "acceptance")


@pytest.mark.parametrize(
    ("measured", "outcome", "said"),
    [
        (quality(interval(99.8, 99.7, 99.9)), "passed", "recovery 99.80 %"),
        (quality(interval(60.0, 55.0, 65.0)), "failed", "below 95 %"),
        (quality(interval(95.0, 94.0, 96.0)), "no information", "recovery 95.00 %"),
        (quality(interval(99.8, None, None)), "no information", "too few texts"),
        (quality(interval(99.8, 99.7, 99.9), right=0.0), "no information", "knows nothing that could be lost"),
    ],
)
def test_quality(measured: Quality, outcome: str, said: str) -> None:
    served = judged(side(), side(), measured)
    assert outcomes(served)["quality"] == outcome
    assert said in detail(served, "quality")


def test_transformers_serve_nothing() -> None:
    silent = side(replies=None, repeat=None, engine=None)
    assert judge(silent, silent, None, title="", real=True, stand_in=None) is None


def test_a_file_comes_back_as_it_was(tmp_path: Path) -> None:
    served = judged(side(), side(), quality(interval(99.8, 99.7, 99.9)))
    path = tmp_path / "served.json"
    path.write_text(served.model_dump_json())
    assert read_served(path) == served


@pytest.mark.parametrize("content", ["", "[]", '{"schema_version": "9"}'])
def test_another_file_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "served.json"
    path.write_text(content)
    with pytest.raises(StreamproofError, match="no result of a serving run"):
        read_served(path)
    with pytest.raises(StreamproofError, match="cannot be read"):
        read_served(tmp_path / "missing.json")


@pytest.mark.parametrize(
    ("target", "drafter", "said"),
    [
        (
            "checkpoint",
            "1.0",
            "the target's are the checkpoint's. The MTP head's are 1.0: that can cost",
        ),
        ("checkpoint", "checkpoint", "the target's are the checkpoint's. The MTP head's are the checkpoint's.\n"),
        ("1.0", None, "the target's are 1.0, as if the checkpoint had none.\n"),
    ],
)
def test_the_summary_says_whose_kv_scales_are_whose(target: str, drafter: str | None, said: str) -> None:
    text = markdown(None, judged(side(engine=facts(kv_scales=target, kv_scales_drafter=drafter))))
    assert f"Scales of the KV cache: {said}" in text


def test_the_summary_names_what_failed_and_what_is_not_known() -> None:
    text = markdown(quality(interval(99.8, 99.7, 99.9)), judged(side(drafter=LOST)))
    assert text.startswith("# a title\n")
    assert "## Served: failed" in text
    assert "| drafter    | FAILED | 1 of 96 tensors of the MTP head" in text
    assert "| acceptance | --     |" in text
    assert "| all | 1,000  | 1.5000          | 1.6000    | 99.80 [99.70, 99.90] |" in text
    assert "The divergence is a lower bound" in text
