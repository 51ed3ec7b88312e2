"""Changes an allow list, and leaves what people wrote into it: order and comments stay."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import tomlkit
from pydantic import ValidationError

from bench.errors import UsageError
from bench.report import keys
from bench.report.folder_files import write_whole
from bench.report.trust.allow_list import FILE, AllowList, read_allow_list

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import date
    from pathlib import Path

    from tomlkit import TOMLDocument

    from bench.report.trust.validity import Reason


@dataclass(frozen=True, slots=True)
class Limits:
    """For which time a new entry is trusted; None for no limit."""

    not_before: date | None = None
    not_after: date | None = None

    @property
    def written(self) -> dict[str, date]:
        """As keys of an entry."""
        both = {"not_before": self.not_before, "not_after": self.not_after}
        return {key: value for key, value in both.items() if value is not None}


def add_key(folder: Path, file: str, whose: str, limits: Limits) -> None:
    """Adds the entry of a key whose PEM file lies in the folder; one that is there stays as it is.

    Raises:
        StreamproofError: the list cannot be read or written.
        UsageError: an entry like this cannot be.
    """
    if any(entry.file == file for entry in read_allow_list(folder).keys):
        return
    _change(folder, lambda found: _append(found, "keys", {"file": file, "whose": whose} | limits.written))


def add_pem(folder: Path, pem: Path, whose: str, limits: Limits) -> str:
    """Copies a public key into the folder and adds its entry; one that is there stays as it is.

    Returns:
        Its file name there.

    Raises:
        UsageError: no such file, or another key of that name is there.
        StreamproofError: it is no P-256 public key, or the list cannot be written.
    """
    public = keys.parse_public(keys.read_small(pem), str(pem))
    for path in sorted(folder.glob("*.pem")):
        if keys.parse_public(keys.read_small(path), str(path)) == public:
            add_key(folder, path.name, whose, limits)
            return path.name
    place = folder / (pem.name if pem.name != keys.PUBLIC_NAME else f"{keys.key_id(public)[:16]}.pem")
    if place.exists():
        raise UsageError(f"{place} is another key.", remedy="Give the file another name and try again.")
    folder.mkdir(exist_ok=True)
    write_whole(place, keys.public_pem(public))
    add_key(folder, place.name, whose, limits)
    return place.name


def add_identity(folder: Path, identity: str, issuer: str, whose: str, limits: Limits) -> None:
    """Adds an identity of keyless signatures; one that is there stays as it is.

    Raises:
        UsageError: such an entry cannot be.
        StreamproofError: the list cannot be read or written.
    """
    listed = read_allow_list(folder).identities
    if any((entry.identity, entry.issuer) == (identity, issuer) for entry in listed):
        return
    entry = {"identity": identity, "issuer": issuer, "whose": whose} | limits.written
    folder.mkdir(exist_ok=True)
    _change(folder, lambda found: _append(found, "identities", entry))


def revoke_file(folder: Path, file: str, *, reason: Reason, why: str, at: date) -> None:
    """Withdraws trust in a key of the list; one without an entry gets one.

    Raises:
        StreamproofError: the list cannot be read or written.
    """
    add_key(folder, file, "unknown", Limits())
    _change(folder, lambda found: _revoke(found["keys"], "file", file, _revoked(reason, why, at)))


def revoke_identity(folder: Path, identity: str, *, reason: Reason, why: str, at: date) -> None:
    """Withdraws trust in an identity of the list.

    Raises:
        UsageError: it is not in the list.
        StreamproofError: the list cannot be read or written.
    """
    if all(entry.identity != identity for entry in read_allow_list(folder).identities):
        raise UsageError(f"{folder / FILE} names no identity {identity}.", remedy="`just keys list` shows them.")
    _change(folder, lambda found: _revoke(found["identities"], "identity", identity, _revoked(reason, why, at)))


def _revoked(reason: Reason, why: str, at: date) -> dict[str, Any]:
    return {"on": at, "reason": reason} | ({"why": why} if why else {})


def _append(found: TOMLDocument, table: str, entry: dict[str, Any]) -> None:
    entries = found.setdefault(table, tomlkit.aot())
    written = tomlkit.item(entry)
    if entries:
        written.trivia.indent = "\n"  # an empty line between entries
    entries.append(written)


def _revoke(entries: Any, key: str, value: str, revoked: dict[str, Any]) -> None:  # noqa: ANN401  tomlkit's own types
    for entry in entries:
        if entry[key] == value:
            written = tomlkit.inline_table()
            written.update(revoked)
            entry["revoked"] = written


def _change(folder: Path, change: Callable[[TOMLDocument], None]) -> None:
    """Changes the list, and writes it only when it can be read again."""
    read_allow_list(folder)
    path = folder / FILE
    found = tomlkit.parse(path.read_text() if path.is_file() else "")
    change(found)
    text = tomlkit.dumps(found)
    try:
        AllowList.model_validate(tomlkit.parse(text).unwrap())
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(str(step) for step in first["loc"] if not isinstance(step, int))
        raise UsageError(f"no such entry can be: {where}: {first['msg']}", remedy="See keys/README.md.") from error
    write_whole(path, text.encode())


def entry_file(folder: Path, name: str) -> str:
    """The file of a key in the list that somebody names by file or by the beginning of its id.

    Raises:
        UsageError: none, or several.
    """
    found = {}
    for path in sorted(folder.glob("*.pem")):
        key = keys.key_id(keys.parse_public(keys.read_small(path), str(path)))
        if name in (path.name, path.stem) or (len(name) >= 8 and key.startswith(name.lower())):
            found[path.name] = key
    if len(found) != 1:
        how_many = "no key" if not found else f"{len(found)} keys"
        raise UsageError(f"{folder} has {how_many} called {name}.", remedy="`just keys list` shows them.")
    return next(iter(found))
