import pytest

from bench.errors import UsageError
from bench.report.keys import TrustedIdentity
from bench.report.trust.named import named_identity

ISSUER = "https://token.actions.githubusercontent.com"


def test_an_identity_with_its_issuer() -> None:
    assert named_identity(None, None) == ()
    assert named_identity("a@b.example", ISSUER) == (TrustedIdentity("a@b.example", ISSUER, "--identity"),)


@pytest.mark.parametrize(("identity", "issuer"), [("a@b.example", None), (None, ISSUER)])
def test_one_without_the_other_is_wrong_usage(identity: str | None, issuer: str | None) -> None:
    with pytest.raises(UsageError, match="belong together") as caught:
        named_identity(identity, issuer)
    assert "--issuer" in caught.value.remedy


@pytest.mark.parametrize(
    ("identity", "issuer", "option"),
    [("*", ISSUER, "--identity"), ("a@*", ISSUER, "--identity"), ("a@b.example", "issuer", "--issuer")],
)
def test_what_no_certificate_has_or_what_fits_too_many_is_wrong_usage(identity: str, issuer: str, option: str) -> None:
    with pytest.raises(UsageError, match=f"{option}: no certificate has this, or it would fit too many"):
        named_identity(identity, issuer)
