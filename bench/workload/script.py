"""What a call is about and how it goes: who speaks with whom, in which order, with which sentences.

A caller has one intent. The call goes through the desks that the recipe names: router, verification, then booking or
support, then closing; short calls leave desks out, long calls stay longer where the work is done.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from bench.workload import spoken
from bench.workload.wording import Sentence, filled, shuffled, table
from bench.workload.wording import spoken as said

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator, Mapping, Sequence

    from bench.workload.caller import Caller
    from bench.workload.company import Company

AGENTS: Final = ("router", "verification", "booking", "support", "closing")
"""The agents that the text knows, in the order of a call."""

_WORKDAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday")
_LONG_CALL: Final = 7
"""From so many turns on, verification takes two."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """One turn: what the caller says, and the agent's reply as the script has it."""

    agent: str
    caller: Sequence[Sentence]
    reply: Sequence[Sentence]


@dataclass(frozen=True, slots=True)
class Script:
    """One call.

    Attributes:
        intent: id of the scenario.
        exchanges: the turns in order.
        facts: what was agreed, as people say it.
    """

    intent: str
    exchanges: tuple[Exchange, ...]
    facts: Mapping[str, str]


def desks_of_call(turns: int, agents: Sequence[str], desk: str) -> list[str]:
    """Which agent answers each of `turns` turns.

    Args:
        turns: at least 1.
        agents: the recipe's agents, in the order of a call.
        desk: the agent who does the work; one of `agents`.
    """
    before = [agent for agent in ("router", "verification") if agent in agents and agent != desk]
    if "verification" in before and (turns >= _LONG_CALL or before[0] == "verification"):
        before.append("verification")
    after = ["closing"] if "closing" in agents and desk != "closing" and turns > len(before) + 1 else []
    before = before[: turns - 1] if turns > 1 else before[:1] or [desk]
    middle = turns - len(before) - len(after)
    return [*before, *[desk] * middle, *after]


def facts_of_call(
    company: Company, caller: Caller, scenario: Mapping[str, Any], rng: random.Random, *, written: bool = False
) -> dict[str, str]:
    """Everything that a sentence of this call may mention.

    Args:
        company: whom is called.
        caller: who calls.
        scenario: an entry of `text/scenarios.toml`.
        rng: chooses what is agreed.
        written: amounts as digits (for notes), not as words (for speech).
    """
    amount = str if written else spoken.number
    work = company.service(rng.choice(scenario["works"]))
    if "second" in scenario:
        second = company.service(scenario["second"]).pounds
    else:
        more = company.service(scenario["plus"]).pounds if "plus" in scenario else rng.randint(19, 88)
        second = work.pounds + more
    branch = caller.home
    other = rng.choice([entry for entry in company.branches if entry != branch])
    advisor, technician = branch.staff[1], rng.choice(branch.staff[2:])
    day, day_b = (_WORKDAYS[place] for place in sorted(rng.sample(range(5), 2)))
    opens, closes = branch.weekday
    saturday = tuple(spoken.number((hour - 1) % 12 + 1) for hour in branch.saturday)
    return (
        company.said
        | caller.said()
        | {
            "work": work.spoken,
            "price": amount(work.pounds),
            "price_b": amount(second),
            "hours": "an hour" if work.hours == 1 else f"{spoken.number(work.hours)} hours",
            "branch": branch.town,
            "branch_b": other.town,
            "branch_street": branch.street.split(" ", 1)[1],
            "landmark": branch.landmark,
            "street": rng.choice(company.branches).street.split(" ", 1)[1],
            "advisor": advisor.name.split(" ", maxsplit=1)[0],
            "technician": technician.name.split(" ", maxsplit=1)[0],
            "day": day,
            "day_b": day_b,
            "time": spoken.clock(rng.choice((8, 9, 10)), rng.choice((0, 15, 30, 45))),
            "time_b": spoken.clock(rng.choice((11, 12, 13)), rng.choice((0, 15, 30, 45))),
            "time_c": spoken.clock(rng.choice((15, 16, 17)), rng.choice((0, 15, 30))),
            "drop_from": spoken.clock(opens, 30),
            "hours_weekday": f"from {spoken.number(opens)} to {spoken.number(closes - 12)}",
            "hours_saturday": f"from {saturday[0]} to {saturday[1]}",
            "minutes": spoken.number(rng.choice((20, 25, 30, 35, 40, 50))),
            "reference": " ".join(spoken.number(rng.randint(0, 9)) for _ in range(4)),
        }
    )


