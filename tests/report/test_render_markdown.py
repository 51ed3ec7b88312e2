import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.report.build import build_report
from bench.report.model import Check
from bench.report.render.environments import plain
from bench.report.render.markdown import render_markdown
from bench.report.render.verdict import headline
from tests.report.factories import healthy, make_claim, make_evidence, make_recipe
from tests.report.folders import recipe_with_claims

LATENCIES = [0.5] * 200


def test_the_report_in_short() -> None:
    report = build_report(healthy(LATENCIES, recipe=recipe_with_claims()))
    text = render_markdown(report)
    assert text.startswith("## A test\n\n**Not reproduced: 1 of 2 comparable claims.**\n")
    assert "| 20 streams | 200 | 0 | 500 ms | 500 ms | **500 ms** | 500 to 500 ms |" in text
    assert "**reproduced**" in text
    assert "- load.turn\\_gap.mean\\_s = 4.0: the source does not say" in text
    assert f"`{report.fingerprint}`" in text
    assert text.endswith("from the raw records.\n")


def test_release_notes_count_what_cannot_be_compared_and_list_what_was_scaled_in_a_line() -> None:
    claims = [make_claim(), make_claim(id="b", hardware="B200"), make_claim(id="c", hardware="B200")]
    report = build_report(healthy(LATENCIES, recipe=make_recipe(claims=claims)))
    scaled = report.assumptions[0].model_copy(update={"kind": "scaled"})
    text = render_markdown(report.model_copy(update={"assumptions": (scaled, scaled)}))
    assert "2 published figures cannot be compared" in text
    assert "not comparable" not in text
    assert "Scaled to fit: load.turn\\_gap.mean\\_s = 4.0, load.turn\\_gap.mean\\_s = 4.0.\n" in text
    assert "### Assumed" not in text


def test_a_table_row_has_as_many_cells_as_its_head() -> None:
    lines = render_markdown(build_report(healthy(LATENCIES, recipe=recipe_with_claims()))).splitlines()
    widths = {len(re.findall(r"(?<!\\)\|", line)) for line in lines if line.startswith("| ")}
    assert widths == {11, 6}


def test_without_points_claims_or_assumptions_there_are_no_empty_tables() -> None:
    report = build_report(make_evidence([], [])).model_copy(update={"assumptions": ()})
    text = render_markdown(report)
    assert "|" not in text
    assert "Assumed" not in text


@given(st.text())
def test_a_value_stays_one_line_of_text(value: str) -> None:
    escaped = plain(value)
    assert "\n" not in escaped
    assert re.sub(r"\\([^\w\s]|_)", r"\1", escaped) == re.sub(r"\s+", " ", value).strip()
    bare = re.sub(r"\\[\\`*_{}\[\]<>#|~&$+=.)-]", "", escaped)
    assert not re.search(r"[\\`*_\[\]<>#|~&$]", bare)
    assert not re.match(r"[-+=]|\d[.)]\s", escaped)


@pytest.mark.parametrize(
    ("value", "escaped"),
    [
        ("a | b", "a \\| b"),
        ("<script>", "\\<script\\>"),
        ("[x](javascript:1)", "\\[x\\](javascript:1)"),
        ("- item", "\\- item"),
        ("1. item", "1\\. item"),
        ("1.05 s", "1.05 s"),
        ("two\nlines", "two lines"),
    ],
)
def test_what_means_something_in_markdown_is_escaped(value: str, escaped: str) -> None:
    assert plain(value) == escaped


def test_the_headline_says_the_worst_first() -> None:
    good = build_report(healthy(LATENCIES, recipe=make_recipe(claims=[make_claim()])))
    assert headline(good).says == "Reproduced: 1 of 1 comparable claim."
    assert headline(good).tone == "good"
    broken = Check(rule="no preemption", point=0, verdict="broken", measured="3", expected="0", advice="")
    invalid = good.model_copy(update={"valid": False, "checks": (broken,)})
    assert headline(invalid).says.startswith("Invalid: the measurement breaks 1 rule of its own")
    assert headline(invalid).details == ("broken: no preemption (20 streams): 3; expected 0",)
    partial = invalid.model_copy(update={"partial": True, "partial_reason": "Ctrl-C"})
    assert headline(partial).says.startswith("Partial report")
    assert headline(partial).details == ("Ctrl-C", "broken: no preemption (20 streams): 3; expected 0")
    twice = broken.model_copy(update={"point": None})
    both = invalid.model_copy(update={"checks": (broken, twice)})
    assert headline(both).details == ("broken: no preemption (20 streams, whole run)",)
    assert "breaks 1 rule of" in headline(both).says


@pytest.mark.parametrize(
    ("verdicts", "says", "tone"),
    [
        ([], "A valid measurement; its recipe has no published claim to compare with.", "plain"),
        (
            ["not comparable"],
            "A valid measurement, and no reproduction: no published claim can be compared with it.",
            "plain",
        ),
        (["not enough samples", "not comparable"], "Valid, but with too few samples to judge any claim.", "warn"),
        (["consistent with", "reproduced"], "Reproduced: 2 of 2 comparable claims.", "good"),
        (["reproduced", "not reproduced", "not enough samples"], "Not reproduced: 1 of 2 comparable claims.", "bad"),
    ],
)
def test_the_headline_of_claims(verdicts: list[str], says: str, tone: str) -> None:
    report = build_report(healthy(LATENCIES, recipe=make_recipe(claims=[make_claim()])))
    claims = tuple(report.claims[0].model_copy(update={"verdict": verdict}) for verdict in verdicts)
    found = headline(report.model_copy(update={"claims": claims}))
    assert (found.says, found.tone) == (says, tone)
