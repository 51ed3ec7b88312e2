"""Keys that sign reports, and keys that are trusted.

Everybody who makes reports has one ECDSA P-256 key. It is made on first use and kept outside every repository, in
`$XDG_CONFIG_HOME/streamproof/keys`: `signer.key.pem`, readable by its owner alone, and its public half beside it. For
others to verify the reports, its owner has the public half added to the allow list, the repository's folder `keys/`.

A key's id is the SHA-256 of its DER SubjectPublicKeyInfo (RFC 5280, section 4.1.2.7), in lower-case hex.

Trust may be limited in time and withdrawn: `bench.report.trust.allow_list` says how that is written. What an allow list
says of a key counts whoever names it, on the command line too.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from bench.errors import StreamproofError, UsageError
from bench.report import sign
from bench.report.folder_files import beside, create, write_whole
from bench.report.trust.allow_list import FILE, AllowList, read_allow_list
from bench.report.trust.instance import instance_file
from bench.report.trust.validity import ALWAYS, Validity

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

PRIVATE_NAME: Final = "signer.key.pem"
PUBLIC_NAME: Final = "signer.pub.pem"
OWN: Final = "your own key"
"""Where the trust in it comes from."""
FORMER: Final = "former"
"""Folder beside the own key: an allow list of the keys that were one's own before."""
PEM_LIMIT: Final = 4096
"""Bytes. A P-256 key in PEM has fewer than 300; a file beyond this is no such key and is not read."""


class Attester(Protocol):
    """Whoever signs a report: a key of one's own, or an identity that an authority vouches for."""

    @property
    def public(self) -> ec.EllipticCurvePublicKey:
        """The key that its signatures are checked with; it may be known only once something was signed."""

    def attest(self, payload: bytes, *, hint: str = "") -> bytes:
        """Signs a statement.

        Args:
            payload: the statement.
            hint: how the bundle shall name the key, where other tools expect another name than the key's id.

        Returns:
            A Sigstore bundle.
        """


@dataclass(frozen=True, slots=True)
class Signer:
    """A private key and the id that others know it by."""

    private: ec.EllipticCurvePrivateKey
    key_id: str

    @property
    def public(self) -> ec.EllipticCurvePublicKey:
        """Its public half."""
        return self.private.public_key()

    def attest(self, payload: bytes, *, hint: str = "") -> bytes:
        """See `Attester`."""
        return sign.bundle(payload, self, hint=hint)


@dataclass(frozen=True, slots=True)
class TrustedKey:
    """A public key that the verifier trusts, and why.

    Attributes:
        key_id: see the module.
        public: the key.
        origin: where the trust comes from, for people (`OWN`, "keys/ci.pem").
        validity: for which time.
    """

    key_id: str
    public: ec.EllipticCurvePublicKey
    origin: str
    validity: Validity = ALWAYS

    def __reduce__(self) -> tuple[object, ...]:
        """On its way to another process it is PEM: what cryptography holds cannot be pickled."""
        return _trusted_again, (self.key_id, public_pem(self.public), self.origin, self.validity)


@dataclass(frozen=True, slots=True)
class TrustedIdentity:
    """An identity whose keyless signatures the verifier trusts.

    Attributes:
        identity: see `bench.report.trust.allow_list.IdentityEntry`.
        issuer: URL of who vouches for it.
        origin: where the trust comes from, for people.
        validity: for which time.
    """

    identity: str
    issuer: str
    origin: str
    validity: Validity = ALWAYS


@dataclass(frozen=True, slots=True, eq=False)
class Trust(Mapping[str, TrustedKey]):
    """Everybody whom a verifier trusts. As a mapping: the keys by id, those that count for nothing left out.

    Attributes:
        by_id: keys by their id.
        compromised: keys that would be trusted if somebody else could not use them.
        identities: of keyless signatures.
        instance: file that describes the Sigstore instance which vouches for identities; None for the public one.
    """

    by_id: Mapping[str, TrustedKey]
    compromised: Mapping[str, TrustedKey]
    identities: tuple[TrustedIdentity, ...] = ()
    instance: Path | None = None

    def __getitem__(self, key: str) -> TrustedKey:
        return self.by_id[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.by_id)

    def __len__(self) -> int:
        return len(self.by_id)


