"""A whole Sigstore instance on loopback: authority, transparency log, timestamp authority, certificate log.

It speaks what the public one speaks (Fulcio's v2, Rekor's v1, RFC 3161), with roots of trust of its own, so that
sigstore's real client signs with it and anybody's verifier checks the outcome. The log is a Merkle tree of RFC 6962.
"""

from __future__ import annotations

import base64
import hashlib
import json
import struct
import subprocess
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qs, urlsplit

import jwt
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

ISSUER: Final = "https://issuer.example"
_SECRET: Final = "of the identity provider, thirty-two bytes or more"  # noqa: S105  of a test's own provider
_SHA256: Final = ec.ECDSA(hashes.SHA256())
_SCT_LIST: Final = x509.ObjectIdentifier("1.3.6.1.4.1.11129.2.4.2")
_ISSUER_V1: Final = x509.ObjectIdentifier("1.3.6.1.4.1.57264.1.1")
_ISSUER_V2: Final = x509.ObjectIdentifier("1.3.6.1.4.1.57264.1.8")

_TSA_CONFIG: Final = """\
[tsa]
default_tsa = here
[here]
serial = {folder}/serial
crypto_device = builtin
signer_digest = sha256
default_policy = 1.2.3.4
digests = sha256
ess_cert_id_alg = sha256
"""


def spki(key: ec.EllipticCurvePrivateKey) -> bytes:
    """DER of the public half."""
    return key.public_key().public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)


