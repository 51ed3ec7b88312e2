"""How a registry lets us in: anonymously, with a user's name and password, or with a token that these buy.

The names, passwords and credential helpers are those of `docker login`, read by the Docker SDK. Protocol:
https://distribution.github.io/distribution/spec/auth/token/.
"""

from __future__ import annotations

import ipaddress
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from docker.auth import load_config
from docker.errors import DockerException
from requests.auth import AuthBase, HTTPBasicAuth
from requests.utils import parse_dict_header

if TYPE_CHECKING:
    from requests import PreparedRequest


@dataclass(frozen=True, slots=True, repr=False)
class Credentials:
    """A name and a password. Never shown, and sent to nobody but the registry and the token server that it names."""

    name: str
    password: str

    def basic(self) -> AuthBase:
        """As HTTP's basic authentication."""
        return HTTPBasicAuth(self.name.encode(), self.password.encode())


class NoLogin(AuthBase):
    """Nothing. Without it requests would send what it finds in the user's .netrc."""

    def __call__(self, request: PreparedRequest) -> PreparedRequest:
        """Leave the request as it is."""
        return request


class Bearer(AuthBase):
    """A token that was bought.

    Args:
        token: as it came.
    """

    def __init__(self, token: str) -> None:
        self._token = token

    def __call__(self, request: PreparedRequest) -> PreparedRequest:
        """Put it into the request."""
        request.headers["Authorization"] = f"Bearer {self._token}"
        return request


@dataclass(frozen=True, slots=True)
class Challenge:
    """What a registry asks for with its 401.

    Attributes:
        scheme: "bearer" or "basic", in lower case; other words as they came.
        parameters: of a bearer challenge: realm, service, scope.
    """

    scheme: str
    parameters: dict[str, str]

    def token_request(self, scope: str) -> tuple[str, dict[str, str]] | None:
        """Address and query for a token; None where the challenge names no address.

        Args:
            scope: what to ask for where the challenge does not say.
        """
        realm = self.parameters.get("realm", "")
        if urlsplit(realm).scheme not in ("http", "https"):
            return None
        service = self.parameters.get("service")
        return realm, {**({"service": service} if service else {}), "scope": self.parameters.get("scope", scope)}


def parse_challenge(header: str) -> Challenge:
    """Reads a WWW-Authenticate header with one challenge."""
    scheme, _, rest = header.strip().partition(" ")
    found = parse_dict_header(rest)  # type: ignore[no-untyped-call]  # the stubs leave it out
    return Challenge(scheme.lower(), {key: value or "" for key, value in found.items()})


def may_carry_password(address: str) -> bool:
    """Whether a password may be sent there: over TLS, or to this machine itself."""
    parts = urlsplit(address)
    return parts.scheme == "https" or is_loopback(parts.hostname or "")


def is_loopback(host: str) -> bool:
    """Whether a host is this machine itself, so that nobody can listen in between."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def stored_credentials(registry: str) -> Credentials | None:
    """What `docker login REGISTRY` stored; None where it stored nothing, or only an identity token.

    A credential helper that is named but not there counts as nothing stored: public images need none.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # the SDK's way of saying that the helper is not there
            found = load_config().resolve_authconfig(registry) or {}
    except (DockerException, ValueError):  # the latter: a configuration whose passwords cannot be decoded
        return None
    name, password = found.get("username") or found.get("Username"), found.get("password") or found.get("Password")
    return Credentials(name, password) if name and password else None
