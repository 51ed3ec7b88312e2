from __future__ import annotations

import importlib
import pkgutil
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import bench.explain.doctor
from bench.engine import log_events, log_lines, stages
from bench.errors import StreamproofError
from bench.explain.doctor.knowledge import FOLDER, STAGES, Comparison, filled, knowledge, placeholders
from bench.explain.doctor.phrases import Phrase, Reading, keep
from bench.explain.doctor.releases import in_range, parse_release, range_words

ENTRY = """
family = "f"
title = "t"
[[entry]]
id = "e"
kind = "failure"
title = "t"
stage = "weight-load"
cause = "because"
references = ["a/b#1"]
[entry.when]
errors = ["no such thing"]
[[entry.fix]]
say = "do it"
"""


def load(tmp_path: Path, text: str) -> None:
    (tmp_path / "signs").mkdir()
    (tmp_path / "signs/signs.toml").write_text((FOLDER / "signs/signs.toml").read_text())
    (tmp_path / "f.toml").write_text(text)
    knowledge(tmp_path)


def test_a_valid_file_needs_no_code(tmp_path: Path) -> None:
    load(tmp_path, ENTRY)
    assert [entry.id for entry in knowledge(tmp_path).entries] == ["e"]


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ('stage = "weight-load"', 'stage = "weigth-load"', "there is no stage"),
        ('errors = ["no such thing"]', 'errors = ["@nothing"]', "there is no group"),
        ('errors = ["no such thing"]', 'errors = ["*a"]', "a phrase begins with"),
        ('errors = ["no such thing"]', 'values = ["block-size is large"]', "no comparison"),
        ('errors = ["no such thing"]', 'values = ["blok-size > 1"]', "no line gives a value blok-size"),
        ('errors = ["no such thing"]', 'stages = ["nowhere"]', "there is no stage"),
        ('say = "do it"', 'say = "{blok-size}"', "no line gives a value blok-size"),
        ('say = "do it"', 'say = "do it"\nsince = "0.9"\nbefore = "0.8"', "no release is"),
        ('kind = "failure"', 'kind = "downgrade"', "a downgrade says what its consequence is"),
        ('[[entry.fix]]\nsay = "do it"', "", "has a fix"),
        ('references = ["a/b#1"]', 'references = ["somewhere"]', "references"),
        ('references = ["a/b#1"]', "references = []", "references"),
        ('cause = "because"', 'cause = "because"\ncauze = "x"', "cauze"),
        ('kind = "failure"', 'kind = "Failure"', "kind"),
        ('id = "e"', 'id = "E 1"', "id"),
        ('family = "f"', "family = f", "f.toml"),
        (
            '[[entry.fix]]\nsay = "do it"\n',
            ENTRY[ENTRY.index("[[entry.fix]]") :] + ENTRY[ENTRY.index("[[entry]]") :],
            "two entries",
        ),
    ],
)
def test_a_mistake_in_a_file_is_named(tmp_path: Path, old: str, new: str, says: str) -> None:
    assert old in ENTRY
    with pytest.raises(StreamproofError, match=re.escape(says)):
        load(tmp_path, ENTRY.replace(old, new))


def test_every_entry_is_complete() -> None:
    known = knowledge()
    assert len(known.entries) >= 80
    for entry in known.entries:
        assert entry.kind == "note" or entry.when is not None, f"{entry.id}: nothing would show it"
        assert entry.kind != "failure" or entry.is_not, f"{entry.id}: says not what it may be mistaken for"
        assert all(fix.say[-1] in ".;" for fix in entry.fix), entry.id
        assert entry.cause.endswith("."), entry.id


def test_the_families_of_public_failures_are_there() -> None:
    assert {path.stem for path in FOLDER.glob("*.toml")} >= {
        "graph-memory",
        "kv-budget",
        "hybrid-prefix",
        "mtp",
        "graph-modes",
        "kernels",
        "quant-kernels",
        "sampler",
        "host",
        "client",
    }


def public_threads() -> list[str]:
    """Every thread of the public failures of this stack that the knowledge must hold."""
    vllm = (
        "48483 50780 45178 57475 44209 52872 27508 49064 20305 40696 45238 45702 51250 48402 34445 "
        "36734 43559 53912 38898 "
        "43382 38832 43455 37804 50332 36217 37035 40756 34948 46324 28207 50488 54418 46764 48031 "
        "43189 22215 24693 32116 "
        "44881 42808 36599 36077 46083 47749 45661 35065 30720 52308 48786 34892 48630 33992 34821 "
        "4940 5283 54227 52884 "
        "54101 39963 3768 15106 52536 33497"
    )
    others = (
        "vllm-project/recipes#12 pytorch/pytorch#175666 syv-ai/qwen38-27b-rtx3090#102 sgl-project/sglang#35797 "
        "Avarok-Cybersecurity/dgx-vllm#5 princeton-ddss/blackfish#322 noonghunna/club-3090#617 "
        "flashinfer-ai/flashinfer#1352 "
        "PrimeIntellect-ai/prime-rl#3251 flashinfer-ai/flashinfer#3986 flashinfer-ai/flashinfer#3565 "
        "flashinfer-ai/flashinfer#4486 noonghunna/club-3090#594 llm-d/llm-d#787 NVIDIA/nvidia-container-toolkit#152 "
        "MiniMax-AI/MiniMax-01#42 llm-d/llm-d#352 kubernetes-sigs/inference-perf#340 NVIDIA/TensorRT-LLM#13952 "
        "sgl-project/sglang#23954 eugr/llama-benchy#11 vllm-project/tpu-inference#3296 vllm-project/aibrix#2540"
    )
    return [f"vllm-project/vllm#{number}" for number in vllm.split()] + others.split()


