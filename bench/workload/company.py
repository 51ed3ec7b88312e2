"""The company behind the voice agent: a chain of garages, different for every seed."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final

from faker import Faker

from bench.seeds import derive, generator
from bench.workload import spoken
from bench.workload.wording import table

if TYPE_CHECKING:
    import random

LOCALE: Final = "en_GB"
_BRANCHES: Final = (9, 13)
_STAFF_PER_BRANCH: Final = 4

_TERMS: Final[dict[str, tuple[int, ...]]] = {
    "notice_hours": (12, 24, 36, 48),
    "late_fee": (15, 20, 25, 30),
    "grace_minutes": (10, 15, 20, 30),
    "deposit": (30, 40, 50, 75),
    "deposit_from": (300, 350, 400, 500),
    "storage_days": (2, 3, 4, 5),
    "storage_fee": (8, 10, 12, 15),
    "wait_minutes": (60, 75, 90),
    "courtesy_fee": (9, 12, 15, 18),
    "courtesy_age": (21, 23, 25),
    "courtesy_excess": (250, 350, 500, 600),
    "refuel_fee": (5, 8, 10),
    "estimate_days": (14, 21, 28, 30),
    "estimate_margin": (5, 8, 10),
    "warranty_months": (12, 18, 24, 36),
    "warranty_miles": (12000, 15000, 20000, 24000),
    "redo_days": (2, 3, 4),
    "complaint_days": (3, 5, 7),
    "refund_days": (3, 5, 7, 10),
    "id_attempts": (2, 3),
    "fleet_limit": (150, 200, 250, 300),
    "fleet_hours": (2, 3, 4, 6),
    "recording_days": (30, 60, 90),
    "recovery_miles": (10, 15, 20, 25),
    "recovery_fee": (49, 59, 69, 79),
    "recovery_mile": (2, 3, 4),
    "callback_hour": (9, 10, 11),
    "old_car_years": (12, 15, 18),
    "match_miles": (5, 8, 10, 15),
    "match_days": (3, 5, 7, 14),
    "split_from": (150, 200, 250, 300),
    "split_parts": (3, 4, 6),
    "loyalty": (20, 25, 30, 50),
    "discount": (5, 8, 10, 12),
    "reminder_days": (21, 28, 30, 35),
    "lost_days": (30, 60, 90),
    "damage_hours": (24, 48, 72),
    "own_parts_rate": (85, 95, 105, 115),
    "access_hours": (2, 4, 12, 24),
    "interpreter_hours": (2, 4, 24),
    "data_days": (14, 21, 30),
    "own_tyre_fee": (14, 16, 18, 22),
    "jump_fee": (29, 35, 39, 45),
    "collect_miles": (3, 5, 8),
    "collect_fee": (12, 15, 19, 25),
    "charge_fee": (10, 12, 15),
    "key_fee": (4, 5, 6),
}
_NAMES: Final = (
    "{a} & {b} Motor Care",
    "{a}'s Garages",
    "{a} & Daughters Car Service",
    "{town} Auto Centres",
    "{a} Brothers Vehicle Service",
    "The {town} Motor Company",
    "{a} & {b} Tyres and Service",
    "{a} Road Garages",
)
_LANDMARKS: Final = (
    "opposite the railway station",
    "next to the builders' merchant",
    "behind the leisure centre",
    "two doors from the fire station",
    "beside the garden centre",
    "across from the retail park",
    "between the church and the bakery",
    "at the roundabout with the old mill wheel",
    "just past the football ground",
    "by the canal bridge",
    "in the yard of the former brewery",
    "above the market square",
    "opposite the primary school",
    "near the bus depot",
)
_PARKING: Final = (
    "six marked bays in front of the desk, more behind the tyre store",
    "four bays beside the entrance and free street parking after six",
    "a shared yard, so please keep the gate clear",
    "a deck on the roof, with a lift down to the desk",
    "two bays under the sign, and the yard behind the blue gate",
    "along the wall on the left, please not in front of the ramps",
    "a gravel yard across the road, which is unlocked until eight",
    "eight bays, two of them wide enough for wheelchairs",
    "three short bays for drop-off, longer stays in the public car park",
    "wide spaces, also for vans and trailers",
)
_EXTRAS: Final = (
    "a charger for electric cars",
    "the high-voltage sign",
    "a ramp for vans up to three and a half tonnes",
    "a four-wheel alignment rig",
    "the largest tyre store",
    "a small room for phone calls",
    "a play corner",
    "late collection on Thursdays",
    "a machine for the newer air-conditioning gas",
    "two automatic courtesy cars",
    "a classic-car ramp",
    "a camera inspection for headlights",
)
_TRAITS: Final = (
    "knows most regular customers by name",
    "trained on hybrid and electric cars",
    "looks after vans and fleets",
    "has done gearboxes for twenty years",
    "the person to ask about older cars",
    "does the alignments",
    "works from Tuesday to Saturday",
    "speaks to customers at collection",
    "responsible for complaints",
    "takes the early shift",
    "takes the late shift",
    "explains bills patiently",
    "does MOT tests",
    "writes the job sheets",
    "runs the recovery truck",
    "is new since spring",
)
_ROLES: Final = ("branch manager", "service adviser", "senior technician", "technician")


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody on the staff."""

    name: str
    role: str
    trait: str


