from __future__ import annotations

import json
import re
from collections import Counter
from itertools import islice, takewhile

import pytest

from bench.seeds import generator
from bench.workload.company import Company
from bench.workload.handbook import system_lines
from bench.workload.script import AGENTS

WORDS = 5500
"""About 9,000 tokens of a tokenizer with a small vocabulary, 7,500 of a large one."""


def handbook(agent: str, seed: int = 1, words: int = WORDS) -> list[str]:
    """The lines of a system prompt of about so many words."""
    lines, total = [], 0
    for line in system_lines(Company.from_seed("handbook", seed), agent, generator("lines", seed), "handbook", seed):
        lines.append(line)
        total += len(line.split())
        if total >= words:
            break
    return lines


def sentences(lines: list[str]) -> list[str]:
    """Of at least six words, without list marks and speakers."""
    plain = (re.sub(r"^(- |[A-Z][\w' ]{0,30}: )", "", part) for line in lines for part in line.splitlines())
    return [sentence for text in plain for sentence in re.split(r"(?<=[.?!]) ", text) if len(sentence.split()) >= 6]


@pytest.mark.parametrize("agent", AGENTS)
def test_a_long_prompt_hardly_repeats_itself(agent: str) -> None:
    counts = Counter(sentences(handbook(agent)))
    total = counts.total()
    assert total > 350
    assert sum(count - 1 for count in counts.values()) / total < 0.06


@pytest.mark.parametrize("agent", AGENTS)
def test_lines_can_be_cut_anywhere(agent: str) -> None:
    for line in handbook(agent):
        assert line.isascii()
        assert line.endswith("\n")
        assert not line[0].isspace()
        assert "\n\n" not in line
        assert not re.search(r"^## [^\n]*\n$", line)  # no heading without a line below it


@pytest.mark.parametrize("agent", AGENTS)
def test_every_agent_has_its_own_role_rules_and_tools(agent: str) -> None:
    text = "".join(handbook(agent))
    sections = re.findall(r"^## (.*)$", text, flags=re.MULTILINE)
    assert sections[:4] == ["How you speak", "How you work", "Tools", sections[3]]
    assert sections[3].startswith("Example 1")
    assert {"House rules for your desk", "Branches", "Questions that callers ask", "Prices"} <= set(sections)
    names = [json.loads(line)["name"] for line in text.splitlines() if line.startswith("{")]
    assert len(names) == len(set(names)) >= 4
    for other in set(AGENTS) - {agent}:
        assert "".join(handbook(other, words=200)) not in text


def test_tools_know_the_companys_branches_and_services() -> None:
    company = Company.from_seed("handbook", 1)
    tools = [json.loads(line) for line in "".join(handbook("booking")).splitlines() if line.startswith("{")]
    properties = tools[0]["parameters"]["properties"]
    assert properties["branch"]["enum"] == [branch.town for branch in company.branches]
    assert "Full service" in properties["service"]["enum"]


def test_example_calls_are_whole_and_let_the_agent_speak() -> None:
    text = "".join(handbook("support"))
    example = text[text.index("## Example 1") :].splitlines()[1:]
    speech = list(takewhile(lambda line: not line.startswith("## "), example))
    assert any(line.startswith("You: ") for line in speech)
    assert any(line.startswith("Front desk: ") for line in speech)
    assert all(re.match(r"(Caller|You|Front desk|Identification desk|Farewell desk): .", line) for line in speech)


def test_two_companies_share_no_beginning() -> None:
    one, other = "".join(handbook("router", 1)), "".join(handbook("router", 2))
    assert one.splitlines()[0] != other.splitlines()[0]
    assert not set(sentences(handbook("router", 1))[:1]) & set(sentences(handbook("router", 2)))


def test_the_lines_never_end() -> None:
    lines = system_lines(Company.from_seed("handbook", 1), "closing", generator("lines"), "handbook", 1)
    assert len(list(islice(lines, 3000))) == 3000