@pytest.mark.parametrize("thread", public_threads())
def test_every_public_failure_of_this_stack_is_known(thread: str) -> None:
    assert any(thread in entry.references for entry in knowledge().entries)


def test_the_stages_of_frames_are_stages() -> None:
    assert set(knowledge().frame_stages.values()) <= STAGES


def unbounded(pattern: re.Pattern[str] | re.Pattern[bytes]) -> int:
    """How deep unbounded repetitions are nested in a pattern: 2 is what makes matching exponential."""
    parser = importlib.import_module("re._parser")

    def depth(items: object) -> int:
        deepest = 0
        if isinstance(items, parser.SubPattern | list):
            for item in items:
                deepest = max(deepest, depth(item))
        elif isinstance(items, tuple):
            inner = max((depth(item) for item in items), default=0)
            repeats = items[0] in (parser.MAX_REPEAT, parser.MIN_REPEAT) if items else False
            deepest = inner + (1 if repeats and items[1][1] is parser.MAXREPEAT else 0)
        return deepest

    return depth(parser.parse(pattern.pattern, pattern.flags))


def test_the_check_for_nested_repetition_finds_one() -> None:
    assert unbounded(re.compile(r"(a+)+b")) == 2
    assert unbounded(re.compile(r"a+b*")) == 1


def test_no_pattern_nests_unbounded_repetitions() -> None:
    names = [f"bench.explain.doctor.{module.name}" for module in pkgutil.iter_modules(bench.explain.doctor.__path__)]
    modules = [importlib.import_module(name) for name in names] + [log_lines, log_events, stages]
    patterns = [value for module in modules for value in vars(module).values() if isinstance(value, re.Pattern)]
    patterns += [reading._pattern for reading in knowledge().readings]
    assert len(patterns) > 30
    assert [pattern.pattern for pattern in patterns if unbounded(pattern) > 1] == []


@pytest.mark.parametrize(
    ("phrase", "text", "found"),
    [
        ("max_num_seqs (*) exceeds", "ValueError: max_num_seqs (9) exceeds it", True),
        ("max_num_seqs (*) exceeds", "exceeds max_num_seqs (9)", False),
        ("Error 803", "error 803: system", True),
        ("aab*aab", "aaabaab", True),
    ],
)
def test_a_phrase_is_its_words_in_order(phrase: str, text: str, *, found: bool) -> None:
    assert Phrase(phrase).is_in(text.lower()) is found


@given(st.lists(st.text("ab*c ", min_size=0, max_size=6), max_size=4), st.text("abc ", max_size=30))
def test_a_phrase_means_what_the_regular_expression_would(parts: list[str], text: str) -> None:
    phrase = "abc" + "*".join(parts)
    expected = re.search(".*?".join(re.escape(piece) for piece in phrase.split("*")), text, re.DOTALL) is not None
    assert Phrase(phrase).is_in(text) is expected


def test_readings() -> None:
    reading = Reading("free (<free>/<total> GiB) on <card:word>")
    assert reading.read("x free (14.99/139.8 GiB) on H200 now") == {"free": 14.99, "total": 139.8, "card": "H200"}
    assert reading.read("free (many/139.8 GiB) on H200") == {}
    assert Reading("sizes: [<most:largest>]").read("sizes: [1, 16384, 8]") == {"most": 16384.0}
    assert Reading("left: <gib> GiB").read("left: -3,000.5 GiB") == {"gib": -3000.5}
    assert Reading("left: <gib> GiB", only_in="core").read("left: 3 GiB") == {}
    assert [keep(which, 2.0, 1.0) for which in ("first", "last", "smallest", "largest")] == [2.0, 1.0, 1.0, 2.0]


@pytest.mark.parametrize("text", ["<a> first", "no place", "abc <a:date>", "ab <A>"])
def test_a_reading_without_a_fixed_beginning_or_a_place_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="a reading is"):
        Reading(text)


@pytest.mark.parametrize(
    ("version", "release"),
    [
        ("0.26.0", (0, 26, 0)),
        ("v0.9", (0, 9, 0)),
        ("0.19.2rc1.dev8+g1234", (0, 19, 2)),
        ("0.8.5.post1", (0, 8, 5)),
        ("nightly", None),
    ],
)
def test_releases(version: str, release: tuple[int, int, int] | None) -> None:
    assert parse_release(version) == release


def test_ranges_of_releases() -> None:
    assert in_range((0, 25, 1), None, "0.26.0")
    assert not in_range((0, 26, 0), None, "0.26.0")
    assert in_range((0, 26, 0), "0.26.0", None)
    assert in_range(None, "0.26.0", "0.27.0")
    assert range_words("0.26.0", "0.28.0") == "vLLM 0.26.0 and newer, before 0.28.0"
    assert range_words(None, None) == ""


def test_texts_are_filled_with_values_or_words() -> None:
    text = 'use {seqs|fewer} of {most} in {"json": 1}'
    assert placeholders(text) == ["seqs", "most"]
    assert filled(text, {"most": "9"}) == 'use fewer of 9 in {"json": 1}'
    assert filled("{gone}", {}) == "<gone>"


@pytest.mark.parametrize("text", ["a > b > c", "1 > a", "a >= ", "a ~ 2", "A > 2"])
def test_what_is_no_comparison(text: str) -> None:
    with pytest.raises(ValueError, match="no comparison"):
        Comparison.parse(text)
