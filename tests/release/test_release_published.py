import io
import shutil
from pathlib import Path

import pytest
from rich.console import Console

from bench.errors import Exit, StreamproofError, UsageError
from bench.release.bring import brought_here
from bench.release.progress import Progress
from bench.release.published import NotPublishableError, read_reports
from bench.report import folder_files as files
from tests.release.conftest import Reports, here


def test_a_verified_report_with_its_signer_and_the_claims_that_it_can_judge(reports: Reports) -> None:
    (published,) = read_reports([here(reports.now)], reports.trusted)
    assert published.report == reports.now.report
    assert published.key.key_id == reports.now.signer.key_id
    assert [claim.id for claim in published.judged] == ["twenty", "forty"]
    assert published.anyway == ()


def test_a_report_that_a_stranger_would_refuse_is_refused_whatever_is_allowed(reports: Reports, tmp_path: Path) -> None:
    changed = reports.now.copy(tmp_path / "changed")
    with (changed.path / files.PAGE).open("ab") as page:
        page.write(b"<!-- -->")
    for trusted, why in ((reports.trusted, "was changed after it was signed"), ({}, "a key that is not trusted here")):
        with pytest.raises(StreamproofError, match=why) as refused:
            read_reports([here(changed)], trusted, anyway=True)
        assert f"just verify {changed.path}" in refused.value.remedy
        assert refused.value.exit_code is Exit.FAILURE


def test_a_page_that_was_edited_and_signed_again_is_refused_too(reports: Reports, tmp_path: Path) -> None:
    changed = reports.now.copy(tmp_path / "changed")
    with (changed.path / files.PAGE).open("ab") as page:
        page.write(b"<!-- -->")
    changed.sign_again()
    with pytest.raises(StreamproofError, match=r"report\.html does not show what report\.json says"):
        read_reports([here(changed)], reports.trusted, anyway=True)


@pytest.mark.parametrize(("name", "why"), [("partial", "It is partial: "), ("invalid", "no request was preempted")])
def test_what_proves_nothing_is_published_only_when_asked_for(reports: Reports, name: str, why: str) -> None:
    report = here(getattr(reports, name))
    with pytest.raises(NotPublishableError, match="proves nothing") as refused:
        read_reports([report], reports.trusted)
    assert refused.value.exit_code is Exit.INVALID
    assert "--anyway" in refused.value.remedy
    (published,) = read_reports([report], reports.trusted, anyway=True)
    assert why in " ".join(published.anyway)


def test_none_and_twice_are_said(reports: Reports, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No report"):
        read_reports([], reports.trusted)
    again = here(reports.now.copy(tmp_path / "again"))
    with pytest.raises(UsageError, match="are the same report"):
        read_reports([here(reports.now), again], reports.trusted)


def test_reports_are_brought_from_archives_and_refusals_name_what_the_user_named(
    reports: Reports, tmp_path: Path
) -> None:
    packed = shutil.make_archive(str(tmp_path / "report"), "zip", reports.now.path.parent, reports.now.path.name)
    out = io.StringIO()
    progress = Progress(console=Console(file=out))
    with brought_here([packed, str(reports.other.path)], progress) as brought:
        found = read_reports(brought, reports.trusted)
        assert [each.report.target for each in found] == ["test-h200", "other-h200"]
    assert out.getvalue() == f"  reading {packed}\n  reading {reports.other.path}\n"
    (tmp_path / "page.zip").write_text("<html>")
    with (
        pytest.raises(StreamproofError, match=r"page\.zip is refused: .*a page for people"),
        brought_here([str(tmp_path / "page.zip")], progress),
    ):
        pass
