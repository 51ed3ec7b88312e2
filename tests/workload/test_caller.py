from __future__ import annotations

import re
from datetime import date
from itertools import islice
from typing import TYPE_CHECKING

from faker import Faker

from bench.seeds import generator
from bench.workload.caller import Caller
from bench.workload.company import LOCALE, Company
from bench.workload.script import notes

if TYPE_CHECKING:
    from collections.abc import Iterator


def callers(count: int) -> Iterator[tuple[Company, Caller]]:
    fake = Faker(LOCALE)
    company = Company.from_seed("callers")
    for number in range(count):
        fake.seed_instance(number)
        yield company, Caller.invented(company, generator("caller", number), fake)


def test_callers_differ_and_are_plain_text() -> None:
    seen = {caller.registration for _, caller in callers(60)}
    assert len(seen) == 60
    for company, caller in callers(60):
        text = "".join(caller.record(company, generator("record")))
        assert text.isascii()
        assert re.fullmatch(r"[a-z.\-]+@[a-z.\-]+", caller.email)


def test_what_is_said_of_a_caller_has_no_digits() -> None:
    for _, caller in callers(20):
        assert not any(char.isdigit() for text in caller.said().values() for char in text)


def test_a_record_tells_visits_back_from_now_while_the_car_gets_younger() -> None:
    for company, caller in callers(60):
        lines = list(caller.record(company, generator("record", caller.registration)))
        assert all(line.endswith("\n") for line in lines)
        visits = [re.match(r"Visit ([\d-]+), .* ([\d,]+) miles;", line) for line in lines if line.startswith("Visit")]
        years = [int(visit[1][:4]) for visit in visits if visit]
        miles = [int(visit[2].replace(",", "")) for visit in visits if visit]
        assert years == sorted(set(years), reverse=True)
        if visits and visits[0]:
            assert date.fromisoformat(visits[0][1]).strftime("%B") == caller.last_month
        assert miles == sorted(miles, reverse=True)
        assert all(year >= caller.year for year in years)
        assert all(1000 <= mile <= caller.miles for mile in miles)


def test_notes_of_earlier_calls_never_end() -> None:
    company, caller = next(callers(1))
    lines = list(islice(notes(company, caller, generator("notes")), 200))
    assert all(re.match(r"Call note 202\d-\d\d-\d\d: .*\.\n$", line) for line in lines)
    assert len(set(lines)) > 150
