"""Reads an allow list: a folder of public keys (`*.pem`) and, beside them, `trust.toml`.

The file says whose a key is and for which time it is trusted, and names the identities whose keyless signatures are
trusted. A key without an entry is trusted without a limit of time.
"""

from __future__ import annotations

import tomllib
from datetime import UTC, date, datetime, time, timedelta
from typing import TYPE_CHECKING, Annotated, Final, TypeAlias

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError, model_validator

from bench.errors import StreamproofError
from bench.report.trust.validity import Reason, Revocation, Validity

if TYPE_CHECKING:
    from pathlib import Path

FILE: Final = "trust.toml"
_LIMIT: Final = 1 << 20
"""Bytes; thousands of signers."""

Moment: TypeAlias = Annotated[AwareDatetime, Field(strict=True)] | Annotated[date, Field(strict=True)]
"""A time with its offset, or a day in UTC."""
Text: TypeAlias = Annotated[str, Field(max_length=200, pattern=r"^[^\x00-\x1f\x7f]*$")]
FileName: TypeAlias = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}\.pem$")]


class _Shape(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Revoked(_Shape):
    """Trust that was withdrawn: from `on` on, a day from its first moment."""

    on: Moment
    reason: Reason
    why: Text = ""


class Entry(_Shape):
    """What every signer has.

    Attributes:
        whose: for people.
        not_before: first day or moment.
        not_after: last day, itself included, or the first moment that is not.
        revoked: where it is.
    """

    whose: Annotated[Text, Field(min_length=1)]
    not_before: Moment | None = None
    not_after: Moment | None = None
    revoked: Revoked | None = None

    @property
    def validity(self) -> Validity:
        """The same as moments."""
        revoked = self.revoked
        return Validity(
            not_before=None if self.not_before is None else _start(self.not_before),
            not_after=None if self.not_after is None else _end(self.not_after),
            revoked=None if revoked is None else Revocation(_start(revoked.on), revoked.reason, revoked.why),
        )

    @model_validator(mode="after")
    def _in_order(self) -> Entry:
        start, end = self.validity.not_before, self.validity.not_after
        if start is not None and end is not None and start >= end:
            raise ValueError("not_after comes before not_before")
        return self


class KeyEntry(Entry):
    """A key: `file` is its name within the folder."""

    file: FileName


class IdentityEntry(Entry):
    """An identity of keyless signatures.

    Attributes:
        identity: as the certificate names it: an address, or the URL of a workflow; of a URL with an `@` in it, a `*`
            at the end stands for any rest: `https://github.com/OWNER/REPO/.github/workflows/release.yml@refs/tags/*`.
        issuer: URL of who vouched for it.
    """

    identity: Annotated[Text, Field(pattern=r"^[^*]+$|^https://[^*]+@[^*]+\*$")]
    issuer: Annotated[Text, Field(pattern=r"^https://")]


class AllowList(_Shape):
    """All of `trust.toml`."""

    keys: tuple[KeyEntry, ...] = ()
    identities: tuple[IdentityEntry, ...] = ()

    @model_validator(mode="after")
    def _once(self) -> AllowList:
        names = [key.file for key in self.keys]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(f"{twice[0]} stands in it twice")
        return self


def read_allow_list(folder: Path) -> AllowList:
    """Reads `trust.toml`; an empty list where there is none.

    Raises:
        StreamproofError: it cannot be read, says something that is not known here, or names a key that is not there.
    """
    path = folder / FILE
    if not path.is_file():
        return AllowList()
    try:
        with path.open("rb") as file:
            found = AllowList.model_validate(tomllib.loads(file.read(_LIMIT).decode()))
    except OSError as error:
        raise StreamproofError(f"cannot read {path}: {error.strerror}", remedy="Mend its permissions.") from error
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(str(step) for step in first["loc"]) or "the whole"
        raise _wrong(path, f"{where}: {first['msg']}") from error
    except ValueError as error:
        raise _wrong(path, str(error).splitlines()[0]) from error
    for entry in found.keys:
        if not (folder / entry.file).is_file():
            raise _wrong(path, f"it names {entry.file}, which is not there")
    return found


def _wrong(path: Path, why: str) -> StreamproofError:
    return StreamproofError(
        f"{path} cannot be used: {why}",
        remedy=f"{path.parent.name}/README.md says how it is written; `just keys add` and `just keys revoke` write it.",
    )


def _start(moment: date) -> datetime:
    if isinstance(moment, datetime):
        return moment
    return datetime.combine(moment, time(), UTC)


def _end(moment: date) -> datetime:
    if isinstance(moment, datetime):
        return moment
    return datetime.combine(moment, time(), UTC) + timedelta(days=1)
