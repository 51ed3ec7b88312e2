from __future__ import annotations

import re
from itertools import islice

from bench.workload.company import Company
from bench.workload.corpus import SPECIAL_TOKENS, training_dialogues, training_text


def test_the_same_seed_gives_the_same_text() -> None:
    assert list(islice(training_text(3), 5)) == list(islice(training_text(3), 5))
    assert next(training_text(3)) != next(training_text(4))


def test_a_text_is_a_whole_request_with_its_reply() -> None:
    for text in islice(training_text(3), 30):
        roles = re.findall(r"<\|im_start\|>(\w+)\n", text)
        assert roles[:2] == ["system", "user"]
        assert roles[2::2] == ["user"] * len(roles[2::2])
        assert roles[3::2] == ["assistant"] * len(roles[3::2])
        assert text.count("<think>\n\n</think>\n\n") == 1
        last = text[text.rindex("<|im_start|>") :]
        assert re.fullmatch(r"<\|im_start\|>assistant\n<think>\n\n</think>\n\n[^<]+<\|im_end\|>\n", last)


def test_only_registered_special_tokens_are_written_out() -> None:
    for text in islice(training_text(3), 30):
        assert set(re.findall(r"<[^ >]+>", text)) <= set(SPECIAL_TOKENS)


def test_prompts_of_many_lengths_from_many_companies() -> None:
    dialogues = list(islice(training_dialogues(3), 60))
    lengths = [len(dialogue.system.split()) for dialogue in dialogues]
    assert min(lengths) < 300
    assert max(lengths) > 2000
    assert len({dialogue.turns[-1].agent for dialogue in dialogues}) == 5
    assert any("price" in dialogue.record or "Visit" in dialogue.record for dialogue in dialogues)


def test_training_and_benchmark_are_of_different_companies() -> None:
    training = "".join(islice(training_text(1), 50))
    assert Company.from_seed("benchmark", 1, 0).name not in training
    assert Company.from_seed("training", 1, 0).name in training