def key_id(public: ec.EllipticCurvePublicKey) -> str:
    """SHA-256 of the DER SubjectPublicKeyInfo, lower-case hex."""
    der = public.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)
    return hashlib.sha256(der).hexdigest()


def public_pem(public: ec.EllipticCurvePublicKey) -> bytes:
    """The key as PEM: the one form in which we write public keys."""
    return public.public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)


def parse_public(pem: bytes, where: str) -> ec.EllipticCurvePublicKey:
    """Reads a PEM public key.

    Args:
        pem: the file's bytes.
        where: the file's name, for the error.

    Raises:
        StreamproofError: it is not a P-256 public key.
    """
    try:
        key = serialization.load_pem_public_key(pem)
    except (ValueError, UnsupportedAlgorithm) as error:
        raise _not_a_key(where, "public") from error
    if not isinstance(key, ec.EllipticCurvePublicKey) or not isinstance(key.curve, ec.SECP256R1):
        raise _not_a_key(where, "public")
    return key


def _trusted_again(name: str, pem: bytes, origin: str, validity: Validity) -> TrustedKey:
    return TrustedKey(name, parse_public(pem, origin), origin, validity)


def keys_folder(environ: Mapping[str, str] | None = None) -> Path:
    """Where this user's own key lives: `$XDG_CONFIG_HOME/streamproof/keys`, by default under `~/.config`.

    A relative `XDG_CONFIG_HOME` is ignored, as the XDG base directory specification asks.

    Raises:
        StreamproofError: there is no home folder and no `XDG_CONFIG_HOME`.
    """
    environ = os.environ if environ is None else environ
    configured = environ.get("XDG_CONFIG_HOME", "")
    if configured and Path(configured).is_absolute():
        return Path(configured) / "streamproof" / "keys"
    try:
        home = Path(environ["HOME"]) if environ.get("HOME") else Path.home()
    except RuntimeError as error:
        raise StreamproofError(
            "there is no home folder to keep the signing key in",
            remedy="Set XDG_CONFIG_HOME to an absolute path of a folder that only you can read.",
        ) from error
    return home / ".config" / "streamproof" / "keys"


def own_signer(folder: Path | None = None) -> Signer:
    """This user's signing key, made if there is none yet.

    Two processes that make it at once end with the same key: the first to put its file in place wins.

    Args:
        folder: where it lives; `keys_folder()` by default.

    Raises:
        StreamproofError: it cannot be made or read, others can use it, or it is not a P-256 key.
    """
    folder = keys_folder() if folder is None else folder
    path = folder / PRIVATE_NAME
    try:
        if not path.exists():
            _make(path)
        private = _load_private(path)
    except OSError as error:
        raise StreamproofError(
            f"cannot use the signing key {path}: {error.strerror}",
            remedy="Mend the permissions, or set XDG_CONFIG_HOME to a folder that only you can read.",
        ) from error
    public = private.public_key()
    public_path = folder / PUBLIC_NAME
    if not public_path.exists() or public_path.read_bytes() != public_pem(public):
        write_whole(public_path, public_pem(public))
    return Signer(private, key_id(public))