def scripted(company: Company, caller: Caller, agents: Sequence[str], turns: int, rng: random.Random) -> Script:
    """A call of `turns` turns from `caller`, with the agents of the recipe."""
    scenarios = table("scenarios")["scenario"]
    scenario = rng.choice([entry for entry in scenarios if entry["desk"] in agents] or scenarios)
    desk = scenario["desk"] if scenario["desk"] in agents else agents[-1]
    facts = facts_of_call(company, caller, scenario, rng)
    facts["summary"] = filled(scenario["summary"], facts).text
    desks = desks_of_call(turns, agents, desk)
    common = table("common")
    verification, work = iter(common["verification"]), _work(desk, scenario, facts, rng)
    exchanges = []
    for place, agent in enumerate(desks):
        facts["agent_name"] = company.voices[AGENTS.index(agent)]
        if place == 0:
            exchanges.append(_opening(agent, _reply_of_opening(desks, desk), scenario, facts, rng))
        elif agent == desk:
            exchanges.append(next(work))
        else:
            step = next(verification) if agent == "verification" else common["closing"]
            exchanges.append(_exchange(agent, step, facts, rng))
    return Script(scenario["id"], tuple(exchanges), facts)


def notes(company: Company, caller: Caller, rng: random.Random) -> Iterator[str]:
    """Lines on earlier calls of `caller`, endless; each ends in a line break."""
    scenarios = table("scenarios")["scenario"]
    while True:
        scenario = rng.choice(scenarios)
        note = filled(scenario["note"], facts_of_call(company, caller, scenario, rng, written=True)).text
        year = rng.randint(max(2021, caller.year), 2025)
        yield f"Call note {year}-{rng.randint(1, 12):02d}-{rng.randint(1, 28):02d}: {note}\n"


def more(facts: Mapping[str, str], rng: random.Random, speaker: str) -> Iterator[Sentence]:
    """What `speaker` ("caller" or "reply") may say besides, endless: for long turns only, whole asides in the end."""
    yield from (filled(template, facts) for template in shuffled(table("common")["more"][speaker], rng))
    while True:
        for aside in shuffled(table("common")["aside"], rng):
            yield from said(aside[speaker], facts, rng)


def _reply_of_opening(desks: Sequence[str], desk: str) -> list[str]:
    """What the agent says who picks up: the front desk hands over, other desks start with their own work."""
    common = table("common")["opening"]
    if desks[0] == desk:
        return [common["greeting"], *common["working"]]
    if desks[0] == "verification":
        return [common["greeting"], common["identification_next"]]
    identification = [common["identification_next"]] if "verification" in desks[1:2] else []
    return [common["greeting"], *common["handing_over"][:-1], *identification, common["handing_over"][-1]]


def _opening(
    agent: str, reply: Sequence[str], scenario: Mapping[str, Any], facts: Mapping[str, str], rng: random.Random
) -> Exchange:
    caller = [table("common")["opening"]["hello"], *scenario["opening"]]
    return Exchange(agent, said(caller, facts, rng), said(reply, facts, rng))


def _work(desk: str, scenario: Mapping[str, Any], facts: Mapping[str, str], rng: random.Random) -> Iterator[Exchange]:
    """The exchanges with the desk that does the work: the scenario's steps, then asides, endless."""
    for step in scenario["step"]:
        yield _exchange(desk, step, facts, rng)
    opening = table("common")["aside_opening"]["caller"]
    while True:
        for aside in shuffled(table("common")["aside"], rng):
            caller = said([opening, *aside["caller"]], facts, rng)
            yield Exchange(desk, caller, said(aside["reply"], facts, rng))


def _exchange(agent: str, step: Mapping[str, Sequence[str]], facts: Mapping[str, str], rng: random.Random) -> Exchange:
    return Exchange(agent, said(step["caller"], facts, rng), said(step["reply"], facts, rng))
