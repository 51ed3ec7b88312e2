"""Signs keyless: an authority makes out a certificate to an identity, and a public log keeps what was signed.

No key is kept anywhere. Who holds a token of an OpenID provider (a job of GitHub Actions, or `SIGSTORE_ID_TOKEN`) gets
a certificate for a key that is used now and then thrown away; sigstore's library does all of it (the extra `release`).
What it publishes stays public for ever, so it is done only where somebody asked for it, and said before it is done.
"""

from __future__ import annotations

import json
import os
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Final

from bench.errors import StreamproofError
from bench.report.folder_files import canonical_json
from bench.report.trust import instance as instances
from bench.report.trust.keyless_verify import p256

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from cryptography.hazmat.primitives.asymmetric import ec
    from sigstore.oidc import IdentityToken
    from sigstore.sign import Signer

VARIABLE: Final = "SIGSTORE_ID_TOKEN"
"""Environment variable with an identity token whose audience is `sigstore`. Without it, the token of a job of GitHub
Actions, GitLab, Google Cloud, Buildkite or CircleCI is asked for, where we run as one."""
_GET_ONE: Final = (
    "In GitHub Actions give the job `permissions: id-token: write`; elsewhere put a token for the audience `sigstore` "
    f"into {VARIABLE}. Or sign with a key."
)


class Keyless:
    """Signs in the name of an identity. Made by `keyless`.

    Args:
        signer: of sigstore's library, with a certificate.
    """

    def __init__(self, signer: Signer) -> None:
        self._signer = signer
        self._public: ec.EllipticCurvePublicKey | None = None

    @property
    def public(self) -> ec.EllipticCurvePublicKey:
        """The certificate's key; known once something was signed."""
        if self._public is None:
            raise RuntimeError("nothing was signed yet")
        return self._public

    def attest(self, payload: bytes, *, hint: str = "") -> bytes:  # noqa: ARG002  a certificate needs no name of a key
        """See `bench.report.keys.Attester`."""
        from sigstore.dsse import Statement  # noqa: PLC0415  an extra: only keyless signatures need it

        try:
            bundle = self._signer.sign_dsse(Statement(payload))
            self._public = p256(bundle)
        except Exception as error:  # of the network, the log, the library: there are many kinds
            raise _failed("the signature could not be put into the public log", error) from error
        return canonical_json(json.loads(bundle.to_json()))


def can_sign() -> None:
    """Returns when there is what a keyless signature needs: the package, and a token. Nothing is published.

    Raises:
        StreamproofError: says what is missing.
    """
    try:
        import sigstore.sign  # noqa: F401, PLC0415  is it installed?
    except ImportError as error:
        raise instances.not_installed() from error
    _token()


@contextmanager
def keyless(instance: Path | None, say: Callable[[str], None]) -> Iterator[Keyless]:
    """A signer in the name of whoever the token names.

    Args:
        instance: file that describes the Sigstore instance; None for the public one.
        say: takes lines for people: what is about to be published.

    Raises:
        StreamproofError: no token, no certificate, or nobody can be reached.
    """
    config = instances.read(instance, offline=False)
    token = _token()
    for line in published(token.identity, token.federated_issuer, config.signing_config.get_fulcio().url):
        say(line)
    from sigstore.sign import SigningContext  # noqa: PLC0415  as above

    with ExitStack() as stack:
        try:
            signer = stack.enter_context(SigningContext.from_trust_config(config).signer(token))
        except Exception as error:  # as above
            raise _failed("no certificate was made out", error) from error
        yield Keyless(signer)


def published(identity: str, issuer: str, authority: str) -> tuple[str, ...]:
    """What a keyless signature makes public, in words."""
    return (
        f"Signing keyless as {identity}, says {issuer}; certificate from {authority}.",
        "This publishes, for everybody and for ever: that identity, the time, and the hashes of what is signed.",
        "In GitHub Actions the certificate also names repository, commit, workflow and run, of private ones too.",
        "The log's operator receives the statements: title, target, verdicts, names and hashes of the report's files.",
        "The report itself stays here.",
    )


def _token() -> IdentityToken:
    """The identity that we have here.

    Raises:
        StreamproofError: there is none, or it cannot be used.
    """
    from sigstore import oidc  # noqa: PLC0415  as above

    try:
        raw = os.environ.get(VARIABLE) or oidc.detect_credential()
        if not raw:
            raise StreamproofError("a keyless signature needs an identity token, and there is none", remedy=_GET_ONE)
        return oidc.IdentityToken(raw)
    except oidc.IdentityError as error:
        raise StreamproofError(f"the identity token cannot be used: {error}", remedy=_GET_ONE) from error


def _failed(what: str, error: Exception) -> StreamproofError:
    text = str(error).strip().splitlines() or [""]
    return StreamproofError(
        f"signing keyless failed: {what} ({type(error).__name__}: {text[0][:300]})",
        remedy="Nothing of the report is lost: `just finish FOLDER --sign keyless` tries again, "
        "`just finish FOLDER` signs with your key.",
    )
