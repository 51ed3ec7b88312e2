"""Reports beside each other: what differs, what came of it, what cannot be compared."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import bench.stats.blocks as blocks_module
from bench.errors import Exit, StreamproofError, UsageError
from bench.explain.compare.comparable import NotComparableError
from bench.explain.compare.comparison import compare, exit_code
from bench.explain.compare.gate import parse_gate
from bench.explain.compare.outcome import Effect, Pair
from bench.explain.compare.side import Side
from bench.explain.compare.words import headline
from tests.explain.compare.sides import recipe_of, report, side
from tests.report.factories import make_claim
from tests.report.scene import ENVIRONMENT


@pytest.fixture(autouse=True)
def _few_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks_module, "REPLICATES", 200)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Side:
    return side(report(tmp_path_factory.mktemp("base"), seed=1))


def pair_of(base: Side, other: Side, **options: Any) -> Pair:
    (pair,) = compare([base, other], **options).pairs
    return pair


def effect(pair: Pair, name: str, point: int = 0) -> Effect:
    return next(each for each in pair.points[point].effects if each.name == name)


def test_figures_of_both_sides_and_their_change(base: Side, tmp_path: Path) -> None:
    slower = side(report(tmp_path, factor=1.2, seed=2, recipe=recipe_of(engine={"flags": {"max_num_seqs": 8}})))
    pair = pair_of(base, slower)
    p95 = effect(pair, "p95 of E2E")
    assert p95.base == base.report.points[0].e2e.p95.value
    assert p95.other == slower.report.points[0].e2e.p95.value
    assert p95.low is not None
    assert p95.high is not None
    assert 1 < p95.low < 1.2 < p95.high
    assert p95.basis == "between starts"
    assert effect(pair, "p50 of TTFT", 1).ratio == pytest.approx(1.2, rel=0.05)
    assert effect(pair, "requests per second").base == pytest.approx(1.5)
    assert not pair.same_fingerprint
    assert {each.key: (each.base, each.other) for each in pair.differences if each.group == "flags"} == {
        "engine.flags.max_num_seqs": (None, "8")
    }
    assert [point.label for point in pair.points] == ["20 streams", "40 streams"]


def test_repeats_are_known_as_such(base: Side, tmp_path: Path) -> None:
    pair = pair_of(base, side(report(tmp_path, seed=3)))
    assert pair.same_fingerprint
    assert pair.differences == ()
    assert pair.notes == ()


@pytest.mark.parametrize(
    ("changes", "group", "key"),
    [
        ({"engine": {"env": {"VLLM_X": "1"}}}, "environment variables", "engine.env.VLLM_X"),
        ({"engine": {"image": "other"}}, "image and packages", "engine.image"),
        ({"engine": {"lock": "other"}}, "image and packages", "engine.lock"),
        ({"checkpoint": {"precision": "bf16"}}, "checkpoint", "checkpoint.precision"),
        ({"load": {"steady_s": 50.0}}, "load", "load.steady_s"),
    ],
)
def test_what_differs_is_told_in_its_group(
    base: Side, tmp_path: Path, changes: dict[str, Any], group: str, key: str
) -> None:
    pair = pair_of(base, side(report(tmp_path, seed=4, recipe=recipe_of(**changes))))
    assert (group, key) in {(each.group, each.key) for each in pair.differences}


def test_machines_that_differ_are_told_and_moments_are_not(base: Side, tmp_path: Path) -> None:
    other = dict(ENVIRONMENT) | {
        "gpus": [ENVIRONMENT["gpus"][0] | {"name": "NVIDIA H200 NVL", "memory_free_bytes": 1}],
        "driver": {"version": "999"},
        "host": ENVIRONMENT["host"] | {"load_average": [9, 9, 9]},
    }
    pair = pair_of(base, side(report(tmp_path, seed=5, environment=other)))
    assert {(each.group, each.key) for each in pair.differences} == {
        ("hardware", "environment.gpus.0.name"),
        ("driver", "environment.driver.version"),
    }


def test_a_gate_is_judged_at_every_point(base: Side, tmp_path: Path) -> None:
    slower = side(report(tmp_path, factor=1.5, seed=16))
    comparison = compare([base, slower], [parse_gate("e2e:p50:+5%")])
    assert [gated.verdict for gated in comparison.pairs[0].gates] == ["regression", "regression"]
    assert exit_code(comparison) is Exit.CLAIM_FAILED
    faster = compare([slower, base], [parse_gate("e2e:p50:+5%")])
    assert [gated.verdict for gated in faster.pairs[0].gates] == ["no regression", "no regression"]
    assert exit_code(faster) is Exit.OK


def test_one_start_each_decides_no_gate_and_says_what_would(base: Side, tmp_path: Path) -> None:
    one, two = (side(report(tmp_path / str(n), runs=1, factor=1 + n, seed=n + 1)) for n in range(2))
    comparison = compare([one, two], [parse_gate("e2e:p50:+5%")])
    (gated, _) = comparison.pairs[0].gates
    assert gated.verdict == "undecided"
    assert "how much starts differ is not known" in gated.reason
    assert gated.runs_needed is not None
    assert exit_code(comparison) is Exit.INVALID
    assert any("one engine start on each side" in note for note in comparison.pairs[0].notes)
    assert "between these two engine starts only" in headline(compare([one, two]))[1]
    assert any("one engine start" in note for note in pair_of(base, one).notes)


def test_a_percentile_among_the_failures_is_a_regression(base: Side, tmp_path: Path) -> None:
    failing = side(report(tmp_path, failures=30, seed=7))
    comparison = compare([base, failing], [parse_gate("e2e:p95:+5%"), parse_gate("e2e:p50:+50%")], anyway=True)
    found = {(gated.gate, gated.point): gated for gated in comparison.pairs[0].gates}
    gated = found["e2e:p95:+5%", "20 streams"]
    assert gated.verdict == "regression"
    assert "among the failures" in gated.reason
    assert found["e2e:p50:+50%", "20 streams"].verdict == "no regression"
    assert comparison.pairs[0].points[0].failures.other == 90


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"load": {"turn_gap": {"distribution": "exponential", "mean_s": 8.0}}}, "load.turn_gap.mean_s is 4.0 and 8.0"),
        ({"workload": {"caller_tokens": 6}}, "workload.caller_tokens is 5 and 6"),
        (
            {"engine": {"flags": {"speculative_config": {"rejection_sample_method": "synthetic"}}}},
            "measured with synthetic acceptance",
        ),
        ({"checkpoint": {"real": False}}, "measured with toy weights"),
    ],
)
def test_other_questions_are_refused_unless_they_are_the_question(
    base: Side, tmp_path: Path, changes: dict[str, Any], words: str
) -> None:
    other = side(report(tmp_path, seed=8, recipe=recipe_of(**changes)))
    with pytest.raises(NotComparableError, match="different questions") as refused:
        compare([base, other])
    assert words in refused.value.message
    assert refused.value.exit_code is Exit.INVALID
    assert "--anyway" in refused.value.remedy
    assert any(words in each for each in pair_of(base, other, anyway=True).waived)


def test_what_proves_nothing_is_refused_in_any_case(base: Side, tmp_path: Path) -> None:
    partial = side(report(tmp_path / "partial", seed=9, finished=False))
    ladder = [{"streams": 20}, {"concurrent": 20}]  # so many in flight there never were
    invalid = side(report(tmp_path / "invalid", seed=9, recipe=recipe_of(load={"ladder": ladder})))
    elsewhere = side(
        report(tmp_path / "points", seed=10, recipe=recipe_of(load={"ladder": [{"streams": 7}, {"concurrent": 3}]}))
    )
    for other, words in ((partial, "is partial"), (invalid, "is invalid"), (elsewhere, "no operating point in common")):
        with pytest.raises(NotComparableError, match=words):
            compare([base, other], anyway=True)


def test_points_of_one_report_only_are_left_out_and_named(base: Side, tmp_path: Path) -> None:
    other = side(report(tmp_path, seed=11, recipe=recipe_of(load={"ladder": [{"streams": 20}, {"streams": 50}]})))
    pair = pair_of(base, other)
    assert [point.label for point in pair.points] == ["20 streams"]
    assert len(pair.left_out) == 2
    assert any("50 streams: only in" in line for line in pair.left_out)


def test_everything_that_differs_at_once_is_told_at_once(base: Side, tmp_path: Path) -> None:
    recipe = recipe_of(
        load={"ladder": [{"concurrent": 1}, {"concurrent": 2}]},
        workload={"output_tokens": 10, "caller_tokens": 9},
        checkpoint={"real": False},
    )
    with pytest.raises(NotComparableError) as refused:
        compare([base, side(report(tmp_path, seed=12, recipe=recipe))])
    for words in ("no operating point", "workload.caller_tokens", "toy weights"):
        assert words in refused.value.message


def test_one_report_or_the_same_twice_is_no_comparison(base: Side, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="nothing to compare"):
        compare([base])
    copied = report(tmp_path / "one", seed=1).copy(tmp_path / "copy")
    with pytest.raises(UsageError, match="are the same report"):
        compare([base, side(copied)])


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> Side:
    recipe = recipe_of(target="old", checkpoint={"precision": "bf16"})
    return side(report(tmp_path_factory.mktemp("old"), seed=21, spread=0.005, recipe=recipe))


class TestPublishedChanges:
    """A claim about the change from one target to another: p95 at 20 streams 600 -> 500 ms, within 5 %."""

    CLAIM = make_claim(
        id="new-over-old", targets=["test-h200"], value_s=0.5, tolerance=0.05, against="old", against_value_s=0.6
    )

    def new(self, tmp_path: Path, factor: float, **claim: Any) -> Side:
        recipe = recipe_of(claims=[self.CLAIM | claim])
        return side(report(tmp_path, seed=22, spread=0.005, factor=factor, recipe=recipe))

    @pytest.mark.parametrize(
        ("factor", "verdict", "code"),
        [(0.6, "reproduced", 0), (1.2, "not reproduced", 3), (0.87, "not enough samples", 4)],
    )
    def test_it_is_judged_by_the_interval_of_the_ratio(
        self, old: Side, tmp_path: Path, factor: float, verdict: str, code: int
    ) -> None:
        comparison = compare([old, self.new(tmp_path, factor)])
        (claim,) = comparison.pairs[0].claims
        assert claim.verdict == verdict
        assert claim.ratio == pytest.approx(factor, rel=0.1)
        assert "at most 0.875" in claim.asks
        assert exit_code(comparison) == code

    def test_the_other_way_round_it_is_about_nothing(self, old: Side, tmp_path: Path) -> None:
        assert pair_of(self.new(tmp_path, 0.6), old).claims == ()

    @pytest.mark.parametrize(
        ("claim", "words"),
        [
            ({"hardware": "B200"}, "made on B200"),
            ({"precision": "nvfp4"}, "made with nvfp4 weights"),
            ({"point": {"streams": 33}}, "did not measure 33 streams"),
            ({"against_value_s": None}, "gives no figure of old"),
        ],
    )
    def test_what_it_is_not_about_is_not_comparable(
        self, old: Side, tmp_path: Path, claim: dict[str, Any], words: str
    ) -> None:
        (judged,) = pair_of(old, self.new(tmp_path, 0.6, **claim)).claims
        assert judged.verdict == "not comparable"
        assert words in judged.reason


@pytest.mark.parametrize(
    "text", ["", "e2e", "e2e:p95", "e2e:p95:5%", "e2e:p95:+5", "speed:p95:+5%", "e2e:p0:+5%", "e2e:95:+5%"]
)
def test_a_gate_that_is_none_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse_gate(text)
    assert "e2e:p95:+5%" in refused.value.remedy


def test_errors_are_of_the_kind_that_users_read() -> None:
    assert issubclass(NotComparableError, StreamproofError)
