import json
from pathlib import Path

import pytest

from bench.errors import Exit, UsageError
from bench.report import folder_files as files
from bench.report import keys, verify_show, verify_words
from bench.report import verify as verification
from tests.report.factories import healthy_observations, healthy_records, make_started
from tests.report.folders import Signed, signed

Output = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Signed:
    records = healthy_records([0.5] * 100)
    return signed(tmp_path_factory.mktemp("show"), records, [make_started(), *healthy_observations(records)])


@pytest.fixture(autouse=True)
def nobody(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No key of this machine's user, and no allow list but the test's."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setattr(verify_show, "ALLOW_LIST", tmp_path / "keys")
    monkeypatch.setenv("COLUMNS", "200")


def test_a_verified_report_is_printed_with_what_that_means_and_does_not_mean(honest: Signed, capsys: Output) -> None:
    assert verify_show.check_and_show(honest.path, [honest.path / files.SIGNER]) == Exit.OK
    text = capsys.readouterr().out
    assert f"VERIFIED  {honest.report.title}" in text
    assert f"signed by {honest.signer.key_id} ({honest.path / files.SIGNER})" in text
    assert honest.report.fingerprint in text
    assert "Partial report" in text  # a verified report may say anything; that comes with it
    for line in verify_words.MEANS + verify_words.MEANS_NOT:
        assert line in text
    assert text.count("  passed  ") == len(verification.STEPS)


def test_the_allow_list_of_the_checkout_is_trusted(honest: Signed, tmp_path: Path, capsys: Output) -> None:
    (tmp_path / "keys").mkdir()
    (tmp_path / "keys" / "ci.pem").write_bytes((honest.path / files.SIGNER).read_bytes())
    assert verify_show.check_and_show(honest.path, []) == Exit.OK
    assert "(keys/ci.pem)" in capsys.readouterr().out


def test_an_unknown_key_is_refused_with_what_to_do(honest: Signed, capsys: Output) -> None:
    assert verify_show.check_and_show(honest.path, []) == Exit.FAILURE
    text = capsys.readouterr().out
    assert f"REFUSED: {honest.path}" in text
    assert honest.signer.key_id in text
    assert "pass signer.pub.pem with --key" in text
    assert "VERIFIED" not in text
    assert verify_words.MEANS[0] not in text


def test_a_changed_file_is_named(honest: Signed, tmp_path: Path, capsys: Output) -> None:
    copy = honest.copy(tmp_path / "copy")
    (copy.path / files.PAGE).write_text("<h1>The fastest</h1>")
    assert verify_show.check_and_show(copy.path, [copy.path / files.SIGNER]) == Exit.FAILURE
    assert "report.html was changed after it was signed" in capsys.readouterr().out


def test_the_outcome_for_scripts(honest: Signed, tmp_path: Path, capsys: Output) -> None:
    assert verify_show.check_and_show(honest.path, [honest.path / files.SIGNER], as_json=True) == Exit.OK
    good = json.loads(capsys.readouterr().out)
    assert (good["verified"], good["findings"], good["key"]["id"]) == (True, [], honest.signer.key_id)
    assert good["report"] == {"title": honest.report.title, "valid": honest.report.valid}
    assert verify_show.check_and_show(tmp_path / "none", [], as_json=True) == Exit.FAILURE
    bad = json.loads(capsys.readouterr().out)
    assert (bad["verified"], bad["passed"], bad["key"], bad["report"]) == (False, [], None, None)
    assert "cannot be opened" in bad["findings"][0]["reason"]


def test_markup_in_a_report_is_printed_as_it_is(tmp_path: Path, capsys: Output) -> None:
    (tmp_path / "[bold red]x[").write_text("")
    assert verify_show.check_and_show(tmp_path, []) == Exit.FAILURE
    assert "[bold red]x[" in capsys.readouterr().out


def test_a_key_file_that_is_not_there_is_wrong_usage(honest: Signed, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"gone\.pem"):
        verify_show.check_and_show(honest.path, [tmp_path / "gone.pem"])
    assert not keys.keys_folder().exists()
