"""From an address to a page. No part of an address becomes a path: what can be asked for is in the catalogue."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlencode, urlsplit

from bench.errors import StreamproofError
from bench.explain.compare.comparable import NotComparableError
from bench.explain.compare.comparison import compare
from bench.explain.compare.page import render_page
from bench.explain.compare.side import read_side
from bench.report.apart import Bounds
from bench.report.render.words import sentence
from bench.report.verify_bounds import MEMORY_BYTES
from bench.serve.beside import p95_table
from bench.serve.filters import Filters, parse_query
from bench.serve.hostile import RefusedFileError, read_file
from bench.serve.pages import COMPARISON_POLICY, PAGE_POLICY, POLICY, beside_page, entry_page, list_page, problem_page

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from bench.report.apart import Apart
    from bench.report.keys import TrustedKey
    from bench.serve.catalogue import Catalogue
    from bench.serve.checker import Checker
    from bench.serve.entry import Entry

SHOWN: Final = 200
"""Entries in one list."""
COMPARED: Final = 8
"""Reports in one comparison."""
COMPARING: Final = Bounds(memory_bytes=MEMORY_BYTES, cpu_s=300)
"""Of one comparison: somebody waits for its page."""


@dataclass(frozen=True, slots=True)
class Response:
    """What is sent back.

    Attributes:
        status: of HTTP.
        body: HTML.
        policy: content security policy of this page.
    """

    status: HTTPStatus
    body: bytes
    policy: str = POLICY


class Site:
    """All pages.

    Args:
        name: the served folder, as it was named.
        catalogue: what lies there.
        checker: what is known of it.
        apart: compares.
        bounds: of one comparison.
    """

    def __init__(
        self, name: str, catalogue: Catalogue, checker: Checker, apart: Apart, *, bounds: Bounds = COMPARING
    ) -> None:
        self._name = name
        self._catalogue = catalogue
        self._checker = checker
        self._apart = apart
        self._bounds = bounds
        self._comparing = threading.Lock()

    def answer(self, target: str) -> Response:
        """The page of an address, as it stands in the request: `/path?query`."""
        try:
            parts = urlsplit(target)
        except ValueError:
            return _problem(HTTPStatus.BAD_REQUEST, "No address", "What was asked for is no address.")
        match unquote(parts.path).strip("/").split("/"):
            case [""]:
                return self._list(parts.query)
            case ["compare"]:
                asked = parse_query(parts.query)
                return self._compare(asked.get("report", []), anyway="anyway" in asked)
            case ["report", name]:
                return self._entry(name)
            case ["report", name, "page"]:
                return self._page(name)
            case _:
                return _missing()

    def _list(self, query: str) -> Response:
        every = self._catalogue.entries()
        self._checker.ask(every)
        filters = Filters.of(query)
        chosen = filters.chosen(every)
        shown = [(entry, self._checker.status(entry)) for entry in chosen[:SHOWN]]
        left_out = max(0, len(chosen) - SHOWN)
        return _page(list_page(self._name, shown, every, filters, left_out=left_out))

    def _entry(self, name: str) -> Response:
        entry = self._find(name)
        if entry is None:
            return _missing()
        self._checker.ask([entry])
        return _page(entry_page(entry, self._checker.status(entry)))

    def _page(self, name: str) -> Response:
        """The page that came with a report, as its maker left it."""
        entry = self._find(name)
        if entry is None:
            return _missing()
        try:
            return Response(HTTPStatus.OK, read_file(entry.path, entry.page), PAGE_POLICY)
        except RefusedFileError as error:
            return _problem(HTTPStatus.NOT_FOUND, "No page", f"The page of {entry.place} cannot be shown: {error}.")

    def _compare(self, names: list[str], *, anyway: bool) -> Response:
        unique = list(dict.fromkeys(names))
        if not 2 <= len(unique) <= COMPARED:
            text = f"Choose from 2 to {COMPARED} reports in the list; the oldest one is the base."
            return _problem(HTTPStatus.BAD_REQUEST, "Nothing to compare", text)
        found = {entry.id: entry for entry in self._catalogue.entries()}
        entries = [found[name] for name in unique if name in found]
        if len(entries) != len(unique):
            return _missing()
        if not all(entry.comparable for entry in entries):
            places = ", ".join(entry.place for entry in entries if not entry.comparable)
            text = f"Only reports that can be read are compared, which these cannot: {places}."
            return _problem(HTTPStatus.BAD_REQUEST, "Nothing to compare", text)
        # The form names the reports in the order of the list, the newest first: the oldest is what the others follow.
        entries.sort(key=lambda entry: entry.started_at)
        paths = [entry.path for entry in entries]
        try:
            with self._comparing:  # one at a time: it takes all of a core
                page = self._apart.run(self._bounds, comparison_page, paths, self._checker.trusted, anyway)
            return _page(page, COMPARISON_POLICY)
        except StreamproofError as error:
            self._checker.ask(entries)
            table = p95_table({f"report {number}": entry.p95 for number, entry in enumerate(entries, start=1)})
            known = [(entry, self._checker.status(entry)) for entry in entries]
            waive = not anyway and isinstance(error, NotComparableError)
            link = f"/compare?{urlencode({'report': unique, 'anyway': 'yes'}, doseq=True)}" if waive else ""
            return _page(beside_page(known, table, sentence(error.message), error.remedy, anyway=link))

    def _find(self, name: str) -> Entry | None:
        return next((entry for entry in self._catalogue.entries() if entry.id == name), None)


def comparison_page(paths: Sequence[Path], trusted: Mapping[str, TrustedKey], anyway: bool) -> str:  # noqa: FBT001  handed on by position
    """The page of a comparison; runs in a process of its own.

    Args:
        paths: of the reports, the base first.
        trusted: keys by id.
        anyway: compare reports that answer different questions.

    Raises:
        StreamproofError: a report is not verified, or they cannot be compared.
    """
    return render_page(compare([read_side(path, trusted) for path in paths], anyway=anyway))


def _page(text: str, policy: str = POLICY) -> Response:
    # A name from a file system may hold what is no character; what is shown of it is escaped before.
    return Response(HTTPStatus.OK, text.encode(errors="replace"), policy)


def _missing() -> Response:
    return _problem(HTTPStatus.NOT_FOUND, "Not here", "There is no such page, or its report is gone. The list has all.")


def _problem(status: HTTPStatus, title: str, text: str) -> Response:
    return Response(status, problem_page(title, text).encode(errors="replace"))
