from __future__ import annotations

import pytest

from bench.workload.company import Company
from bench.workload.wording import table


def test_the_same_seed_gives_the_same_company() -> None:
    assert Company.from_seed("a", 1) == Company.from_seed("a", 1)


def test_another_seed_gives_another_company() -> None:
    one, other = Company.from_seed("a", 1), Company.from_seed("a", 2)
    assert one.name != other.name
    assert not {branch.town for branch in one.branches} & {branch.town for branch in other.branches}
    assert one.terms != other.terms
    assert [service.pounds for service in one.services] != [service.pounds for service in other.services]
    assert one.voices != other.voices


@pytest.mark.parametrize("seed", range(20))
def test_companies_hold_together(seed: int) -> None:
    company = Company.from_seed("whole", seed)
    towns = [branch.town for branch in company.branches]
    assert 9 <= len(set(towns)) == len(towns) <= 13
    for branch in company.branches:
        assert branch.weekday[0] < branch.weekday[1]
        assert branch.saturday[0] < branch.saturday[1]
        assert branch.staff[0].role == "branch manager"
    assert company.service("Summer tyre, premium").pounds > company.service("Summer tyre, budget").pounds
    assert company.service("Battery test").pounds == 0


def test_a_price_follows_its_base_price() -> None:
    bases = {entry["name"]: entry["pounds"] for entry in table("services")["service"]}
    for service in Company.from_seed("prices").services:
        assert 0.85 * bases[service.name] <= service.pounds <= 1.25 * bases[service.name]


def test_terms_are_written_as_digits_and_said_as_words() -> None:
    company = Company.from_seed("terms")
    assert company.written["warranty_miles"] == f"{company.terms['warranty_miles']:,}"
    assert company.written["deposit"] == str(company.terms["deposit"])
    assert company.said["company"] == company.name
    assert not any(char.isdigit() for name, text in company.said.items() if name != "company" for char in text)


def test_an_unknown_service_is_an_error() -> None:
    with pytest.raises(KeyError):
        Company.from_seed("x").service("Polishing")