@dataclass(frozen=True, slots=True)
class Branch:
    """One garage. `weekday` and `saturday` are opening and closing hours of the day."""

    town: str
    street: str
    postcode: str
    phone: str
    landmark: str
    parking: str
    extras: tuple[str, ...]
    weekday: tuple[int, int]
    saturday: tuple[int, int]
    bays: int
    since: int
    staff: tuple[Person, ...]


@dataclass(frozen=True, slots=True)
class Service:
    """Something that is sold. `pounds` with tax; `hours` in the workshop."""

    name: str
    spoken: str
    pounds: int
    hours: int
    about: str


@dataclass(frozen=True)
class Company:
    """Everything about a company that prompts and calls may mention.

    Attributes:
        name: as agents say it.
        branches: in the order of the handbook.
        services: what is sold, prices of this company.
        terms: numbers of the house rules, see `text/policies.toml`.
        voices: first names under which the desks answer.
    """

    name: str
    branches: tuple[Branch, ...]
    services: tuple[Service, ...]
    terms: dict[str, int]
    voices: tuple[str, ...]

    @classmethod
    def from_seed(cls, *seed: str | int) -> Company:
        """The company that belongs to `seed`; the same seed gives the same company (with the same Faker release)."""
        rng = generator(*seed, "company")
        fake = Faker(LOCALE)
        fake.seed_instance(derive(*seed, "company", "faker"))
        branches = _branches(rng, fake)
        dear = rng.uniform(0.9, 1.2)
        a, b = fake.last_name(), fake.last_name()
        return cls(
            name=rng.choice(_NAMES).format(a=a, b=b, town=branches[0].town),
            branches=branches,
            services=tuple(
                Service(
                    name=entry["name"],
                    spoken=entry["spoken"],
                    pounds=round(entry["pounds"] * dear * rng.uniform(0.97, 1.03)),
                    hours=entry["hours"],
                    about=entry["about"],
                )
                for entry in table("services")["service"]
            ),
            terms={name: rng.choice(choices) for name, choices in _TERMS.items()},
            voices=tuple(fake.first_name() for _ in range(8)),
        )

    @cached_property
    def written(self) -> dict[str, str]:
        """The terms as a handbook writes them."""
        opens = min(branch.weekday[0] for branch in self.branches)
        terms = {name: f"{value:,}" if value >= 10_000 else str(value) for name, value in self.terms.items()}
        return terms | {"drop_from": f"{opens}:30"}

    @cached_property
    def said(self) -> dict[str, str]:
        """The terms as people say them, with the company's name."""
        return {name: spoken.number(value) for name, value in self.terms.items()} | {"company": self.name}

    def service(self, name: str) -> Service:
        """The service of that name (`text/services.toml`).

        Raises:
            KeyError: there is none.
        """
        return {service.name: service for service in self.services}[name]


def _branches(rng: random.Random, fake: Faker) -> tuple[Branch, ...]:
    towns: list[str] = []
    wanted = rng.randint(*_BRANCHES)
    while len(towns) < wanted:
        town = fake.city()
        if town not in towns:
            towns.append(town)
    landmarks = rng.sample(_LANDMARKS, wanted)
    return tuple(
        Branch(
            town=town,
            street=f"{rng.randint(2, 240)} {fake.street_name()}",
            postcode=fake.postcode(),
            phone=f"01632 960{rng.randint(0, 999):03d}",  # kept free for fiction by the regulator
            landmark=landmark,
            parking=rng.choice(_PARKING),
            extras=tuple(rng.sample(_EXTRAS, 2)),
            weekday=(rng.choice((7, 8)), rng.choice((17, 18, 19))),
            saturday=(rng.choice((8, 9)), rng.choice((12, 13, 14, 16))),
            bays=rng.randint(3, 14),
            since=rng.randint(1961, 2022),
            staff=tuple(
                Person(f"{fake.first_name()} {fake.last_name()}", _ROLES[min(place, 3)], trait)
                for place, trait in enumerate(rng.sample(_TRAITS, _STAFF_PER_BRANCH))
            ),
        )
        for town, landmark in zip(towns, landmarks, strict=True)
    )
