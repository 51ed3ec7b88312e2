"""The command's work against stand-in servers; see `test_quality_end_to_end` for real engines."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from bench.display import Display
from bench.errors import Exit, StreamproofError, UsageError
from quantize.checkpoint import TOY
from quantize.quality.result import Quality
from quantize.quality.run import Options, Outcome, assess
from quantize.quality.served import read_served
from recipes.load import load_recipe
from tests.quantize.quality.standin import Standin, serving

LOG = Path(__file__).with_name("data") / "cpu-toy-loading.log"


@pytest.fixture
def options(tmp_path: Path) -> Options:
    return Options(
        recipe=load_recipe("cpu-mtp"),
        quantized=str(TOY),
        reference=str(TOY),
        base_url=None,
        log=None,
        reference_url=None,
        model=None,
        method="vllm",
        dequantized=False,
        texts=2,
        seed=1,
        top_k=20,
        only=None,
        out=tmp_path / "out",
    )


def between(options: Options, quantized: Standin, reference: Standin) -> Outcome:
    with serving(quantized) as url, serving(reference) as other:
        return assess(replace(options, base_url=url, reference_url=other), Display())


def test_two_servers_become_files_that_say_the_same(options: Options) -> None:
    outcome = between(options, Standin(), Standin())
    assert outcome.quality is not None
    assert outcome.quality.all.recovery is not None
    assert outcome.quality.all.recovery.value == 100
    out = options.out
    assert Quality.model_validate_json((out / "quality.json").read_bytes()) == outcome.quality
    assert read_served(out / "served.json") == outcome.served
    assert (out / "quality.md").read_text().startswith("# checkpoint beside checkpoint, ")
    pairs = pq.read_table(out / "pairs.parquet")
    assert pairs.num_rows == outcome.quality.all.tokens
    assert set(pairs["text"].to_pylist()) == {0, 1}


def test_the_title_says_what_is_not_real(options: Options) -> None:
    outcome = between(options, Standin(), Standin())
    assert outcome.served is not None
    assert outcome.served.title.endswith(", toy or random weights, on a CPU")
    assert not outcome.served.real


def test_a_log_that_can_be_read_tells_what_was_loaded(options: Options) -> None:
    with_log = between(replace(options, log=LOG), Standin(), Standin()).served
    assert with_log is not None
    checks = {check.name: check.outcome for check in with_log.checks}
    assert (checks["load"], checks["experts"], checks["drafter"]) == ("passed", "passed", "passed")
    assert checks["method"] == "failed"  # the toy is not quantized, and the log says so
    assert with_log.outcome == "failed"


def test_a_damaged_server_fails(options: Options) -> None:
    short = Standin(reply=lambda prompt, tokens: [len(prompt) % 50] * (tokens - 1))
    served = between(options, short, Standin()).served
    assert served is not None
    assert {check.name for check in served.checks if check.outcome == "failed"} == {"replies"}


def test_without_a_reference_only_the_serving_run_is_done(options: Options) -> None:
    standin = Standin()
    with serving(standin) as url:
        outcome = assess(replace(options, base_url=url, reference=None), Display())
    assert outcome.quality is None
    assert outcome.served is not None
    assert not any("prompt_logprobs" in request for request in standin.requests)
    assert not (options.out / "quality.json").exists()


def test_of_two_servers_one_folder_is_enough(options: Options) -> None:
    outcome = between(replace(options, quantized=None), Standin(), Standin())
    assert outcome.quality is not None
    assert outcome.quality.quantized is None
    assert outcome.quality.reference is not None
    assert outcome.quality.title.startswith("http://127.0.0.1:")


def test_one_side_alone_is_kept_for_later(options: Options) -> None:
    with serving(Standin()) as url:
        outcome = assess(replace(options, reference_url=url, only="reference"), Display())
    assert (outcome.quality, outcome.served) == (None, None)
    assert (options.out / "reference" / "scores.npz").is_file()


def test_two_models_of_different_tokens_are_not_compared(options: Options) -> None:
    with pytest.raises(StreamproofError, match="not what was asked for"):
        between(options, Standin(), Standin(rows=lambda ids, _k: [None, *({"1": {"logprob": -1.0}} for _ in ids[1:])]))


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"method": "transformers", "base_url": "http://127.0.0.1:1"}, "asks no server"),
        ({"method": "transformers", "reference": None}, "nothing to compare"),
        ({"only": "reference", "reference": None}, "there is none"),
        ({"dequantized": True, "base_url": "http://127.0.0.1:1"}, "needs a folder"),
        ({"log": LOG}, "was there already"),
        ({"quantized": "/nowhere"}, "is no folder with a checkpoint"),
        ({"reference": "/nowhere"}, "is no folder with a checkpoint"),
        (
            {"quantized": None, "reference": None, "base_url": "http://127.0.0.1:1"},
            "whose tokenizer is it",
        ),
    ],
)
def test_wrong_use_is_refused_before_anything_is_started(
    options: Options, changed: dict[str, object], said: str
) -> None:
    with pytest.raises(UsageError, match=said) as refused:
        assess(replace(options, **changed), Display())  # type: ignore[arg-type]
    assert refused.value.exit_code is Exit.USAGE
    assert refused.value.remedy
    assert not options.out.exists()


def test_a_recipe_without_a_folder_of_its_own_needs_one(options: Options) -> None:
    with pytest.raises(UsageError, match="serves no quantized checkpoint"):
        assess(replace(options, recipe=load_recipe("h200-fp8-dummy"), quantized=None), Display())
