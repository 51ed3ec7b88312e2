from datetime import UTC, datetime
from pathlib import Path

import pytest

from bench.errors import StreamproofError
from bench.report.keys import key_id, own_signer, parse_public, public_pem, trusted_keys
from bench.report.trust.allow_list import FILE, AllowList, read_allow_list
from bench.report.trust.own import rotate
from bench.report.trust.validity import ALWAYS, Reason, Revocation, Validity
from bench.report.verify_show import ALLOW_LIST


def written(folder: Path, text: str) -> Path:
    """An allow list with one key in it, `a.pem`."""
    folder.mkdir(exist_ok=True)
    (folder / "a.pem").write_bytes(public_pem(own_signer(folder.parent / "somebody").public))
    (folder / FILE).write_text(text)
    return folder


def test_days_are_whole_days_in_utc_and_moments_are_moments(tmp_path: Path) -> None:
    folder = written(
        tmp_path / "keys",
        """
        [[keys]]
        file = "a.pem"
        whose = "the lab"
        not_before = 2026-11-30
        not_after = 2027-11-30
        revoked = { on = 2027-01-01, reason = "ceased", why = "left" }

        [[identities]]
        identity = "https://github.com/o/r/.github/workflows/x.yml@refs/tags/*"
        issuer = "https://token.actions.githubusercontent.com"
        whose = "the release"
        not_after = 2027-01-01T12:00:00+01:00
        """,
    )
    found = read_allow_list(folder)
    assert found.keys[0].validity == Validity(
        not_before=datetime(2026, 11, 30, tzinfo=UTC),
        not_after=datetime(2027, 12, 1, tzinfo=UTC),
        revoked=Revocation(datetime(2027, 1, 1, tzinfo=UTC), "ceased", "left"),
    )
    assert found.identities[0].validity == Validity(not_after=datetime(2027, 1, 1, 11, tzinfo=UTC))


def test_without_the_file_nobody_is_limited_and_nobody_is_named(tmp_path: Path) -> None:
    assert read_allow_list(tmp_path) == AllowList()
    folder = written(tmp_path / "keys", "")
    (key,) = trusted_keys(allow_list=folder, own_folder=tmp_path / "none").values()
    assert (key.origin, key.validity) == ("keys/a.pem", ALWAYS)


IDENTITY = 'identity = "{}"\nissuer = "{}"\nwhose = "x"'


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[[keys]", "Expected"),
        ("[[keys]]\nfile = 'a.pem'", "keys.0.whose: Field required"),
        ("[[keys]]\nfile = 'a.pem'\nwhose = ''", "keys.0.whose"),
        ("[[keys]]\nfile = '../a.pem'\nwhose = 'x'", "keys.0.file"),
        ("[[keys]]\nfile = 'b.pem'\nwhose = 'x'", "it names b.pem, which is not there"),
        ("[[keys]]\nfile = 'a.pem'\nwhose = 'x'\n[[keys]]\nfile = 'a.pem'\nwhose = 'y'", "a.pem stands in it twice"),
        ("[[keys]]\nfile = 'a.pem'\nwhose = 'x'\nuntil = 2027-01-01", "keys.0.until"),
        ("[[keys]]\nfile = 'a.pem'\nwhose = 'x'\nnot_after = '2027-01-01'", "keys.0.not_after"),
        ("[[keys]]\nfile = 'a.pem'\nwhose = 'x'\nnot_after = 2027-01-01T00:00:00", "keys.0.not_after"),
        (
            "[[keys]]\nfile = 'a.pem'\nwhose = 'x'\nnot_before = 2027-01-02\nnot_after = 2027-01-01",
            "not_after comes before not_before",
        ),
        ("[[keys]]\nfile = 'a.pem'\nwhose = 'x'\nrevoked = { on = 2027-01-01 }", "keys.0.revoked.reason"),
        ("[[keys]]\nfile = 'a.pem'\nwhose = 'x'\nrevoked = { on = 2027-01-01, reason = 'tired' }", "revoked.reason"),
        ("[[identities]]\n" + IDENTITY.format("*", "https://i"), "identities.0.identity"),
        ("[[identities]]\n" + IDENTITY.format("https://a/*", "https://i"), "identities.0.identity"),
        ("[[identities]]\n" + IDENTITY.format("https://a/b@*", "https://i"), "identities.0.identity"),
        ("[[identities]]\n" + IDENTITY.format("https://a/b@*c", "https://i"), "identities.0.identity"),
        ("[[identities]]\n" + IDENTITY.format("a@*", "https://i"), "identities.0.identity"),
        ("[[identities]]\n" + IDENTITY.format("a@b.example", "http://i"), "identities.0.issuer"),
    ],
)
def test_what_nobody_would_mean_is_an_error_that_names_the_place(tmp_path: Path, text: str, why: str) -> None:
    folder = written(tmp_path / "keys", text)
    with pytest.raises(StreamproofError, match=r"trust\.toml cannot be used: ") as caught:
        read_allow_list(folder)
    assert why in caught.value.message
    assert "README.md" in caught.value.remedy


