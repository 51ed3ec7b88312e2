import re
from datetime import UTC, date, datetime
from pathlib import Path

import pytest

from bench.errors import StreamproofError, UsageError
from bench.report.keys import key_id, own_signer, parse_public, public_pem
from bench.report.trust import edit
from bench.report.trust.allow_list import FILE, read_allow_list
from bench.report.trust.edit import Limits

DAY = date(2026, 11, 30)
LIST = """\
# Why we trust whom.

[[keys]]
whose = "the lab"  # told by phone
file = "lab.pem"

[[identities]]
identity = "https://github.com/o/r/.github/workflows/x.yml@refs/tags/*"
issuer = "https://token.actions.githubusercontent.com"
whose = "the release"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "keys"
    place.mkdir()
    (place / "lab.pem").write_bytes(public_pem(own_signer(tmp_path / "lab").public))
    (place / FILE).write_text(LIST)
    return place


def stranger(tmp_path: Path) -> Path:
    own_signer(tmp_path / "stranger")
    return tmp_path / "stranger" / "signer.pub.pem"


def test_a_key_is_copied_and_gets_its_entry_and_the_rest_stays(folder: Path, tmp_path: Path) -> None:
    pem = stranger(tmp_path)
    name = edit.add_pem(folder, pem, "Ann, met in Oslo", Limits(DAY, date(2027, 11, 30)))
    identity = key_id(parse_public(pem.read_bytes(), ""))
    assert name == f"{identity[:16]}.pem"
    assert (folder / name).read_bytes() == pem.read_bytes()
    assert (folder / FILE).read_text().startswith(LIST[: LIST.index("[[identities]]")])
    assert f'\n\n[[keys]]\nfile = "{name}"\n' in (folder / FILE).read_text()
    (_, entry) = read_allow_list(folder).keys
    assert (entry.file, entry.whose) == (name, "Ann, met in Oslo")
    assert (entry.not_before, entry.not_after) == (DAY, date(2027, 11, 30))


def test_a_folder_without_a_list_gets_one(tmp_path: Path) -> None:
    pem = stranger(tmp_path).rename(tmp_path / "ann.pem")
    assert edit.add_pem(tmp_path / "new", pem, "Ann", Limits()) == "ann.pem"
    assert [entry.whose for entry in read_allow_list(tmp_path / "new").keys] == ["Ann"]


def test_adding_twice_changes_nothing(folder: Path, tmp_path: Path) -> None:
    edit.add_pem(folder, stranger(tmp_path), "Ann", Limits())
    before = (folder / FILE).read_text()
    edit.add_pem(folder, stranger(tmp_path), "Somebody else", Limits())
    assert (folder / FILE).read_text() == before
    edit.add_identity(folder, "a@b.example", "https://i.example", "Ann", Limits())
    before = (folder / FILE).read_text()
    edit.add_identity(folder, "a@b.example", "https://i.example", "Ann", Limits())
    assert (folder / FILE).read_text() == before


def test_a_key_that_is_there_by_another_name_is_not_copied(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "again.pem").write_bytes((folder / "lab.pem").read_bytes())
    assert edit.add_pem(folder, tmp_path / "again.pem", "Somebody else", Limits()) == "lab.pem"
    assert (folder / FILE).read_text() == LIST
    assert not (folder / "again.pem").exists()


def test_another_key_of_the_same_name_is_refused(folder: Path, tmp_path: Path) -> None:
    other = stranger(tmp_path).rename(tmp_path / "lab.pem")
    with pytest.raises(UsageError, match=r"lab\.pem is another key"):
        edit.add_pem(folder, other, "Ann", Limits())


def test_what_is_no_key_is_refused_and_nothing_is_written(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "x.pem").write_text("nonsense")
    with pytest.raises(StreamproofError, match="not an ECDSA P-256 public key"):
        edit.add_pem(folder, tmp_path / "x.pem", "Ann", Limits())
    with pytest.raises(UsageError, match="cannot read the key"):
        edit.add_pem(folder, tmp_path / "none.pem", "Ann", Limits())
    assert (folder / FILE).read_text() == LIST
    assert [path.name for path in sorted(folder.iterdir())] == ["lab.pem", FILE]


@pytest.mark.parametrize(
    ("identity", "issuer", "place"),
    [("https://x/*", "https://i", "identity"), ("a@b.example", "http://i", "issuer")],
)
def test_an_identity_that_would_fit_too_many_is_refused(folder: Path, identity: str, issuer: str, place: str) -> None:
    with pytest.raises(UsageError, match=f"no such entry can be: identities.{place}"):
        edit.add_identity(folder, identity, issuer, "Ann", Limits())
    assert (folder / FILE).read_text() == LIST


def test_limits_in_the_wrong_order_are_refused(folder: Path) -> None:
    with pytest.raises(UsageError, match="not_after comes before not_before"):
        edit.add_identity(folder, "a@b.example", "https://i", "Ann", Limits(DAY, date(2026, 1, 1)))


def test_a_revoked_entry_stays_and_says_why(folder: Path) -> None:
    edit.revoke_file(folder, "lab.pem", reason="compromised", why="a stolen laptop", at=DAY)
    (entry,) = read_allow_list(folder).keys
    assert entry.validity.revoked is not None
    assert entry.validity.revoked.at == datetime(2026, 11, 30, tzinfo=UTC)
    assert str(entry.validity.revoked) == "compromised, a stolen laptop"
    text = (folder / FILE).read_text()
    assert "# told by phone" in text
    assert re.search(r'revoked = \{ ?on = 2026-11-30, ?reason = "compromised"', text)


def test_a_key_without_an_entry_can_be_revoked_too(folder: Path, tmp_path: Path) -> None:
    stranger(tmp_path).rename(folder / "ann.pem")
    edit.revoke_file(folder, "ann.pem", reason="ceased", why="", at=DAY)
    assert [entry.validity.revoked is not None for entry in read_allow_list(folder).keys] == [False, True]


def test_an_identity_can_be_revoked(folder: Path) -> None:
    name = read_allow_list(folder).identities[0].identity
    edit.revoke_identity(folder, name, reason="superseded", why="", at=DAY)
    assert read_allow_list(folder).identities[0].validity.revoked is not None
    with pytest.raises(UsageError, match="names no identity nobody@x"):
        edit.revoke_identity(folder, "nobody@x", reason="superseded", why="", at=DAY)


def test_a_key_is_named_by_its_file_or_the_beginning_of_its_id(folder: Path, tmp_path: Path) -> None:
    identity = own_signer(tmp_path / "lab").key_id
    for name in ("lab.pem", "lab", identity, identity[:8], identity[:16].upper()):
        assert edit.entry_file(folder, name) == "lab.pem"
    for name in ("ann", identity[:7], "0" * 64):
        with pytest.raises(UsageError, match="has no key called"):
            edit.entry_file(folder, name)


def test_a_list_that_cannot_be_read_is_not_written_over(folder: Path) -> None:
    (folder / FILE).write_text("[[keys]")
    with pytest.raises(StreamproofError, match="cannot be used"):
        edit.add_identity(folder, "a@b.example", "https://i", "Ann", Limits())
    assert (folder / FILE).read_text() == "[[keys]"
