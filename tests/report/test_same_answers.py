"""The probe in a finished report: one line in each rendering, and computed again by whoever verifies it."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from rich.console import Console

from bench.observe.observations import Finished
from bench.records import Outcome
from bench.report import folder_files as files
from bench.report.build import build_report
from bench.report.render.html import render_page
from bench.report.render.markdown import render_markdown
from bench.report.render.same_answers import same_answers
from bench.summary import summary
from tests.report.factories import healthy, healthy_observations, healthy_records, make_recipe, make_started
from tests.report.folders import signed
from tests.report.probes import IDS, make_odds, make_probed, make_reply, make_trial

if TYPE_CHECKING:
    from bench.observe.observations import Observation, Probed
    from bench.records import RequestRecord
    from bench.report.evidence import Evidence

LINE = "The same request got"
SOUND = (make_probed("before"), make_probed("after"))
WRONG = make_trial(odds=(make_odds(4, {104: -0.1, 7: -3.0}),), A3=(*IDS[:4], 7, 7, 7, 7, 7, 7))
RANDOM = {"flags": {"speculative_config": '{"method": "mtp", "rejection_sample_method": "synthetic"}'}}


def evidence(*probes: Probed) -> Evidence:
    whole = healthy()
    return replace(whole, observations=(*whole.observations, *probes))


def printed(folder: Path, measured: Evidence) -> str:
    out = StringIO()
    Console(file=out, width=400).print(summary(build_report(measured), folder))
    return out.getvalue()


def test_a_sound_engine_in_one_line_everywhere() -> None:
    measured = evidence(*SOUND)
    report = build_report(measured)
    line = same_answers(report)
    assert line == f"{LINE} the same answer before and after others, from the prefix cache as without it."
    assert line in render_page(report, measured)
    assert line in render_markdown(report)
    assert line in printed(Path("r"), measured)


def test_a_wrong_answer() -> None:
    measured = evidence(make_probed("before", WRONG), SOUND[1])
    line = same_answers(build_report(measured))
    assert line.startswith(f"{LINE} another answer: two replies to the same prompt of router (another request between")
    assert line in printed(Path("r"), measured)


def test_synthetic_acceptance() -> None:
    measured = replace(evidence(*SOUND), recipe=make_recipe(engine=RANDOM))
    line = same_answers(build_report(measured))
    assert line.startswith(
        "Whether the same request gets the same answer is not applicable: drafts are accepted at random"
    )


def test_what_is_not_known_is_said_with_its_reason() -> None:
    silent = make_trial(A=None, A1=None, A2=None, B=None, A3=None)
    line = same_answers(build_report(evidence(make_probed("before", silent), make_probed("after", silent))))
    assert line.startswith("Whether the same request gets the same answer is unknown: the server does not say")
    line = same_answers(build_report(evidence(make_probed(prompt_tokens_cached=0), SOUND[1])))
    assert "; whether the prefix cache changes it is unknown: 2 of 2 pairs" in line


def test_a_lost_request() -> None:
    lost = make_trial(A1=make_reply(outcome=Outcome.CUT, error="the connection was reset"))
    line = same_answers(build_report(evidence(make_probed("before", lost), SOUND[1])))
    assert line.startswith("A request of the probe was lost: A1 of router, before the ladder: cut, the connection")


def test_before_there_was_a_probe_nothing_is_said() -> None:
    measured = evidence()
    report = build_report(measured)
    assert same_answers(report) == ""
    for text in (render_page(report, measured), render_markdown(report), printed(Path("r"), measured)):
        assert LINE not in text


@pytest.mark.parametrize(
    ("old", "new"),
    [('"A3":', '"A9":'), ("103", "999"), ('"requests_finished":5.0', '"requests_finished":6.0')],
    ids=["no such step", "another token", "another count"],
)
def test_an_edited_probe_is_refused_though_it_was_signed_again(tmp_path: Path, old: str, new: str) -> None:
    records: list[RequestRecord] = []
    observations: list[Observation] = [make_started(), SOUND[0]]
    for point in range(2):
        some = healthy_records([0.5] * 60, point=point, at=1000.0 * point)
        records += some
        observations += healthy_observations(some, point=point, at=1000.0 * point)
    report = signed(tmp_path, records, [*observations, SOUND[1], Finished(t=6000.0, run=0)])
    assert report.verify().verified
    path = report.path / files.OBSERVATIONS
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))
    report.sign_again()
    found = report.verify()
    assert not found.verified
    assert {finding.file for finding in found.findings} <= {files.REPORT, files.OBSERVATIONS}