def test_a_limit_counts_whoever_names_the_key(tmp_path: Path) -> None:
    """Your own key, and one on the command line, are no more trusted than the list says."""
    own = own_signer(tmp_path / "somebody")
    folder = written(tmp_path / "keys", "[[keys]]\nfile = 'a.pem'\nwhose = 'x'\nnot_after = 2027-01-01")
    for trust in (
        trusted_keys(allow_list=folder, own_folder=tmp_path / "somebody"),
        trusted_keys(allow_list=folder, extra=[tmp_path / "somebody" / "signer.pub.pem"], own_folder=tmp_path),
    ):
        assert trust[own.key_id].validity.not_after == datetime(2027, 1, 2, tzinfo=UTC)


def test_a_compromised_key_is_trusted_for_nothing(tmp_path: Path) -> None:
    own = own_signer(tmp_path / "somebody")
    revoked = "revoked = { on = 2027-01-01, reason = 'compromised' }"
    folder = written(tmp_path / "keys", f"[[keys]]\nfile = 'a.pem'\nwhose = 'x'\n{revoked}")
    trust = trusted_keys(
        allow_list=folder, extra=[tmp_path / "somebody" / "signer.pub.pem"], own_folder=tmp_path / "somebody"
    )
    assert dict(trust) == {}
    assert list(trust.compromised) == [own.key_id]


@pytest.mark.parametrize(
    ("mine", "theirs", "counts"),
    [
        ("superseded", "not_after = 2099-01-01", "superseded"),
        ("superseded", "revoked = { on = 2027-01-01, reason = 'compromised' }", "compromised"),
        ("compromised", "revoked = { on = 2027-01-01, reason = 'ceased' }", "compromised"),
    ],
)
def test_of_two_lists_the_stricter_counts(tmp_path: Path, mine: Reason, theirs: str, counts: str) -> None:
    former = own_signer(tmp_path / "somebody").key_id
    folder = written(tmp_path / "keys", f"[[keys]]\nfile = 'a.pem'\nwhose = 'x'\n{theirs}")
    rotate(tmp_path / "somebody", mine, "")
    trust = trusted_keys(allow_list=folder, own_folder=tmp_path / "somebody")
    key = {**trust, **trust.compromised}[former]
    assert key.validity.revoked is not None
    assert key.validity.revoked.reason == counts


def test_the_list_of_this_checkout_can_be_read_and_names_every_key() -> None:
    listed = read_allow_list(ALLOW_LIST)
    assert {entry.file for entry in listed.keys} == {path.name for path in ALLOW_LIST.glob("*.pem")}
    for path in ALLOW_LIST.glob("*.pem"):
        assert len(key_id(parse_public(path.read_bytes(), path.name))) == 64
