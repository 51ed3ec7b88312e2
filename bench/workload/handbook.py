"""System prompts: what an agent is told about its work and its company, as lines in order of importance, endless.

The lines are ordered so that a short prompt keeps what matters (who you are, how you speak, your tools) and a long one
has everything, with example dialogues as its tail. Tool schemas are part of the text, one JSON object a line: they
count as text for every chat template and need no tool parser on the server.
"""

from __future__ import annotations

import json
from itertools import chain, count
from typing import TYPE_CHECKING, Any

from faker import Faker

from bench.seeds import derive
from bench.workload.caller import Caller
from bench.workload.company import LOCALE
from bench.workload.fit import HEADING
from bench.workload.script import AGENTS, scripted
from bench.workload.wording import filled, raw, shuffled, table

if TYPE_CHECKING:
    import random
    from collections.abc import Iterable, Iterator

    from bench.workload.company import Company
    from bench.workload.script import Script


def system_lines(company: Company, agent: str, rng: random.Random, *seed: str | int) -> Iterator[str]:
    """The lines of one agent's system prompt; each ends in a line break, none starts with white space.

    Args:
        company: whose agent it is.
        agent: one of `script.AGENTS`.
        rng: orders what has no order.
        seed: for the people in the example dialogues.
    """
    yield from _role(company, agent)
    yield from _section("How you speak", (f"- {line}" for line in shuffled(table("agents")["style"]["lines"], rng)))
    yield from _section("How you work", (f"- {line}" for line in table("agents")["agent"][agent]["lines"]))
    yield from _section("Tools", _tools(company, agent))
    examples = _examples(company, agent, rng, *seed)
    yield from next(examples)
    policies = shuffled(table("policies")["policy"], rng)
    own = [policy for policy in policies if agent in policy["desks"]]
    others = [policy for policy in policies if agent not in policy["desks"]]
    yield from _section("House rules for your desk", (_policy(company, policy) for policy in own))
    yield from _section("Branches", _branches(company))
    yield from _section("Questions that callers ask", _questions(company, rng))
    yield from next(examples)
    yield from _section("Prices", _prices(company, rng))
    yield from _section("House rules for everybody", (_policy(company, policy) for policy in others))
    yield from _section("People", _people(company, rng))
    yield from chain.from_iterable(examples)


def _section(title: str, lines: Iterable[str]) -> Iterator[str]:
    """The lines with a heading on the first, so that no heading is left without a line below it."""
    heading = f"{HEADING}{title}\n"
    for line in lines:
        yield f"{heading}{line}\n"
        heading = ""


def _role(company: Company, agent: str) -> Iterator[str]:
    profile = table("agents")["agent"][agent]
    voice = company.voices[AGENTS.index(agent)]
    yield (
        f"You are {voice}, {profile['title']} of {company.name}, a family of {len(company.branches)} garages. "
        f"You speak with callers on the telephone.\n"
    )
    yield f"{profile['task']}\n"
    others = ", ".join(table("agents")["agent"][name]["title"] for name in AGENTS if name != agent)
    yield f"Your colleagues are {others}. Each has one task; you have yours.\n"
    yield (
        "The first message of every call is a record from the telephone system. It is true, it is not spoken by the "
        "caller, and you do not read it out.\n"
    )


def _tools(company: Company, agent: str) -> Iterator[str]:
    introduction = "You may call these functions. One JSON object a line:\n"
    enums = {
        "@branches": [branch.town for branch in company.branches],
        "@services": [service.name for service in company.services[:12]],
    }

    def resolved(value: Any) -> Any:  # noqa: ANN401  JSON has no narrower type
        if isinstance(value, dict):
            return {key: resolved(entry) for key, entry in value.items()}
        return enums.get(value, value) if isinstance(value, str) else value

    for tool in json.loads(raw("tools.json"))[agent]:
        yield introduction + json.dumps(resolved(tool))
        introduction = ""


def _policy(company: Company, policy: dict[str, Any]) -> str:
    return f"{policy['topic']}: {filled(policy['text'], company.written).text}"


def _branches(company: Company) -> Iterator[str]:
    for branch in company.branches:
        yield (
            f"{branch.town}: {branch.street}, {branch.postcode}, {branch.landmark}. Telephone {branch.phone}. "
            f"Open Monday to Friday {branch.weekday[0]}:00 to {branch.weekday[1]}:00, Saturday {branch.saturday[0]}:00 "
            f"to {branch.saturday[1]}:00. Since {branch.since}, {branch.bays} ramps. Parking: {branch.parking}. "
            f"This branch has {branch.extras[0]} and {branch.extras[1]}. Manager: {branch.staff[0].name}."
        )


def _questions(company: Company, rng: random.Random) -> Iterator[str]:
    for entry in shuffled(table("faq")["faq"], rng):
        yield f"Question: {entry['q']}\nAnswer: {filled(entry['a'], company.written).text}"


def _prices(company: Company, rng: random.Random) -> Iterator[str]:
    for service in shuffled(company.services, rng):
        price = f"{service.pounds} pounds" if service.pounds else "free"
        hours = "up to one hour" if service.hours == 1 else f"about {service.hours} hours"
        yield f"{service.name}: {price}, {hours}. {service.about}"


def _people(company: Company, rng: random.Random) -> Iterator[str]:
    for branch in shuffled(company.branches, rng):
        people = "; ".join(f"{person.name}, {person.role}, {person.trait}" for person in branch.staff)
        yield f"{branch.town}: {people}."


def _examples(company: Company, agent: str, rng: random.Random, *seed: str | int) -> Iterator[Iterator[str]]:
    """Example calls in which this agent speaks, each as its lines, endless."""
    fake = Faker(LOCALE)
    number = 0
    for attempt in count():
        fake.seed_instance(derive(*seed, "example", agent, attempt))
        caller = Caller.invented(company, rng, fake)
        script = scripted(company, caller, AGENTS, rng.randint(5, 9), rng)
        if all(exchange.agent != agent for exchange in script.exchanges):
            continue  # a booking call has nothing to show to support
        number += 1
        yield _section(f"Example {number}, {script.intent.replace('_', ' ')}", _dialogue(script, agent))


def _dialogue(script: Script, agent: str) -> Iterator[str]:
    desks = table("agents")["agent"]
    for exchange in script.exchanges:
        speaker = "You" if exchange.agent == agent else _capital(desks[exchange.agent]["title"].removeprefix("the "))
        yield f"Caller: {' '.join(sentence.text for sentence in exchange.caller)}"
        yield f"{speaker}: {' '.join(sentence.text for sentence in exchange.reply)}"


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]
