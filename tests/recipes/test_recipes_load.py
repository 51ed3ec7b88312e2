from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.errors import Exit, UsageError
from recipes.layers import flatten, line_of, read_overrides, unflatten
from recipes.load import RECIPES, load_recipe, targets

BASE = """\
title = "A base"

[hardware]
kind = "cpu"
memory_gib = 8

[checkpoint]
kind = "bundled"
name = "quantize/toy/checkpoint"
precision = "bf16"
real = false

[engine]
version = "0.26.0"
image = "serve-cpu"
lock = "engine-cpu"
flags = { max_num_seqs = 8 }

[workload]
agents = ["router"]
prompt_tokens = 200
output_tokens = 8
shared_prefix_tokens = 100
caller_tokens = 10
turns = [1, 2]

[load]
ladder = [{ streams = 2 }]
turn_gap = { distribution = "fixed", mean_s = 1.0 }
ramp_s = 1.0
steady_s = 5.0

[sources]
hardware = { kind = "assumption", why = "test" }
checkpoint = { kind = "assumption", why = "test" }
engine = { kind = "assumption", why = "test" }
workload = { kind = "assumption", why = "test" }
load = { kind = "assumption", why = "test" }
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "base.toml").write_text(BASE)
    return tmp_path


def child(folder: Path, text: str, name: str = "child") -> str:
    (folder / f"{name}.toml").write_text(text)
    return name


def refusal(target: str, folder: Path, overrides: dict[str, str] | None = None) -> UsageError:
    with pytest.raises(UsageError) as caught:
        load_recipe(target, overrides, folder=folder)
    assert caught.value.exit_code is Exit.USAGE
    return caught.value


def test_a_child_inherits_and_overrides_value_by_value(folder: Path) -> None:
    child(
        folder,
        'extends = "base"\n[engine.flags]\nmax_num_batched_tokens = 512\n[load]\nsteady_s = 7\n'
        '[sources]\n"engine.flags" = { kind = "engine", why = "x" }\n'
        '"load.steady_s" = { kind = "scaled", why = "y" }\n',
    )
    recipe = load_recipe("child", folder=folder)
    assert recipe.target == "child"
    assert recipe.title == "A base"
    assert recipe.engine.flags == {"max_num_seqs": 8, "max_num_batched_tokens": 512}
    assert recipe.load.steady_s == 7
    assert recipe.sources["engine.flags.max_num_seqs"].kind == "assumption"
    assert recipe.sources["engine.flags.max_num_batched_tokens"].kind == "engine"
    assert recipe.sources["load.steady_s"].kind == "scaled"


def test_an_overridden_value_does_not_keep_the_source_of_the_value_it_replaces(folder: Path) -> None:
    child(folder, 'extends = "base"\n[load]\nsteady_s = 7\n')
    error = refusal("child", folder)
    assert "child.toml, line 3: load.steady_s has no source" in error.message


def test_a_flag_set_to_an_empty_table_is_taken_away(folder: Path) -> None:
    (folder / "child.toml").write_text('extends = "base"\ntitle = "x"\n[engine.flags]\nmax_num_seqs = {}\nkept = 1\n')
    assert load_recipe("child", {"engine.flags.kept": "2"}, folder=folder).engine.flags == {"kept": 2}
    assert load_recipe(
        "base", {"engine.flags.more": "1", "engine.flags.max_num_seqs": "{}"}, folder=folder
    ).engine.flags == {"more": 1}


def test_without_mtp_nothing_of_it_is_left() -> None:
    with_mtp, without = load_recipe("h200-fp8-fast-dummy"), load_recipe("h200-fp8-no-mtp-dummy")
    assert with_mtp.engine.flags["speculative_config"]
    assert not {"speculative_config", "prefix_match_unit"} & set(without.engine.flags)
    assert not any(key.startswith("engine.flags.speculative_config") for key in without.sources)


def test_another_checkpoint_does_not_keep_the_commit_of_the_one_before() -> None:
    assert load_recipe("h200-fp8").checkpoint.revision == "0b2752837483aa34b3db6e83e151b150c0e00e49"
    assert load_recipe("b200-fp8").checkpoint.revision == "0b2752837483aa34b3db6e83e151b150c0e00e49"
    assert load_recipe("b200-nvfp4").checkpoint.revision is None
    assert load_recipe("h200-fp8", {"checkpoint.name": "someone/else"}).checkpoint.revision is None


CLAIM = """
[[claims]]
id = "{id}"
quote = "{quote}"
kind = "measured"
targets = ["base"]
point = {{ streams = 2 }}
quantile = 0.95
value_s = 1.0
tolerance = 0.0
tolerance_why = "none"
"""


def test_claims_add_up_and_one_with_the_same_id_takes_the_others_place(folder: Path) -> None:
    child(folder, 'extends = "base"\n' + CLAIM.format(id="a", quote="1") + CLAIM.format(id="b", quote="2"), "middle")
    child(folder, 'extends = "middle"\n' + CLAIM.format(id="a", quote="3"))
    claims = load_recipe("child", folder=folder).claims
    assert [(claim.id, claim.quote) for claim in claims] == [("a", "3"), ("b", "2")]


def test_a_claim_without_an_id_is_refused_by_its_number(folder: Path) -> None:
    child(folder, 'extends = "base"\n' + CLAIM.format(id="a", quote="1").replace('id = "a"\n', ""))
    assert "claims.0.id is missing" in refusal("child", folder).message
    child(folder, 'claims = [3]\nextends = "base"\n', "other")
    assert "claims.0" in refusal("other", folder).message


def test_a_source_without_a_value_is_refused(folder: Path) -> None:
    child(folder, 'extends = "base"\n[sources]\n"load.steady_s" = { kind = "scaled", why = "y" }\n')
    assert "a source for load.steady_s, which this file does not set" in refusal("child", folder).message


def test_overrides_win_are_parsed_as_toml_and_are_named_as_such(folder: Path) -> None:
    recipe = load_recipe(
        "base",
        {"load.ladder": "[{streams = 3}]", "engine.flags.kv_cache_dtype": "fp8", "load.turn_gap.mean_s": "2"},
        folder=folder,
    )
    assert recipe.load.ladder[0].streams == 3
    assert recipe.engine.flags["kv_cache_dtype"] == "fp8"
    assert recipe.load.turn_gap.mean_s == 2
    assert recipe.overridden == ["engine.flags.kv_cache_dtype", "load.ladder", "load.turn_gap.mean_s"]
    assert recipe.sources["load.turn_gap.mean_s"].why == "set on the command line"


def test_a_table_changes_the_keys_that_it_names() -> None:
    """Whoever wants real acceptance has to take away what states another: the report would say so, and surprise."""
    key = "engine.flags.speculative_config"
    stated = load_recipe("h200-fp8-dummy", {key: '{method = "mtp", num_speculative_tokens = 2}'}).engine.flags
    assert stated["speculative_config"] == {
        "method": "mtp",
        "num_speculative_tokens": 2,
        "rejection_sample_method": "synthetic",
        "synthetic_acceptance_length": 3.2,
    }
    taken = {f"{key}.rejection_sample_method": "{}", f"{key}.synthetic_acceptance_length": "{}"}
    real = load_recipe("h200-fp8-dummy", taken).engine.flags
    assert real["speculative_config"] == {"method": "mtp", "num_speculative_tokens": 4}


@pytest.mark.parametrize(
    ("text", "place", "hint"),
    [
        ("[load]\nramps_s = 3\n", "child.toml, line 3: unknown key load.ramps_s", "Did you mean load.ramp_s?"),
        ("[loud]\nramp_s = 3\n", "child.toml, line 2: unknown key loud", "Did you mean load?"),
        ('[load]\nturn_gap = { distribution = "fixed", mean = 1.0 }\n', "unknown key load.turn_gap.mean", "mean_s?"),
        ("[load]\nladder = [{ stream = 3 }]\n", "line 3: unknown key load.ladder.0.stream", "streams?"),
    ],
)
def test_an_unknown_key_names_file_line_key_and_the_nearest_right_one(
    folder: Path, text: str, place: str, hint: str
) -> None:
    child(folder, f'extends = "base"\n{text}')
    error = refusal("child", folder)
    assert place in error.message
    assert hint in error.remedy


SOURCE = '[sources]\n"load.ladder" = { kind = "assumption", why = "test" }\n'


def barge_in(share: float, earliest: float = 0.3) -> str:
    return f"barge_in = {{ share = {share}, after_s = [{earliest}, 0.8] }}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[load]\nsteady_s = "long"\n', "child.toml, line 3: load.steady_s: Input should be a valid number"),
        ("[load]\nsteady_s = -1\n", "child.toml, line 3: load.steady_s: Input should be greater than 0 (got -1)"),
        ("[load]\nsteady_s = nan\n", "child.toml, line 3: load.steady_s: Input should be a finite number"),
        ("[workload]\nshared_prefix_tokens = 300\n", "shared_prefix_tokens must be below workload.prompt_tokens"),
        ("[workload]\nturns = [5, 2]\n", "workload.turns is [fewest, most]"),
        ('[hardware]\ngpu = "B200"\n', 'belongs to hardware.kind = "gpu"'),
        ("[load]\nladder = [{ streams = 1, concurrent = 2 }]\n", "exactly one of streams, concurrent, rate and trace"),
        ("[load]\nladder = [{}]\n", "exactly one of streams, concurrent, rate and trace"),
        ("[load]\nladder = [{ rate = 2 }]\n", 'load.ladder.0: rate and arrivals ("poisson" or "fixed")'),
        ('[load]\nladder = [{ streams = 2, arrivals = "fixed" }]\n', "belong together"),
        ('[load]\nladder = [{ rate = -1, arrivals = "fixed" }]\n', "ladder.0.rate: Input should be greater than 0"),
        ('[load]\nladder = [{ rate = 1, arrivals = "burst" }]\n', "should be 'poisson' or 'fixed' (got 'burst')"),
        (f"[load]\nladder = [{{ streams = 1, {barge_in(1.2)} }}]\n", "share: Input should be less than or equal to 1"),
        (
            f"[load]\nladder = [{{ streams = 1, {barge_in(-0.1)} }}]\n",
            "share: Input should be greater than or equal to",
        ),
        (f"[load]\nladder = [{{ streams = 1, {barge_in(0.1, -1)} }}]\n", "after_s.0: Input should be greater than or"),
        (f"[load]\nladder = [{{ streams = 1, {barge_in(0.1, 3)} }}]\n", "barge_in.after_s is [earliest, latest]"),
        (f"[load]\nladder = [{{ concurrent = 1, {barge_in(0.1)} }}]\n", "barge_in belongs to streams, and only there"),
        (f"[load]\nladder = [{{ streams = 1, trace_sha256 = '{'a' * 64}' }}]\n", "trace_sha256 belongs to trace"),
        ("[load]\nclient_processes = -1\n", "load.client_processes: Input should be greater than or equal to 0"),
        (
            '[load.turn_gap]\ndistribution = "fixed"\nmean_s = -1.0\n',
            "mean_s: Input should be greater than 0 (got -1.0)",
        ),
        ('[load.turn_gap]\ndistribution = "lognormal"\n', "sigma belongs to"),
        ('[sources]\n"load.ramp_s" = { kind = "article" }\n[load]\nramp_s = 2\n', "a source has a quote"),
    ],
)
def test_a_bad_value_names_the_place_and_what_would_be_right(folder: Path, text: str, message: str) -> None:
    child(folder, f'extends = "base"\n{text}')
    assert message in refusal("child", folder).message


def test_a_bad_override_names_the_option(folder: Path) -> None:
    error = refusal("base", folder, {"load.steddy_s": "3"})
    assert error.message == "--set: unknown key load.steddy_s."
    assert error.remedy == "Did you mean load.steady_s?"


def test_a_missing_value_is_named(folder: Path) -> None:
    (folder / "short.toml").write_text('title = "x"\n')
    assert "hardware is missing" in refusal("short", folder).message


def test_a_cycle_in_extends_is_shown_as_the_circle_it_is(folder: Path) -> None:
    child(folder, 'extends = "b"\n', "a")
    child(folder, '# a comment\nextends = "a"\n', "b")
    assert "b.toml, line 2: extends goes in a circle: a -> b -> a" in refusal("a", folder).message


def test_extending_nothing_that_is_there(folder: Path) -> None:
    child(folder, 'extends = "bose"\n')
    error = refusal("child", folder)
    assert "child.toml, line 1: extends 'bose', and there is no bose.toml" in error.message
    assert "base" in error.remedy


def test_an_unknown_target_gets_the_nearest_name(folder: Path) -> None:
    error = refusal("bass", folder)
    assert error.message == "There is no recipe bass."
    assert error.remedy.startswith("Did you mean base?")


def test_an_abstract_layer_is_no_target(folder: Path) -> None:
    child(folder, 'abstract = true\nextends = "base"\n', "layer")
    assert targets(folder) == ["base"]
    assert "layer.toml is a layer for others to extend" in refusal("layer", folder).message


def test_a_recipe_of_ones_own_is_a_file_anywhere_that_extends_one_of_ours(tmp_path: Path) -> None:
    own = tmp_path / "mine.toml"
    own.write_text('extends = "cpu"\ntitle = "Mine"\n')
    recipe = load_recipe(str(own))
    assert (recipe.target, recipe.title) == ("mine", "Mine")
    assert recipe.hardware.kind == "cpu"


def test_not_toml(folder: Path) -> None:
    child(folder, "a = = b\n")
    assert "child.toml is not TOML" in refusal("child", folder).message


@pytest.mark.parametrize("text", ["extends = 3\n", 'sources = "x"\n', 'abstract = "yes"\n'])
def test_top_level_keys_of_the_wrong_shape(folder: Path, text: str) -> None:
    child(folder, text)
    assert "child.toml, line 1:" in refusal("child", folder).message


def test_a_value_in_the_way_of_a_table(folder: Path) -> None:
    error = refusal("base", folder, {"load": "3"})
    assert error.message.startswith("--set: load:")


names = st.text("abcxyz_", min_size=1, max_size=4)
tables = st.recursive(
    st.integers() | st.booleans() | st.text(max_size=5) | st.lists(st.integers(), max_size=3),
    lambda inner: st.dictionaries(names, inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(names, tables, max_size=4))
def test_flattening_loses_nothing(table: dict[str, object]) -> None:
    assert unflatten(dict(flatten(table))) == table


def test_line_of_looks_through_tables_arrays_strings_and_dotted_keys() -> None:
    text = 'a = 1\n[b]\nc.d = 2\n"e" = 3\ntext = """\nx = 1\n"""\nx = 5\n[[f]]\ng = 4\n[ b . h ] # note\ni = 1\n'
    found = {k: line_of(text, k) for k in ("a", "b", "b.c.d", "b.e", "b.x", "f", "f.g", "b.h", "b.h.i", "no")}
    assert found == {
        "a": 1, "b": 2, "b.c.d": 3, "b.e": 4, "b.x": 8, "f": 9, "f.g": 10, "b.h": 11, "b.h.i": 12, "no": None,
    }  # fmt: skip


def test_an_override_that_is_a_table_is_taken_apart() -> None:
    layer = read_overrides({"load.turn_gap": '{distribution = "fixed", mean_s = 1.5}', "title": "two words"})
    assert layer.values == {
        "load.turn_gap.distribution": "fixed",
        "load.turn_gap.mean_s": 1.5,
        "title": "two words",
    }


@pytest.mark.parametrize(
    ("point", "label"),
    [
        ("streams = 40", "40 streams"),
        ("streams = 40, " + barge_in(0.125), "40 streams, 12.5 % interrupted"),
        ("concurrent = 16", "16 concurrent requests"),
        ('rate = 12, arrivals = "poisson"', "12 requests/s, Poisson"),
        ('rate = 0.5, arrivals = "fixed"', "0.5 requests/s, fixed distances"),
        ('trace = "recorded/calls.jsonl"', "trace calls.jsonl"),
    ],
)
def test_every_load_has_a_label_of_its_own(folder: Path, point: str, label: str) -> None:
    child(folder, f'extends = "base"\n[load]\nladder = [{{ {point} }}]\n{SOURCE}')
    assert load_recipe("child", folder=folder).load.ladder[0].label == label


def test_a_trace_may_lie_beside_the_recipe(folder: Path) -> None:
    (folder / "calls.jsonl").write_text("")
    ladder_of_two = '[{ trace = "calls.jsonl" }, { trace = "others.jsonl" }]'
    child(folder, f'extends = "base"\n[load]\nladder = {ladder_of_two}\n{SOURCE}')
    ladder = load_recipe(str(folder / "child.toml"), folder=folder).load.ladder
    assert [point.trace for point in ladder] == [str(folder / "calls.jsonl"), "others.jsonl"]


def test_a_checkpoint_of_ones_own_is_named_from_the_recipes_file(folder: Path) -> None:
    checkpoint = '[checkpoint]\nkind = "folder"\nname = "weights"\n'
    child(folder, f'extends = "base"\n{checkpoint}[sources]\ncheckpoint = {{ kind = "assumption", why = "test" }}\n')
    found = load_recipe(str(folder / "child.toml"), folder=folder).checkpoint
    assert found.name == str(folder / "weights")
    inside = {"checkpoint.kind": "folder", "checkpoint.name": str(RECIPES.parent / "quantize" / "toy")}
    assert load_recipe("cpu", inside).checkpoint.name == "quantize/toy"
