from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.seeds import generator
from bench.workload.script import AGENTS, desks_of_call, more, scripted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.workload.caller import Caller
    from bench.workload.company import Company
    from bench.workload.script import Script
    from bench.workload.wording import Sentence

SUBSETS = st.lists(st.sampled_from(AGENTS), min_size=1, unique=True).map(
    lambda chosen: sorted(chosen, key=AGENTS.index)
)


def said(sentences: Sequence[Sentence]) -> str:
    return " ".join(sentence.text for sentence in sentences)


def call(people: tuple[Company, Caller], agents: Sequence[str], turns: int, seed: int = 0) -> Script:
    company, caller = people
    return scripted(company, caller, agents, turns, generator("script", seed))


@given(st.integers(1, 20), SUBSETS, st.data())
def test_a_call_goes_forward_through_the_recipes_agents(turns: int, agents: list[str], data: st.DataObject) -> None:
    desk = data.draw(st.sampled_from(agents))
    desks = desks_of_call(turns, agents, desk)
    assert len(desks) == turns
    assert set(desks) <= set(agents)
    runs = [agent for place, agent in enumerate(desks) if place == 0 or agent != desks[place - 1]]
    assert len(runs) == len(set(runs))  # nobody comes back
    assert turns < 4 or desk in desks
    assert "closing" not in desks or desk == "closing" or desks.count("closing") == 1


@pytest.mark.parametrize(
    ("turns", "expected"),
    [
        (1, ["router"]),
        (2, ["router", "booking"]),
        (3, ["router", "verification", "booking"]),
        (4, ["router", "verification", "booking", "closing"]),
        (6, ["router", "verification", *["booking"] * 3, "closing"]),
        (8, ["router", "verification", "verification", *["booking"] * 4, "closing"]),
    ],
)
def test_calls_of_the_full_house(turns: int, expected: list[str]) -> None:
    assert desks_of_call(turns, AGENTS, "booking") == expected


@given(st.integers(1, 14), SUBSETS, st.integers(0, 1000))
def test_every_house_has_a_script_for_every_length(
    caller_of_a_company: tuple[Company, Caller], turns: int, agents: list[str], seed: int
) -> None:
    script = call(caller_of_a_company, agents, turns, seed)
    assert len(script.exchanges) == turns
    for exchange in script.exchanges:
        assert exchange.agent in agents
        assert exchange.caller
        assert exchange.reply
        assert "{" not in said(exchange.caller) + said(exchange.reply)


def test_only_the_first_reply_greets_with_the_companys_name(caller_of_a_company: tuple[Company, Caller]) -> None:
    company, _ = caller_of_a_company
    for seed in range(30):
        script = call(caller_of_a_company, AGENTS, 6, seed)
        assert company.name in script.exchanges[0].reply[0].text
        assert all(company.name not in said(exchange.reply) for exchange in script.exchanges[1:-1])


def test_the_front_desk_announces_identification_only_where_it_follows(
    caller_of_a_company: tuple[Company, Caller],
) -> None:
    for seed in range(10):
        assert "registration" in said(call(caller_of_a_company, AGENTS, 6, seed).exchanges[0].reply)
        without = call(caller_of_a_company, ["router", "booking", "support"], 6, seed).exchanges[0].reply
        assert "registration" not in said(without)
        assert "colleague takes care" in said(without) or "hand you over" in said(without)


def test_a_desk_that_picks_up_itself_hands_nobody_over(caller_of_a_company: tuple[Company, Caller]) -> None:
    for agents in (["booking"], ["router"]):
        first = call(caller_of_a_company, agents, 4).exchanges[0]
        assert first.agent == agents[0]
        assert "hand you over" not in said(first.reply)
    first = call(caller_of_a_company, ["verification", "booking"], 4).exchanges[0]
    assert first.agent == "verification"
    assert "registration" in said(first.reply)


def test_the_call_is_about_one_thing_and_ends_with_what_was_agreed(
    caller_of_a_company: tuple[Company, Caller],
) -> None:
    for seed in range(30):
        script = call(caller_of_a_company, AGENTS, 5, seed)
        assert script.facts["summary"] in said(script.exchanges[-1].reply)
        assert script.exchanges[2].agent in {"booking", "support"}


def test_long_calls_ask_other_things_in_between(caller_of_a_company: tuple[Company, Caller]) -> None:
    script = call(caller_of_a_company, ["booking"], 30)
    asked = [said(exchange.caller) for exchange in script.exchanges]
    assert len(set(asked)) > 20


def test_more_begins_with_other_sentences_than_the_calls_own(caller_of_a_company: tuple[Company, Caller]) -> None:
    facts = dict(call(caller_of_a_company, AGENTS, 5).facts)
    for speaker in ("caller", "reply"):
        said_besides = more(facts, generator("more"), speaker)
        first = [next(said_besides).text for _ in range(60)]
        assert len(set(first[:16])) == 16
        assert len(first) == 60
