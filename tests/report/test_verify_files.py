import os
from pathlib import Path

import pytest

from bench.report import folder_files as files
from bench.report import verify_files
from bench.report.verify_files import Finding, HostileFolder, RefusedError, shown


def refused(folder: Path) -> dict[str, str]:
    with HostileFolder(folder) as opened, pytest.raises(RefusedError) as caught:
        opened.names()
    return {finding.file: finding.reason for finding in caught.value.findings}


def test_names_of_an_honest_folder(tmp_path: Path) -> None:
    honest = sorted(
        [*files.EVIDENCE, *files.RENDERED, *files.UNSIGNED, "engine-0.log", "engine-12.log", "engine-0-replica-1.log"]
    )
    for name in honest:
        (tmp_path / name).write_text(name)
    with HostileFolder(tmp_path) as opened:
        assert list(opened.names()) == honest
        assert opened.read(files.REPORT) == b"report.json"
        assert opened.sha256("engine-0.log") == files.sha256(b"engine-0.log")


@pytest.mark.parametrize(
    "name",
    [
        "evil.sh",
        "engine-01.log",
        "engine-0-replica-0.log",
        "engine-0-replica-100.log",
        "engine-replica-1.log",
        "engine-99999.log",
        "engine-0.log.gz",
        "REPORT.JSON",
        "report.json ",
        "\x1b[2Jreport.json",
    ],
)
def test_a_name_that_no_report_has_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("")
    assert refused(tmp_path) == {shown(name): "no report has a file of this name"}


def test_a_run_that_is_not_finished_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / files.RUNNING_RECORDS).write_text("")
    with HostileFolder(tmp_path) as opened, pytest.raises(RefusedError) as caught:
        opened.names()
    assert "still going on, or was cut off" in caught.value.findings[0].reason
    assert "just finish" in caught.value.findings[0].remedy


def test_a_hostile_name_is_printed_without_control_characters(tmp_path: Path) -> None:
    (tmp_path / "\x1b[31m\n\u202egnp.exe").write_text("")
    (name,) = refused(tmp_path)
    assert name.isascii()
    assert name.isprintable()


def test_a_link_is_refused_wherever_it_leads(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text("secret")
    folder = tmp_path / "report"
    folder.mkdir()
    (folder / files.REPORT).symlink_to(tmp_path / "elsewhere")
    (folder / files.PAGE).symlink_to("no/such/file")
    assert set(refused(folder)) == {files.REPORT, files.PAGE}
    assert "symbolic link" in refused(folder)[files.REPORT]
    with HostileFolder(folder) as opened, pytest.raises(RefusedError, match="cannot be opened"):
        opened.read(files.REPORT)


def test_a_folder_a_pipe_and_a_socket_are_no_files(tmp_path: Path) -> None:
    (tmp_path / files.REPORT).mkdir()
    os.mkfifo(tmp_path / files.PAGE)
    assert refused(tmp_path) == {files.PAGE: "is no plain file", files.REPORT: "is no plain file"}
    with HostileFolder(tmp_path) as opened:
        for name in (files.REPORT, files.PAGE):
            with pytest.raises(RefusedError, match="no plain file"):
                opened.read(name)


def test_a_file_larger_than_its_kind_may_be_is_not_read(tmp_path: Path) -> None:
    for name, limit in verify_files.LIMITS.items():
        with (tmp_path / name).open("wb") as file:
            file.truncate(limit + 1)  # sparse: takes no space
    found = refused(tmp_path)
    assert set(found) == set(verify_files.LIMITS)
    assert found[files.REPORT] == "is larger than 16,384 KiB, the most that a file of its kind may be"
    with HostileFolder(tmp_path) as opened, pytest.raises(RefusedError, match="larger than"):
        opened.read(files.RECORDS)


def test_a_file_that_grows_while_it_is_read_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / files.MARKDOWN).write_bytes(b"x" * 100)
    (tmp_path / "engine-0.log").write_bytes(b"x" * 100)
    monkeypatch.setattr(verify_files.HostileFolder, "_fault", staticmethod(lambda _name, _status: None))
    monkeypatch.setitem(verify_files.LIMITS, files.MARKDOWN, 99)
    monkeypatch.setattr(verify_files, "ENGINE_LOG_LIMIT", 99)
    with HostileFolder(tmp_path) as opened:
        with pytest.raises(RefusedError, match="larger than"):
            opened.read(files.MARKDOWN)
        with pytest.raises(RefusedError, match="larger than"):
            opened.sha256("engine-0.log")


def test_a_path_out_of_the_folder_is_never_opened(tmp_path: Path) -> None:
    (tmp_path / "outside").write_text("secret")
    (tmp_path / "report").mkdir()
    with HostileFolder(tmp_path / "report") as opened:
        for name in ("../outside", str(tmp_path / "outside"), ".", ""):
            with pytest.raises(RefusedError, match="no report has a file of this name"):
                opened.read(name)
            with pytest.raises(RefusedError, match="no report has a file of this name"):
                opened.sha256(name)


def test_too_many_entries_are_not_all_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verify_files, "FILE_COUNT_LIMIT", 5)
    for run in range(6):
        (tmp_path / f"engine-{run}.log").write_text("")
    assert refused(tmp_path) == {".": "more than 5 entries"}


def test_a_missing_file_and_a_missing_folder_are_named(tmp_path: Path) -> None:
    with HostileFolder(tmp_path) as opened, pytest.raises(RefusedError) as caught:
        opened.read(files.REPORT)
    assert caught.value.findings == (Finding(files.REPORT, "is missing"),)
    for place in (tmp_path / "none", Path("/etc/hostname")):
        with pytest.raises(RefusedError, match="cannot be opened as a folder"), HostileFolder(place):
            pass


def test_all_files_together_have_a_limit(tmp_path: Path) -> None:
    for run in range(5):
        with (tmp_path / f"engine-{run}.log").open("wb") as file:
            file.truncate(verify_files.ENGINE_LOG_LIMIT)  # sparse: takes no space, but hours to hash
    assert refused(tmp_path) == {".": "the files have more than 2,048 MiB together"}


def test_a_finding_never_commands_a_terminal() -> None:
    found = Finding("\x1b[2J", "says \u202e and \ud800 " + "x" * 10_000)
    assert (found.file, found.reason[:23]) == ("\\x1b[2J", "says \\u202e and \\ud800 ")
    assert len(found.reason) == 600
