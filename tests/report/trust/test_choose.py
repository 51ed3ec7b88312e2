from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from bench.report import keys, verify_show
from bench.report.trust import edit, own
from bench.report.trust.choose import attester, can_sign
from bench.report.trust.edit import Limits
from bench.report.trust.means import Means
from bench.report.trust.validity import Reason


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The allow list of a checkout, and a user who has no key yet."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setattr(verify_show, "ALLOW_LIST", tmp_path / "keys")
    return tmp_path / "keys"


def said() -> list[str]:
    lines: list[str] = []
    can_sign(Means.KEY, lines.append)
    return lines


def test_a_key_signs_and_is_made_where_there_is_none(folder: Path) -> None:
    assert said() == []
    assert not keys.keys_folder().exists()
    with attester(Means.KEY, pytest.fail) as signer:
        assert isinstance(signer, keys.Signer)
    assert keys.own_signer().key_id == signer.key_id
    assert said() == []
    assert not folder.exists()


def test_a_key_that_has_expired_here_is_told_before_it_signs(folder: Path) -> None:
    own.new(keys.keys_folder())
    pem = keys.keys_folder() / keys.PUBLIC_NAME
    edit.add_pem(folder, pem, "us", Limits(None, datetime.now(UTC).date() + timedelta(days=2)))
    assert said() == []
    (folder / "trust.toml").unlink()
    edit.add_pem(folder, pem, "us", Limits(None, date(2026, 1, 31)))
    (line,) = said()
    assert line.startswith("What your key signs will be refused: the signer's key had expired: ")
    assert line.endswith("Exchange it: just keys rotate")


@pytest.mark.parametrize("reason", ["compromised", "superseded"])
def test_a_key_that_was_revoked_here_is_told(folder: Path, reason: Reason) -> None:
    signer = own.new(keys.keys_folder())
    edit.add_pem(folder, keys.keys_folder() / keys.PUBLIC_NAME, "us", Limits())
    edit.revoke_file(folder, f"{signer.key_id[:16]}.pem", reason=reason, why="", at=date(2026, 1, 31))
    assert "revoked on 2026-01-31" in said()[0]
    own.rotate(keys.keys_folder(), reason, "")
    assert said() == []


def test_a_list_that_cannot_be_read_is_told_and_hinders_nobody(folder: Path) -> None:
    folder.mkdir()
    (folder / "trust.toml").write_text("[[keys]")
    (line,) = said()
    assert "trust.toml cannot be used" in line