def trusted_keys(
    *,
    allow_list: Path | None,
    extra: Iterable[Path] = (),
    own_folder: Path | None = None,
    identities: Iterable[TrustedIdentity] = (),
    instance: Path | None = None,
) -> Trust:
    """Everybody whom a verifier trusts.

    Args:
        allow_list: folder of `*.pem` public keys, with `trust.toml`; None or a missing folder adds nobody.
        extra: files named on the command line.
        own_folder: where this user's own key lives; `keys_folder()` by default. No key is made there.
        identities: named on the command line.
        instance: see `Trust`; by default the one that the environment names.

    Raises:
        StreamproofError: a file among them is not a P-256 public key, or an allow list cannot be read.
        UsageError: a file of `extra` cannot be read.
    """
    own_folder = keys_folder() if own_folder is None else own_folder
    found: dict[str, TrustedKey] = {}
    if (own_folder / PUBLIC_NAME).is_file():
        _add(found, own_folder / PUBLIC_NAME, OWN, ALWAYS)
    listed = _add_listed(found, own_folder / FORMER, "your former key {}")
    if allow_list is not None:
        listed = (*listed, *_add_listed(found, allow_list, f"{allow_list.name}/{{}}"))
    for path in extra:
        _add(found, path, str(path), ALWAYS)
    compromised = {name: key for name, key in found.items() if key.validity.compromised}
    return Trust(
        by_id={name: key for name, key in found.items() if name not in compromised},
        compromised=compromised,
        identities=(*identities, *listed),
        instance=instance or instance_file(),
    )


def _add_listed(found: dict[str, TrustedKey], folder: Path, called: str) -> tuple[TrustedIdentity, ...]:
    """Adds the keys of an allow list to `found`.

    Returns:
        Its identities.
    """
    listed = read_allow_list(folder) if folder.is_dir() else AllowList()
    limits = {entry.file: entry.validity for entry in listed.keys}
    for path in sorted(folder.glob("*.pem")):
        _add(found, path, called.format(path.name), limits.get(path.name, ALWAYS))
    return tuple(
        TrustedIdentity(entry.identity, entry.issuer, called.format(FILE), entry.validity)
        for entry in listed.identities
    )


def _add(found: dict[str, TrustedKey], path: Path, origin: str, validity: Validity) -> None:
    """Adds a key; of one that is there, the first origin stays, and the strictest limit."""
    public = parse_public(read_small(path), str(path))
    name = key_id(public)
    if name not in found:
        found[name] = TrustedKey(name, public, origin, validity)
    elif validity.lenience < found[name].validity.lenience:
        found[name] = replace(found[name], validity=validity)


def read_small(path: Path) -> bytes:
    """The beginning of a file that should be a key.

    Raises:
        UsageError: it cannot be read.
    """
    try:
        with path.open("rb") as file:
            return file.read(PEM_LIMIT)
    except OSError as error:
        raise UsageError(
            f"cannot read the key {path}: {error.strerror}", remedy="Name a PEM file with a P-256 public key."
        ) from error


def _not_a_key(where: str, half: str) -> StreamproofError:
    return StreamproofError(
        f"{where} is not an ECDSA P-256 {half} key in PEM form",
        remedy=f'A report\'s own key is its file signer.pub.pem; it begins with "-----BEGIN {half.upper()} KEY-----".',
    )


def _make(path: Path) -> None:
    """Puts a new private key at `path`, unless another process has just done so."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    pem = ec.generate_private_key(ec.SECP256R1()).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    temporary = beside(path)
    try:
        create(temporary, pem, mode=0o600)
        # A link, unlike a rename, fails when the name is taken: nobody's key is ever overwritten.
        os.link(temporary, path)
    except FileExistsError:
        pass
    finally:
        temporary.unlink(missing_ok=True)


def _load_private(path: Path) -> ec.EllipticCurvePrivateKey:
    with path.open("rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid() or stat.S_IMODE(status.st_mode) & 0o077:
            raise StreamproofError(
                f"the signing key {path} can be used by others "
                f"(owner {status.st_uid}, mode {stat.S_IMODE(status.st_mode):04o}; we are {os.geteuid()})",
                remedy=f"If nobody else has read it: chmod 600 {path}. Otherwise delete it; a new one is made at the "
                "next run, and the old one must leave every allow list.",
            )
        pem = file.read(PEM_LIMIT)
    try:
        key = serialization.load_pem_private_key(pem, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise _not_a_key(str(path), "private") from error
    if not isinstance(key, ec.EllipticCurvePrivateKey) or not isinstance(key.curve, ec.SECP256R1):
        raise _not_a_key(str(path), "private")
    return key