@dataclass
class PrivateSigstore:
    """The instance.

    Attributes:
        folder: of its own files.
        url: where it listens.
        requests: what it was asked: (path, body), in order.
        breaks: a path that answers with 500.
        job: identity of the job of GitHub Actions that may ask for a token; nobody may where it is empty.
    """

    folder: Path
    url: str = ""
    requests: list[tuple[str, bytes]] = field(default_factory=list)
    breaks: str = ""
    job: str = ""

    def __post_init__(self) -> None:
        self._authority, self._tsa_root, self._tsa, self._log, self._ct = (
            ec.generate_private_key(ec.SECP256R1()) for _ in range(5)
        )
        self.started = datetime.now(UTC).replace(microsecond=0)
        self._root = self._ca("fulcio.example", self._authority)
        self._tsa_ca = self._ca("tsa.example", self._tsa_root)
        self._tsa_certificate = self._issue_tsa()
        self._leaves: list[bytes] = []
        (self.folder / "tsa.pem").write_bytes(_pem(self._tsa_certificate))
        (self.folder / "tsa.key").write_bytes(
            self._tsa.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        (self.folder / "tsa.conf").write_text(_TSA_CONFIG.format(folder=self.folder))
        (self.folder / "serial").write_text("01\n")

    def token(self, identity: str, *, audience: str = "sigstore", lives_s: int = 600) -> str:
        """An identity token, as `SIGSTORE_ID_TOKEN` takes it."""
        now = int(datetime.now(UTC).timestamp())
        claims = {"iss": ISSUER, "sub": identity, "aud": audience, "iat": now, "nbf": now, "exp": now + lives_s}
        return jwt.encode(claims, _SECRET, algorithm="HS256")

    def config(self) -> dict[str, Any]:
        """Its ClientTrustConfig."""
        valid = {"start": (self.started - timedelta(days=1)).isoformat().replace("+00:00", "Z")}

        def key(private: ec.EllipticCurvePrivateKey) -> dict[str, Any]:
            return {"rawBytes": _b64(spki(private)), "keyDetails": "PKIX_ECDSA_P256_SHA_256", "validFor": valid}

        def log(private: ec.EllipticCurvePrivateKey) -> dict[str, Any]:
            identity = {"keyId": _b64(hashlib.sha256(spki(private)).digest())}
            return {"baseUrl": self.url, "hashAlgorithm": "SHA2_256", "publicKey": key(private), "logId": identity}

        def authority(name: str, *chain: x509.Certificate) -> dict[str, Any]:
            certificates = [{"rawBytes": _b64(each.public_bytes(serialization.Encoding.DER))} for each in chain]
            subject = {"organization": name, "commonName": name}
            return {"subject": subject, "uri": self.url, "certChain": {"certificates": certificates}, "validFor": valid}

        def service(path: str = "") -> list[dict[str, Any]]:
            return [{"url": self.url + path, "majorApiVersion": 1, "validFor": valid, "operator": "example"}]

        return {
            "mediaType": "application/vnd.dev.sigstore.clienttrustconfig.v0.1+json",
            "trustedRoot": {
                "mediaType": "application/vnd.dev.sigstore.trustedroot+json;version=0.1",
                "tlogs": [log(self._log)],
                "certificateAuthorities": [authority("fulcio.example", self._root)],
                "ctlogs": [log(self._ct)],
                "timestampAuthorities": [authority("tsa.example", self._tsa_certificate, self._tsa_ca)],
            },
            "signingConfig": {
                "mediaType": "application/vnd.dev.sigstore.signingconfig.v0.2+json",
                "caUrls": service(),
                "oidcUrls": service(),
                "rekorTlogUrls": service(),
                "tsaUrls": service("/tsa"),
                "rekorTlogConfig": {"selector": "ANY"},
                "tsaConfig": {"selector": "ANY"},
            },
        }

    def answer(self, path: str, body: bytes, authorization: str) -> tuple[int, str, bytes]:
        """Status, type and content."""
        self.requests.append((path, body))
        if self.breaks and path.startswith(self.breaks):
            return 500, "text/plain", b"broken"
        if path == "/api/v2/signingCert":
            return 201, "application/json", self._certify(body, authorization.removeprefix("Bearer "))
        if path.rstrip("/") == "/api/v1/log/entries":
            return 201, "application/json", self._keep(json.loads(body))
        if path == "/tsa":
            return 201, "application/timestamp-reply", self._stamp(body)
        return 404, "text/plain", path.encode()

    def _certify(self, body: bytes, token: str) -> bytes:
        claims = jwt.decode(token, _SECRET, algorithms=["HS256"], audience="sigstore")
        request = x509.load_pem_x509_csr(base64.b64decode(json.loads(body)["certificateSigningRequest"]))
        public = request.public_key()
        assert request.is_signature_valid
        assert isinstance(public, ec.EllipticCurvePublicKey)
        now = datetime.now(UTC).replace(microsecond=0)
        identity = claims["sub"]
        name = x509.UniformResourceIdentifier if "://" in identity else x509.RFC822Name
        issuer = claims["iss"].encode()
        usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CODE_SIGNING])
        builder = (
            x509.CertificateBuilder()
            .subject_name(x509.Name([]))
            .issuer_name(self._root.subject)
            .public_key(public)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now)
            .not_valid_after(now + timedelta(minutes=10))
            .add_extension(_key_usage(signs=True), critical=True)
            .add_extension(usage, critical=False)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._authority.public_key()), critical=False
            )
            .add_extension(x509.SubjectAlternativeName([name(identity)]), critical=True)
            .add_extension(x509.UnrecognizedExtension(_ISSUER_V1, issuer), critical=False)
            .add_extension(x509.UnrecognizedExtension(_ISSUER_V2, _der(0x0C, issuer)), critical=False)
        )
        before = builder.sign(self._authority, hashes.SHA256())
        seen = self._seen_by_ct(before.tbs_certificate_bytes, now)
        certificate = builder.add_extension(x509.UnrecognizedExtension(_SCT_LIST, seen), critical=False).sign(
            self._authority, hashes.SHA256()
        )
        chain = [_pem(certificate).decode(), _pem(self._root).decode()]
        return json.dumps({"signedCertificateEmbeddedSct": {"chain": {"certificates": chain}}}).encode()

    def _seen_by_ct(self, tbs: bytes, now: datetime) -> bytes:
        """A list of one signed certificate timestamp (RFC 6962, section 3.2), as a certificate holds it."""
        stamp = struct.pack("!Q", int(now.timestamp() * 1000))
        issuer = hashlib.sha256(spki(self._authority)).digest()
        entry = b"\x00\x01" + issuer + len(tbs).to_bytes(3, "big") + tbs
        signature = self._ct.sign(b"\x00\x00" + stamp + entry + b"\x00\x00", _SHA256)
        log = hashlib.sha256(spki(self._ct)).digest()
        one = b"\x00" + log + stamp + b"\x00\x00" + b"\x04\x03" + _sized(signature)
        return _der(0x04, _sized(_sized(one)))

    def _keep(self, request: dict[str, Any]) -> bytes:
        """Puts a DSSE envelope into the log."""
        proposed = request["spec"]["proposedContent"]
        envelope = json.loads(proposed["envelope"])
        (signature,) = envelope["signatures"]
        spec = {
            "envelopeHash": _hash(proposed["envelope"].encode()),
            "payloadHash": _hash(base64.b64decode(envelope["payload"])),
            "signatures": [{"signature": signature["sig"], "verifier": proposed["verifiers"][0]}],
        }
        body = _canonical({"apiVersion": "0.0.1", "kind": "dsse", "spec": spec})
        self._leaves.append(hashlib.sha256(b"\x00" + body).digest())
        index, root = len(self._leaves) - 1, _root(self._leaves)
        note = f"log.example\n{len(self._leaves)}\n{_b64(root)}\n"
        log = hashlib.sha256(spki(self._log)).digest()
        checkpoint = f"{note}\n— 127.0.0.1 {_b64(log[:4] + self._log.sign(note.encode(), _SHA256))}\n"
        promised = {
            "body": _b64(body),
            "integratedTime": int(datetime.now(UTC).timestamp()),
            "logID": log.hex(),
            "logIndex": index,
        }
        proof = {
            "logIndex": index,
            "rootHash": root.hex(),
            "treeSize": len(self._leaves),
            "hashes": [each.hex() for each in _path(index, self._leaves)],
            "checkpoint": checkpoint,
        }
        promise = _b64(self._log.sign(_canonical(promised), _SHA256))
        entry = promised | {"verification": {"inclusionProof": proof, "signedEntryTimestamp": promise}}
        return json.dumps({hashlib.sha256(body).hexdigest(): entry}).encode()

    def _stamp(self, query: bytes) -> bytes:
        """A timestamp of RFC 3161, by openssl."""
        (self.folder / "query").write_bytes(query)
        command = ["openssl", "ts", "-reply", "-queryfile", str(self.folder / "query"), "-section", "here"]
        command += ["-config", str(self.folder / "tsa.conf"), "-signer", str(self.folder / "tsa.pem")]
        command += ["-inkey", str(self.folder / "tsa.key"), "-out", str(self.folder / "reply")]
        subprocess.run(command, check=True, capture_output=True)
        return (self.folder / "reply").read_bytes()

    def _ca(self, name: str, key: ec.EllipticCurvePrivateKey) -> x509.Certificate:
        called = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        return (
            x509.CertificateBuilder()
            .subject_name(called)
            .issuer_name(called)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(self.started - timedelta(days=1))
            .not_valid_after(self.started + timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=True, path_length=1), critical=True)
            .add_extension(_key_usage(signs=False), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .sign(key, hashes.SHA256())
        )

    def _issue_tsa(self) -> x509.Certificate:
        return (
            x509.CertificateBuilder()
            .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "stamps.example")]))
            .issuer_name(self._tsa_ca.subject)
            .public_key(self._tsa.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(self.started - timedelta(days=1))
            .not_valid_after(self.started + timedelta(days=1))
            .add_extension(_key_usage(signs=True), critical=True)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.TIME_STAMPING]), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(self._tsa.public_key()), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._tsa_root.public_key()), critical=False
            )
            .sign(self._tsa_root, hashes.SHA256())
        )


