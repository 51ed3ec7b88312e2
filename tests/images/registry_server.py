"""A real registry on loopback (Debian's docker-registry) behind token authentication, and hand-made images to push."""

from __future__ import annotations

import base64
import datetime as dt
import hashlib
import json
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import requests
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from tests.docker_daemon import _program

INDEX = "application/vnd.oci.image.index.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
CONFIG = "application/vnd.oci.image.config.v1+json"
LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"

USER, PASSWORD = "streamproof", "correct horse"


def digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def as_json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


class TokenServer:
    """Sells tokens as the registry wants them: `public/...` to everybody, everything else to one user."""

    def __init__(self, folder: Path) -> None:
        self._key = rsa.generate_private_key(65537, 2048)
        name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "tokens")])
        now = dt.datetime.now(dt.UTC)
        certificate = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(name)
            .public_key(self._key.public_key())
            .serial_number(1)
            .not_valid_before(now - dt.timedelta(hours=1))
            .not_valid_after(now + dt.timedelta(hours=12))
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .sign(self._key, hashes.SHA256())
        )
        self.certificate = folder / "tokens.pem"
        self.certificate.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        self._der = base64.b64encode(certificate.public_bytes(serialization.Encoding.DER)).decode()

    def token(self, repository: str, *actions: str) -> str:
        now = int(dt.datetime.now(dt.UTC).timestamp())
        head = {"typ": "JWT", "alg": "RS256", "x5c": [self._der]}
        access = [{"type": "repository", "name": repository, "actions": list(actions)}]
        claims: dict[str, Any] = {"iss": "tokens", "aud": "registry", "sub": "", "jti": "1", "access": access}
        claims |= {"iat": now, "nbf": now - 60, "exp": now + 3600}
        signed = b".".join(base64.urlsafe_b64encode(as_json(part)).rstrip(b"=") for part in (head, claims))
        signature = self._key.sign(signed, padding.PKCS1v15(), hashes.SHA256())
        return (signed + b"." + base64.urlsafe_b64encode(signature).rstrip(b"=")).decode()

    def answer(self, path: str, headers: dict[str, str]) -> Reply:
        repository = parse_qs(urlsplit(path).query)["scope"][0].split(":")[1]
        login = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
        if headers.get("Authorization", f"Basic {login}") != f"Basic {login}":
            return Reply(401, b"{}")
        actions = ("pull",) if repository.startswith("public/") or "Authorization" in headers else ()
        return Reply(200, as_json({"token": self.token(repository, *actions)}))


@dataclass
class Reply:
    status: int
    body: bytes
    headers: dict[str, str] = field(default_factory=dict)


@dataclass
class Web:
    """A server that answers as it is told, and remembers what it was asked."""

    address: str
    asked: list[tuple[str, dict[str, str]]]


