"""Who calls: a person with a car, an account, and a history with the company."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from bench.workload import spoken

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator

    from faker import Faker

    from bench.workload.company import Branch, Company

_CARS: Final = {
    "Ford": ("Fiesta", "Focus", "Kuga", "Puma", "Galaxy"),
    "Vauxhall": ("Corsa", "Astra", "Mokka", "Insignia"),
    "Volkswagen": ("Golf", "Polo", "Passat", "Tiguan"),
    "Toyota": ("Yaris", "Corolla", "Auris", "Prius"),
    "Nissan": ("Micra", "Juke", "Qashqai", "Leaf"),
    "Skoda": ("Fabia", "Octavia", "Karoq", "Superb"),
    "Honda": ("Jazz", "Civic", "Accord"),
    "Kia": ("Picanto", "Ceed", "Sportage", "Niro"),
    "Hyundai": ("Tucson", "Kona", "Ioniq"),
    "Peugeot": ("Partner", "Rifter", "Expert"),
    "Renault": ("Clio", "Megane", "Captur", "Scenic"),
    "Seat": ("Ibiza", "Leon", "Ateca"),
    "Mazda": ("Demio", "Premacy"),
    "Volvo": ("Amazon", "Estate"),
    "Citroen": ("Berlingo", "Picasso", "Cactus"),
    "Suzuki": ("Swift", "Vitara", "Ignis"),
}
_COLOURS: Final = ("silver", "dark blue", "red", "white", "black", "grey", "green", "light blue", "yellow", "brown")
_MONTHS: Final = (
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)
_LAST_YEAR: Final = 2025
"""Of what records tell."""
_ADVISORIES: Final = (
    "nothing found",
    "front tyres at three millimetres",
    "slight play in the left track rod",
    "rear pads at forty per cent",
    "oil mist at the rocker cover",
    "wiper blades worn",
    "surface rust on the rear silencer",
    "battery at seventy per cent",
    "cabin filter very dirty",
    "left dipped beam replaced",
    "small stone chip, outside the view",
    "coolant topped up",
    "brake fluid due next time",
    "nail found in the right rear tyre, repaired",
    "undertray clip missing, replaced",
    "key battery weak",
)
_REMARKS: Final = (
    "prefers text messages",
    "prefers to be called after five",
    "hard of hearing, speak slowly",
    "works nights, never call before noon",
    "shares the car with a sister",
    "asks for the old parts",
    "likes to wait in the branch",
    "wants prices before anything is done",
    "has a dog in the car",
    "needs step-free access",
    "pays by transfer",
    "allergic to air freshener",
    "has complained once, was content with the answer",
    "new customer since last year",
)


@dataclass(frozen=True, slots=True)
class Caller:
    """One caller, who does not exist.

    Attributes:
        first, last: name.
        make, model, colour: of the car.
        year: in which the car was built.
        registration: without spaces, upper case.
        postcode: at home.
        mobile: from the range that the regulator keeps free for fiction.
        email: at a domain that is reserved for examples.
        miles: what the car's clock shows now.
        home: the branch that the caller uses.
        remark: what the account says about dealing with this caller.
        last_month: month of the last visit.
    """

    first: str
    last: str
    make: str
    model: str
    colour: str
    year: int
    registration: str
    postcode: str
    mobile: str
    email: str
    miles: int
    home: Branch
    remark: str
    last_month: str

    @classmethod
    def invented(cls, company: Company, rng: random.Random, fake: Faker) -> Caller:
        """A caller of this company; `fake` has been seeded for this caller alone."""
        make = rng.choice(list(_CARS))
        first, last = fake.first_name(), fake.last_name()
        return cls(
            first=first,
            last=last,
            make=make,
            model=rng.choice(_CARS[make]),
            colour=rng.choice(_COLOURS),
            year=rng.randint(2008, 2024),
            registration=fake.license_plate().replace(" ", ""),
            postcode=fake.postcode(),
            mobile=f"07700 900{rng.randint(0, 999):03d}",
            email=f"{first}.{last}@{fake.safe_domain_name()}".lower().replace("'", ""),
            miles=rng.randint(6, 140) * 1000,
            home=rng.choice(company.branches),
            remark=rng.choice(_REMARKS),
            last_month=rng.choice(_MONTHS),
        )

    def said(self) -> dict[str, str]:
        """The caller's facts as people say them."""
        return {
            "first": self.first,
            "last": self.last,
            "name": f"{self.first} {self.last}",
            "car": f"{self.make} {self.model}",
            "make": self.make,
            "model": self.model,
            "colour": self.colour,
            "reg": spoken.spelled(self.registration),
            "postcode": spoken.spelled(self.postcode),
            "age": spoken.number(_LAST_YEAR + 1 - self.year),
            "miles": spoken.number(self.miles),
            "mobile_end": " ".join(spoken.number(int(digit)) for digit in self.mobile[-3:]),
            "last_visit": f"in {self.last_month}",
        }

    def record(self, company: Company, rng: random.Random) -> Iterator[str]:
        """The caller's record as lines: master data, then visits, the latest first."""
        yield (
            "Call record from the telephone system. The caller does not hear this.\n"
            f"Account holder: {self.first} {self.last}\n"
        )
        yield f"Car: {self.make} {self.model}, {self.colour}, {self.year}, registration {self.registration}\n"
        yield f"Home branch: {self.home.town}\n"
        yield f"Postcode on file: {self.postcode}\n"
        yield f"Mobile: {self.mobile}\n"
        yield f"Mileage, last reading: {self.miles - rng.randint(1, 5) * 700:,}\n"
        yield f"Remark: {self.remark}\n"
        yield f"E-mail: {self.email}\n"
        yield f"Last visit: {self.last_month}\n"
        miles, month = self.miles, 1 + _MONTHS.index(self.last_month)
        for year in range(_LAST_YEAR, _LAST_YEAR - 7, -1):
            miles -= rng.randint(3000, 11000)
            if miles < 1000 or year < self.year:
                break
            service = rng.choice(company.services)
            yield (
                f"Visit {year}-{month:02d}-{rng.randint(1, 28):02d}, "
                f"{rng.choice((self.home, rng.choice(company.branches))).town}, {service.name}, "
                f"{service.pounds} pounds, {miles:,} miles; {rng.choice(_ADVISORIES)}\n"
            )
            month = rng.randint(1, 12)
