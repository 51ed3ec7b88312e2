"""Fetches a registry's manifests and configurations, each checked against its digest.

The OCI distribution specification 1.1 (https://github.com/opencontainers/distribution-spec), read-only. requests
carries it, the Docker SDK knows the passwords.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import requests
from requests.structures import CaseInsensitiveDict

from bench.errors import StreamproofError
from bench.images.registry_auth import Bearer, NoLogin, is_loopback, may_carry_password, parse_challenge

if TYPE_CHECKING:
    from collections.abc import Callable

    from requests.auth import AuthBase

    from bench.images.registry_auth import Credentials
    from bench.images.registry_reference import Reference

DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}")

_LIMIT: Final = 4 << 20
"""Bytes. The specification asks registries to take manifests up to this size; configurations are smaller."""

_TIMEOUT_S: Final = (5.0, 30.0)
"""To connect, and between two pieces of an answer."""


class NotAskedError(StreamproofError):
    """The registry could not be asked: nothing is known about the image, neither good nor bad.

    Args:
        message: what was wrong and where.
        remedy: what to do.
        whole_registry: the next question to the same registry would fail in the same way.
    """

    def __init__(self, message: str, *, remedy: str, whole_registry: bool = False) -> None:
        super().__init__(message, remedy=remedy)
        self.whole_registry = whole_registry


class NotThereError(StreamproofError):
    """The registry answered: it has no such image."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back.

    Attributes:
        status: of HTTP.
        headers: in any case of letters.
        body: all of it.
    """

    status: int
    headers: CaseInsensitiveDict[str]
    body: bytes

    @property
    def media_type(self) -> str:
        """Without parameters."""
        return self.headers.get("Content-Type", "").partition(";")[0].strip()


class _Session(requests.Session):
    """Reads nothing of a redirect but where it leads: requests would read its whole body, however long that is."""

    def get_redirect_target(self, resp: requests.Response) -> str | None:
        """As the base has it; the answer is then closed."""
        target = super().get_redirect_target(resp)
        if target is not None:
            resp.close()
        return target


class RegistryConnection:
    """Fetches. Nothing is asked twice, and no registry that did not answer is asked again.

    Args:
        credentials: who we are to a registry.
        accept: media types of manifests that the caller understands.
    """

    def __init__(self, credentials: Callable[[str], Credentials | None], accept: str) -> None:
        self._credentials = credentials
        self._accept = accept
        self._session = _Session()
        self._answers: dict[str, Answer] = {}
        self._logins: dict[tuple[str, str], AuthBase] = {}
        self._silent: dict[str, NotAskedError] = {}

    def close(self) -> None:
        """Close what is open."""
        self._session.close()

    def get(self, reference: Reference, kind: str, name: str) -> Answer:
        """A manifest or blob, checked against its digest.

        Args:
            reference: whose registry and repository are asked.
            kind: "manifests" or "blobs".
            name: a digest; of a manifest also a tag.

        Raises:
            NotThereError: the registry has none of this name.
            NotAskedError: it cannot be reached, wants another login, limits us, or answers nonsense.
        """
        scheme = "http" if is_loopback(reference.host.partition(":")[0]) else "https"
        address = f"{scheme}://{reference.host}/v2/{reference.repository}/{kind}/{name}"
        if address not in self._answers:
            if reference.registry in self._silent:
                raise self._silent[reference.registry]
            try:
                self._answers[address] = self._fetch(reference, address, name)
            except NotAskedError as error:
                if error.whole_registry:
                    self._silent[reference.registry] = error
                raise
        return self._answers[address]

    def _fetch(self, reference: Reference, address: str, name: str) -> Answer:
        key = (reference.registry, reference.repository)
        answer = self._ask(reference, address, self._logins.get(key, NoLogin()))
        if answer.status == requests.codes.unauthorized and key not in self._logins:
            self._logins[key] = self._login(reference, answer.headers.get("WWW-Authenticate", ""))
            answer = self._ask(reference, address, self._logins[key])
        _check_status(answer, reference, name)
        claimed = name if DIGEST.fullmatch(name) else answer.headers.get("Docker-Content-Digest", "")
        if DIGEST.fullmatch(claimed) and claimed != digest_of(answer.body):
            raise nonsense(reference, f"content whose digest is not {claimed}")
        return answer

    def _ask(self, reference: Reference, address: str, login: AuthBase, query: dict[str, str] | None = None) -> Answer:
        """One question.

        Raises:
            NotAskedError: no answer, or one that is far too long.
        """
        try:
            with self._session.get(
                address, params=query, headers={"Accept": self._accept}, auth=login, timeout=_TIMEOUT_S, stream=True
            ) as answer:
                body = bytearray()
                for piece in answer.iter_content(1 << 16):
                    body += piece
                    if len(body) > _LIMIT:
                        raise nonsense(reference, f"more than {_LIMIT:,} bytes")
                return Answer(answer.status_code, answer.headers, bytes(body))
        except requests.RequestException as error:
            raise NotAskedError(
                f"{reference.registry} cannot be reached: {cause_of(error)}",
                remedy="Run it again where there is network (HTTPS_PROXY and REQUESTS_CA_BUNDLE are respected).",
                whole_registry=True,
            ) from error

    def _login(self, reference: Reference, header: str) -> AuthBase:
        """What the registry's 401 asks for.

        Raises:
            NotAskedError: it cannot be had.
        """
        challenge = parse_challenge(header)
        credentials = self._credentials(reference.registry)
        if challenge.scheme == "basic":
            if credentials is None:
                raise _locked(reference, "wants a login")
            return credentials.basic()
        wanted = challenge.token_request(f"repository:{reference.repository}:pull")
        if challenge.scheme != "bearer" or wanted is None:
            raise nonsense(reference, f"the challenge {header[:80]!r}")
        realm, query = wanted
        if credentials is not None and not may_carry_password(realm):
            raise nonsense(reference, f"a token server without TLS ({realm}), which gets no password of ours")
        answer = self._ask(reference, realm, credentials.basic() if credentials else NoLogin(), query)
        if answer.status in (requests.codes.unauthorized, requests.codes.forbidden):
            raise _locked(reference, "refuses the stored login" if credentials else "wants a login")
        _check_status(answer, reference, "token")
        said = json_of(answer, reference)
        token = said.get("token") or said.get("access_token")
        if not isinstance(token, str):
            raise nonsense(reference, "no token")
        return Bearer(token)


def digest_of(content: bytes) -> str:
    """As registries write it: "sha256:..."."""
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def json_of(answer: Answer, reference: Reference) -> dict[str, Any]:
    """The answer as a JSON object.

    Raises:
        NotAskedError: it is none.
    """
    try:
        value = json.loads(answer.body)
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise nonsense(reference, "something that is no JSON object")
    return value


def nonsense(reference: Reference, what: str) -> NotAskedError:
    """The error for an answer that no registry gives."""
    return NotAskedError(
        f"{reference.registry} answers {what}: this is no registry, or something between us and it answers instead",
        remedy="See that the address in docker/pins.toml is right and that no proxy or login page is in the way.",
    )


def _check_status(answer: Answer, reference: Reference, name: str) -> None:
    status = answer.status
    if status == requests.codes.ok:
        return
    if status == requests.codes.not_found:
        raise NotThereError(
            f"{reference.registry} has no {name} in {reference.repository}",
            remedy="It was removed, or never existed: correct the reference in docker/pins.toml.",
        )
    if status in (requests.codes.unauthorized, requests.codes.forbidden):
        raise _locked(reference, f"does not show us {reference.repository} (status {status})")
    if status == requests.codes.too_many_requests:
        after = answer.headers.get("Retry-After")
        when = f" after {after} s" if after and after.isdigit() else f" after {after}" if after else " later"
        raise NotAskedError(
            f"{reference.registry} limits how often it is asked",
            remedy=f"Run it again{when}, or log in for a higher limit: docker login {reference.registry}",
            whole_registry=True,
        )
    raise NotAskedError(
        f"{reference.registry} answers with status {status}",
        remedy="Try again later; the registry's own status page may say more.",
        whole_registry=status >= requests.codes.internal_server_error,
    )


def _locked(reference: Reference, what: str) -> NotAskedError:
    login = f"docker login {reference.registry}"
    return NotAskedError(
        f"{reference.registry} {what}",
        remedy=f"Log in again ({login}), or, for a public image, not at all ({login.replace('login', 'logout')}).",
    )


def cause_of(error: Exception) -> str:
    """The cause in a few words: requests' own text names its internals."""
    reason: object = error
    while isinstance(reason, BaseException):
        inner = getattr(reason, "reason", None) or (reason.args[0] if reason.args else None)
        if not isinstance(inner, BaseException):
            break
        reason = inner
    return str(reason).rpartition(": ")[2][:160] or type(error).__name__
