"""`just attach` as a maintainer runs it, against a GitHub on loopback."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from bench.errors import Exit, StreamproofError, UsageError
from bench.release.attach import ASSET_LIMIT, attach
from bench.release.body import BEGIN, END
from bench.release.client import Client
from bench.release.command import Wanted, attach_reports
from bench.release.notes import Asset, Contents
from bench.release.place import Place
from bench.release.progress import Progress
from bench.release.upload import ConflictError
from bench.release.wishes import Wishes
from bench.report import folder_files as files
from bench.report.intake import place as intake
from bench.report.intake.place import brought
from bench.report.verify import verify
from tests.release.conftest import Reports
from tests.release.github_server import AT_ONCE, REPOSITORY, TOKEN, Fault, GitHub
from tests.report.folders import Signed


def run(
    github: GitHub, *which: Signed, tag: str = "v1", anyway: bool = False, api: str | None = None, **wishes: bool
) -> Exit:
    return attach_reports(
        tag,
        Wanted(
            reports=[str(each.path) for each in which],
            keys=[each.path / files.SIGNER for each in which],
            anyway=anyway,
        ),
        Wishes(**wishes),
        repository=REPOSITORY,
        api=api or github.api,
        patience=AT_ONCE,
        as_json=True,
    )


def told(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    outcome: dict[str, Any] = json.loads(capsys.readouterr().out)
    return outcome


def actions(outcome: dict[str, Any]) -> dict[str, int]:
    found = [each["action"] for each in outcome["assets"]]
    return {action: found.count(action) for action in found}


@pytest.mark.parametrize("enterprise", [False, True])
def test_attached_twice_is_attached_once(
    reports: Reports, github: GitHub, enterprise: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    github.enterprise, github.page = enterprise, 2
    release = github.release("v1", name=None, body="# What is new\n\nMuch.", prerelease=True)
    assert run(github, reports.now, reports.other) == Exit.OK
    assert actions(told(capsys)) == {"upload": 4}
    assert release.body is not None
    assert release.body.startswith(f"# What is new\n\nMuch.\n\n{BEGIN}\n## Measured")
    assert (release.prerelease, release.draft) == (True, False)
    zipped = next(each.name for each in release.assets if each.name.endswith(".zip"))
    assert github.download_url("v1", zipped) in release.body
    assert {each.media_type for each in release.assets} == {"application/zip", "image/svg+xml", "text/plain"}
    before = len(github.writes())
    assert run(github, reports.now, reports.other) == Exit.OK
    outcome = told(capsys)
    assert actions(outcome) == {"leave alone": 4}
    assert outcome["notes_changed"] is False
    assert len(github.writes()) == before


def test_from_its_public_address_a_report_verifies(
    reports: Reports, github: GitHub, capsys: pytest.CaptureFixture[str]
) -> None:
    github.release("v1")
    run(github, reports.now)
    addresses = [each["url"] for each in told(capsys)["assets"]]
    (address,) = [each for each in addresses if each.endswith(".zip")]
    with brought(address, intake.Wishes(), lambda _done, _of: None) as there:
        assert verify(there.folder, reports.now.trusted).verified
        assert not verify(there.folder, reports.other.trusted).verified


def test_a_draft_is_made_when_asked_for_found_again_and_stays_one(
    reports: Reports, github: GitHub, capsys: pytest.CaptureFixture[str]
) -> None:
    github.page = 2
    for number in range(5):
        github.release(f"other-{number}", draft=True)
    with pytest.raises(StreamproofError, match="has no release v1") as refused:
        run(github, reports.now)
    assert "--create" in refused.value.remedy
    assert github.writes() == []
    run(github, reports.now, create=True)
    outcome = told(capsys)
    assert (outcome["created"], outcome["draft"]) == (True, True)
    run(github, reports.now, create=True)
    outcome = told(capsys)
    assert (outcome["created"], outcome["draft"]) == (False, True)
    (release,) = [each for each in github.releases.values() if each.tag == "v1"]
    assert release.draft
    assert release.name == "v1"
    assert (release.body or "").startswith(BEGIN)


def test_what_somebody_else_changes_meanwhile_stays(reports: Reports, github: GitHub) -> None:
    release = github.release("v1", draft=True, name="theirs")

    def publish() -> None:
        release.draft, release.name, release.prerelease = False, "published", True
        release.body = "written meanwhile"

    github.faults.append(Fault("POST", r"name=.*\.zip", None, does=publish))
    assert run(github, reports.now) == Exit.OK
    assert (release.draft, release.name, release.prerelease) == (False, "published", True)
    assert (release.body or "").startswith(f"written meanwhile\n\n{BEGIN}")


def test_two_drafts_of_one_tag_are_told(reports: Reports, github: GitHub) -> None:
    github.release("v1", draft=True)
    github.release("v1", draft=True)
    with pytest.raises(StreamproofError, match="2 drafts have the tag v1"):
        run(github, reports.now, create=True)
    assert github.writes() == []


def test_another_file_of_a_name_is_replaced_only_when_asked_for(
    reports: Reports, github: GitHub, capsys: pytest.CaptureFixture[str]
) -> None:
    release = github.release("v1")
    github.add(release, "streamproof-SHA256SUMS", b"another")
    github.add(release, "SHA256SUMS", b"the project's own")
    with pytest.raises(ConflictError, match="streamproof-SHA256SUMS") as refused:
        run(github, reports.now)
    assert "--replace" in refused.value.remedy
    assert github.writes() == []
    assert run(github, reports.now, dry_run=True) == Exit.FAILURE
    assert actions(told(capsys)) == {"upload": 2, "conflict": 1}
    assert github.writes() == []
    assert run(github, reports.now, replace=True) == Exit.OK
    assert actions(told(capsys)) == {"upload": 2, "replace": 1}
    contents = {each.name: each.content for each in release.assets}
    assert b"streamproof-p95.svg" in contents["streamproof-SHA256SUMS"]
    assert contents["SHA256SUMS"] == b"the project's own"


def test_what_somebody_uploads_between_looking_and_sending_is_not_removed(
    reports: Reports, github: GitHub, capsys: pytest.CaptureFixture[str]
) -> None:
    release = github.release("v1")
    name = "streamproof-p95.svg"
    github.faults.append(Fault("POST", r"name=.*\.zip", None, does=lambda: github.add(release, name, b"theirs")))
    with pytest.raises(ConflictError, match=re.escape(name)):
        run(github, reports.now)
    assert {each.name: each.content for each in release.assets}[name] == b"theirs"
    assert "DELETE" not in [method for method, _ in github.writes()]
    assert capsys.readouterr().out == ""


def test_an_upload_that_was_cut_off_is_completed(
    reports: Reports, github: GitHub, capsys: pytest.CaptureFixture[str]
) -> None:
    release = github.release("v1")
    github.add(release, "streamproof-p95.svg", b"", state="starter")
    run(github, reports.now)
    assert actions(told(capsys)) == {"upload": 2, "complete": 1}
    assert all(each.state == "uploaded" for each in release.assets)
    assert sorted({each.name for each in release.assets}) == sorted(each.name for each in release.assets)


@pytest.mark.parametrize("there", [True, False])
def test_a_dry_run_changes_nothing(
    reports: Reports, github: GitHub, there: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    if there:
        github.release("v1", body="mine")
    assert run(github, reports.now, dry_run=True, create=True) == Exit.OK
    outcome = told(capsys)
    assert (outcome["dry_run"], outcome["created"], outcome["notes_changed"]) == (True, not there, True)
    assert actions(outcome) == {"upload": 3}
    assert github.writes() == []


def test_the_section_is_replaced_and_nothing_around_it(
    reports: Reports, github: GitHub, capsys: pytest.CaptureFixture[str]
) -> None:
    release = github.release("v1", body=f"before\r\n\r\n{BEGIN}\r\nan older section\r\n{END}\r\nafter")
    run(github, reports.now)
    assert told(capsys)["notes_changed"] is True
    assert release.body is not None
    assert release.body.startswith(f"before\r\n\r\n{BEGIN}\n## Measured")
    assert release.body.endswith(f"{END}\r\nafter")
    assert "an older section" not in release.body


def test_a_body_with_edited_marks_stops_everything_beforehand(reports: Reports, github: GitHub) -> None:
    github.release("v1", body=BEGIN)
    with pytest.raises(StreamproofError, match="has not one"):
        run(github, reports.now)
    assert github.writes() == []


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        (Fault("GET", "/repos/acme/voice$", 401, "Bad credentials"), "wrong, expired or revoked"),
        (Fault("GET", "/repos/acme/voice$", 404, "Not Found"), "cannot see it"),
        (Fault("POST", r"/assets\?", 403, "Resource not accessible by personal access token"), "may not do this"),
        (Fault("POST", r"/assets\?", 422, "Cannot upload assets to an immutable release."), "immutable"),
        (Fault("PATCH", "/releases/", 403, "Resource not accessible by integration"), "may not do this"),
        (Fault("GET", "/releases/tags/", 503, "Service Unavailable", times=9), "it answers with an error each time"),
    ],
)
def test_what_github_refuses_is_told_with_what_to_do(
    reports: Reports, github: GitHub, fault: Fault, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    github.release("v1")
    github.faults.append(fault)
    with pytest.raises(StreamproofError) as refused:
        run(github, reports.now)
    assert refused.value.exit_code is Exit.FAILURE
    text = f"{refused.value.message} {refused.value.remedy}"
    assert github.api in text
    assert says in text
    assert TOKEN not in text
    assert TOKEN not in capsys.readouterr().err


def test_what_was_done_before_a_failure_is_not_done_again(
    reports: Reports, github: GitHub, capsys: pytest.CaptureFixture[str]
) -> None:
    github.release("v1")
    github.faults.append(Fault("PATCH", "/releases/", 403, "Resource not accessible by integration"))
    with pytest.raises(StreamproofError):
        run(github, reports.now)
    assert run(github, reports.now) == Exit.OK
    assert actions(told(capsys)) == {"leave alone": 3}
    assert sum(method == "POST" for method, _ in github.writes()) == 3


def test_a_server_that_is_not_there_is_told(reports: Reports, github: GitHub) -> None:
    with pytest.raises(StreamproofError, match="the connection fails") as refused:
        run(github, reports.now, api="http://127.0.0.1:9/api/v3")
    assert "--api-url" in refused.value.remedy


def test_an_invalid_report_is_refused_before_github_is_asked(reports: Reports, github: GitHub) -> None:
    github.release("v1")
    with pytest.raises(StreamproofError) as refused:
        run(github, reports.invalid)
    assert refused.value.exit_code is Exit.INVALID
    assert github.asked == []
    assert run(github, reports.invalid, anyway=True) == Exit.OK


def test_without_a_token_nothing_begins(reports: Reports, github: GitHub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GITHUB_TOKEN")
    with pytest.raises(StreamproofError, match="GITHUB_TOKEN is not set"):
        run(github, reports.now)
    assert github.asked == []


def test_without_the_extra_it_says_how_to_get_it(
    reports: Reports, github: GitHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "bench.release.attach")
    monkeypatch.setitem(sys.modules, "github", None)
    with pytest.raises(StreamproofError, match="github is not installed") as refused:
        run(github, reports.now)
    assert "--extra release" in refused.value.remedy


def test_a_file_that_github_would_not_take_is_told_beforehand(github: GitHub, tmp_path: Path) -> None:
    large = tmp_path / "streamproof-large.zip"
    with large.open("wb") as file:
        file.truncate(ASSET_LIMIT)
    contents = Contents((), {}, (), None, Asset(large, "0" * 64, "application/zip"))
    with (
        Client(Place(REPOSITORY, github.api), TOKEN, AT_ONCE) as client,
        pytest.raises(StreamproofError, match="2 GiB"),
    ):
        attach(client, "v1", contents, Wishes(), Progress(quiet=True))
    assert github.asked == []


def test_no_report_is_a_usage_error(github: GitHub) -> None:
    with pytest.raises(UsageError, match="No report"):
        run(github)
