from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from bench.seeds import generator
from bench.workload.caller import Caller
from bench.workload.company import Company
from bench.workload.script import facts_of_call
from bench.workload.wording import Sentence, filled, one_of, raw, shuffled, spoken, table

TABLES = ("agents", "common", "faq", "policies", "scenarios", "services")


def strings(value: Any) -> Iterator[str]:
    """Every text in a table; numbers are passed over."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for entry in value.values():
            yield from strings(entry)
    elif isinstance(value, list):
        for entry in value:
            yield from strings(entry)


def test_slots_are_filled_and_counted() -> None:
    assert filled("the {car} is {colour}.", {"car": "Jazz", "colour": "red"}) == Sentence("The Jazz is red.", 2)


def test_a_marked_sentence_outweighs_every_number_of_facts() -> None:
    marked = filled("!come in.", {})
    assert marked.text == "Come in."
    assert marked.weight > filled("{a} {a} {a} {a} {a} {a}", {"a": "x"}).weight


def test_the_mark_holds_for_every_wording() -> None:
    rng = generator("test", 1)
    chosen = {one_of("!yes.|no.", {}, rng) for _ in range(40)}
    assert {sentence.text for sentence in chosen} == {"Yes.", "No."}
    assert all(sentence.weight >= 100 for sentence in chosen)


def test_a_slot_without_a_fact_is_an_error() -> None:
    with pytest.raises(KeyError):
        filled("{unknown}", {})


def test_each_slot_is_said_once_in_one_of_its_wordings() -> None:
    said = spoken(["a|b", "c"], {}, generator("test", 3))
    assert said[0].text in {"A", "B"}
    assert said[1:] == [Sentence("C", 0)]


def test_shuffling_loses_nothing() -> None:
    assert sorted(shuffled([3, 1, 2], generator("test", 0))) == [1, 2, 3]


@pytest.mark.parametrize("name", TABLES)
def test_all_text_is_plain_ascii_on_one_line_without_empty_wordings(name: str) -> None:
    for text in strings(table(name)):
        assert text.isascii()
        assert text.isprintable()
        for wording in text.removeprefix("!").split("|"):
            assert wording
            assert wording == wording.strip()


def test_the_tools_are_ascii() -> None:
    assert raw("tools.json").isascii()


def test_everything_that_is_spoken_ends_a_sentence() -> None:
    common, scenarios = table("common"), table("scenarios")["scenario"]
    turns = [*common["verification"], common["closing"], *common["aside"]]
    turns += [step for scenario in scenarios for step in scenario["step"]]
    slots = [slot for turn in turns for slot in (*turn["caller"], *turn["reply"])]
    slots += [slot for scenario in scenarios for slot in (*scenario["opening"], scenario["summary"], scenario["note"])]
    slots += [
        *strings(common["opening"]),
        *strings(common["more"]),
        *strings(common["inside"]),
        *strings(common["front"]),
    ]
    for slot in slots:
        if slot == "!{summary}":
            continue
        for wording in slot.split("|"):
            assert re.search(r"[.?!]$", wording), wording


def test_agents_speak_without_digits_and_without_lists() -> None:
    common, scenarios = table("common"), table("scenarios")["scenario"]
    replies = [*common["verification"], common["closing"], *common["aside"]]
    replies += [step for scenario in scenarios for step in scenario["step"]]
    for turn in replies:
        for slot in turn["reply"]:
            assert not re.search(r"[0-9*\[\]()#]", slot), slot


@pytest.mark.parametrize("scenario", table("scenarios")["scenario"], ids=lambda scenario: str(scenario["id"]))
def test_every_slot_of_a_scenario_has_a_fact(
    scenario: dict[str, Any], caller_of_a_company: tuple[Company, Caller]
) -> None:
    company, caller = caller_of_a_company
    facts = facts_of_call(company, caller, scenario, generator("test", 2)) | {
        "agent_name": "Ann",
        "summary": "All done.",
    }
    spoken_in_calls = {name: value for name, value in table("common").items() if name != "inside"}
    for text in [*strings(scenario), *strings(spoken_in_calls)]:
        for wording in text.split("|"):
            assert "{" not in filled(wording, facts).text


def test_every_slot_of_the_handbook_has_a_fact(caller_of_a_company: tuple[Company, Caller]) -> None:
    company, _ = caller_of_a_company
    for text in [*strings(table("policies")), *strings(table("faq"))]:
        assert "{" not in filled(text, company.written).text