@contextmanager
def web(answer: Any) -> Iterator[Web]:
    """Serves `answer(path, headers) -> Reply` on loopback."""
    asked: list[tuple[str, dict[str, str]]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append((self.path, dict(self.headers)))
            reply = answer(self.path, dict(self.headers))
            self.send_response(reply.status)
            for name, value in {"Content-Length": str(len(reply.body)), **reply.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(reply.body)

        do_HEAD = do_GET  # noqa: N815  the name that the base looks for

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield Web(f"127.0.0.1:{server.server_address[1]}", asked)
        finally:
            server.shutdown()
            thread.join()


class Registry:
    """A running registry.

    Attributes:
        address: "127.0.0.1:PORT".
    """

    def __init__(self, address: str, tokens: TokenServer) -> None:
        self.address = address
        self._tokens = tokens

    def push(
        self, name: str, *, env: list[str] | None = None, labels: dict[str, str] | None = None, **changes: Any
    ) -> tuple[str, str]:
        """Pushes an image for linux/amd64 and one for linux/arm64 under an index.

        Args:
            name: "public/vllm:v1".
            env: of the amd64 image.
            labels: of the amd64 image.
            changes: `architecture`: what that image's configuration says; `listed`: architectures in the index.

        Returns:
            The digests of the index and of the amd64 manifest.
        """
        repository, tag = name.split(":")
        entries = []
        for architecture in changes.get("listed", ("arm64", "amd64")):
            own = architecture == "amd64"
            said = changes.get("architecture", architecture) if own else architecture
            manifest = self._manifest(repository, said, env or [] if own else [], labels or {} if own else {})
            self._put(repository, digest(manifest), MANIFEST, manifest)
            platform = {"os": "linux", "architecture": architecture}
            entry = {"mediaType": MANIFEST, "digest": digest(manifest), "size": len(manifest), "platform": platform}
            entries.append(entry)
        index = as_json({"schemaVersion": 2, "mediaType": INDEX, "manifests": entries})
        self._put(repository, tag, INDEX, index)
        return digest(index), str(entries[-1]["digest"])

    def push_manifest(self, name: str) -> str:
        """Pushes an image without an index. Returns its digest."""
        repository, tag = name.split(":")
        manifest = self._manifest(repository, "amd64", [], {})
        self._put(repository, tag, MANIFEST, manifest)
        return digest(manifest)

    def delete(self, repository: str, what: str) -> None:
        address = f"http://{self.address}/v2/{repository}/manifests/{what}"
        requests.delete(address, headers=self._headers(repository), timeout=10).raise_for_status()

    def _manifest(self, repository: str, architecture: str, env: list[str], labels: dict[str, str]) -> bytes:
        layer = b"layer"
        config = as_json(
            {
                "os": "linux",
                "architecture": architecture,
                "config": {"Env": ["PATH=/bin", *env], "Labels": labels or None},
                "rootfs": {"type": "layers", "diff_ids": [digest(layer)]},
            }
        )
        for blob in (layer, config):
            self._upload(repository, blob)
        described = {"mediaType": CONFIG, "digest": digest(config), "size": len(config)}
        layers = [{"mediaType": LAYER, "digest": digest(layer), "size": len(layer)}]
        return as_json({"schemaVersion": 2, "mediaType": MANIFEST, "config": described, "layers": layers})

    def _upload(self, repository: str, blob: bytes) -> None:
        headers = self._headers(repository)
        begun = requests.post(f"http://{self.address}/v2/{repository}/blobs/uploads/", headers=headers, timeout=10)
        begun.raise_for_status()
        place = begun.headers["Location"]
        requests.put(place, params={"digest": digest(blob)}, data=blob, headers=headers, timeout=10).raise_for_status()

    def _put(self, repository: str, what: str, kind: str, manifest: bytes) -> None:
        address = f"http://{self.address}/v2/{repository}/manifests/{what}"
        headers = {**self._headers(repository), "Content-Type": kind}
        requests.put(address, data=manifest, headers=headers, timeout=10).raise_for_status()

    def _headers(self, repository: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {self._tokens.token(repository, 'pull', 'push', 'delete')}"}


@contextmanager
def running_registry(folder: Path) -> Iterator[Registry]:
    """Starts one; it is installed in CI, and elsewhere the test is skipped where it is not there."""
    program = _program("docker-registry")
    tokens = TokenServer(folder)
    with web(tokens.answer) as realm:
        settings = {
            "version": 0.1,
            "storage": {"filesystem": {"rootdirectory": str(folder / "storage")}, "delete": {"enabled": True}},
            "http": {"addr": "127.0.0.1:0"},
            "auth": {
                "token": {
                    "realm": f"http://{realm.address}/token",
                    "service": "registry",
                    "issuer": "tokens",
                    "rootcertbundle": str(tokens.certificate),
                }
            },
        }
        (folder / "config.json").write_text(json.dumps(settings))  # JSON is YAML too
        log = folder / "log"
        with (
            log.open("wb") as output,
            subprocess.Popen(
                [program, "serve", folder / "config.json"], stderr=subprocess.PIPE, stdout=output
            ) as process,
        ):
            assert process.stderr is not None
            address = next(
                (line.split(b"listening on ")[1] for line in process.stderr if b"listening on " in line), b""
            )
            drain = threading.Thread(target=process.stderr.read)
            drain.start()
            try:
                assert address, "it ended"
                yield Registry(address.split(b'"')[0].split()[0].decode(), tokens)
            finally:
                process.terminate()
                drain.join()