@contextmanager
def private_sigstore(folder: Path) -> Iterator[PrivateSigstore]:
    """An instance that listens while the block runs; its ClientTrustConfig is `folder/instance.json`."""
    folder.mkdir(parents=True, exist_ok=True)
    instance = PrivateSigstore(folder)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            """The token that a job of GitHub Actions asks for."""
            asked = parse_qs(urlsplit(self.path).query)
            token = instance.token(instance.job, audience=asked["audience"][0])
            allowed = instance.job and self.headers.get("Authorization") == "bearer of the job"
            self.reply(200 if allowed else 403, "application/json", json.dumps({"value": token}).encode())

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            self.reply(*instance.answer(self.path, body, self.headers.get("Authorization", "")))

        def reply(self, status: int, kind: str, content: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_parts: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        instance.url = f"http://127.0.0.1:{server.server_port}"
        (folder / "instance.json").write_text(json.dumps(instance.config()))
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield instance
        finally:
            server.shutdown()
            thread.join()


def _root(leaves: Sequence[bytes]) -> bytes:
    """Merkle tree hash, RFC 6962, section 2.1, of the hashes of its leaves."""
    if len(leaves) == 1:
        return leaves[0]
    half = _half(len(leaves))
    return hashlib.sha256(b"\x01" + _root(leaves[:half]) + _root(leaves[half:])).digest()


def _path(index: int, leaves: Sequence[bytes]) -> list[bytes]:
    """Inclusion proof, section 2.1.1."""
    if len(leaves) == 1:
        return []
    half = _half(len(leaves))
    if index < half:
        return [*_path(index, leaves[:half]), _root(leaves[half:])]
    return [*_path(index - half, leaves[half:]), _root(leaves[:half])]


def _half(size: int) -> int:
    """The largest power of two below `size`."""
    return 1 << ((size - 1).bit_length() - 1)


def _key_usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=signs,
        key_cert_sign=not signs,
        crl_sign=not signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _der(tag: int, content: bytes) -> bytes:
    """One value of ASN.1's DER."""
    size = len(content)
    if size < 128:
        return bytes([tag, size]) + content
    length = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes([tag, 0x80 | len(length)]) + length + content


def _sized(content: bytes) -> bytes:
    return struct.pack("!H", len(content)) + content


def _canonical(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def _hash(content: bytes) -> dict[str, str]:
    return {"algorithm": "sha256", "value": hashlib.sha256(content).hexdigest()}


def _b64(content: bytes) -> str:
    return base64.b64encode(content).decode()


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)
