from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from bench.errors import UsageError
from bench.report import keys
from bench.report.folder import finish
from bench.report.trust import own
from bench.report.verify import verify
from tests.report.factories import healthy_observations, healthy_records
from tests.report.folders import begun

AT = datetime(2026, 6, 24, 12, tzinfo=UTC)


def report_of(base: Path, signer: keys.Signer, *, at: datetime) -> Path:
    records = healthy_records([0.5] * 80)
    path = begun(base / "reports", records, healthy_observations(records))
    finish(path, signer=signer, now=at)
    return path


def verdict(path: Path, folder: Path) -> tuple[str, ...]:
    found = verify(path, keys.trusted_keys(allow_list=None, own_folder=folder))
    return tuple(finding.reason for finding in found.findings) or found.notes


def test_a_new_key_is_made_where_there_is_none(tmp_path: Path) -> None:
    signer = own.new(tmp_path)
    assert keys.own_signer(tmp_path).key_id == signer.key_id
    with pytest.raises(UsageError, match="there is a key already") as caught:
        own.new(tmp_path)
    assert "rotate" in caught.value.remedy


def test_rotating_without_a_key_makes_one(tmp_path: Path) -> None:
    done = own.rotate(tmp_path, "superseded", "")
    assert done.former is None
    assert keys.own_signer(tmp_path).key_id == done.signer.key_id


def test_what_the_former_key_signed_stays_trusted_and_what_it_signs_later_is_not(tmp_path: Path) -> None:
    folder = tmp_path / "keys"
    former = own.new(folder)
    before = report_of(tmp_path / "before", former, at=AT - timedelta(seconds=1))
    done = own.rotate(folder, "superseded", "a year is over", now=AT)
    assert done.former == former.key_id
    assert done.signer.key_id != former.key_id
    assert not list(folder.rglob("*.key.pem"))[1:]  # the former private half is gone
    (note,) = verdict(before, folder)
    assert note.startswith("The signer's key was revoked on 2026-06-24 (superseded, a year is over)")
    later = report_of(tmp_path / "later", former, at=AT)
    assert verdict(later, folder)[0].startswith("the signer's key had been revoked on 2026-06-24")
    assert verdict(report_of(tmp_path / "new", done.signer, at=AT), folder) == ()


def test_of_a_compromised_key_nothing_is_trusted_any_more(tmp_path: Path) -> None:
    folder = tmp_path / "keys"
    former = own.new(folder)
    before = report_of(tmp_path / "before", former, at=AT - timedelta(days=300))
    own.rotate(folder, "compromised", "the laptop was stolen", now=AT)
    (reason,) = verdict(before, folder)
    assert reason.startswith("the signer's key was revoked on 2026-06-24 (compromised, the laptop was stolen)")


def test_a_report_signed_just_before_a_rotation_counts(tmp_path: Path) -> None:
    """Times of signing are written without fractions; the key ends at the next full second."""
    folder = tmp_path / "keys"
    signer = own.new(folder)
    path = report_of(tmp_path, signer, at=datetime.now(UTC))
    own.rotate(folder, "superseded", "")
    assert verify(path, keys.trusted_keys(allow_list=None, own_folder=folder)).verified


def test_rotating_again_and_again_keeps_every_former_key(tmp_path: Path) -> None:
    first = own.new(tmp_path).key_id
    second = own.rotate(tmp_path, "superseded", "").signer.key_id
    third = own.rotate(tmp_path, "ceased", "").signer.key_id
    trust = keys.trusted_keys(allow_list=None, own_folder=tmp_path)
    assert set(trust) == {first, second, third}
    assert trust[third].origin == "your own key"
    assert {trust[first].origin, trust[second].origin} == {
        f"your former key {first[:16]}.pem",
        f"your former key {second[:16]}.pem",
    }


def test_a_rotation_that_was_cut_off_leaves_a_key_and_can_be_done_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    former = own.new(tmp_path)

    def cut_off(*_args: object, **_more: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(own, "revoke_file", cut_off)
        with pytest.raises(KeyboardInterrupt):
            own.rotate(tmp_path, "superseded", "")
    assert keys.own_signer(tmp_path).key_id == former.key_id
    assert own.rotate(tmp_path, "superseded", "").former == former.key_id
