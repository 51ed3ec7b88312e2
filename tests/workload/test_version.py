"""The texts are part of the fingerprint by their version, so a changed text needs another version."""

from __future__ import annotations

import hashlib
import json
import re

from faker import Faker

from bench import workload
from bench.workload.company import LOCALE, Company
from bench.workload.conversation import Writer
from bench.workload.script import AGENTS

TEXTS = {
    "1": "5b53729c58fd2ec6e9671afd39c32d38663e79f7eadba4ab3b7368f77bcb39d8",
    "2": "5b53729c58fd2ec6e9671afd39c32d38663e79f7eadba4ab3b7368f77bcb39d8",  # the same texts; two primes a prefix
}
"""By version, the SHA-256 of what `texts` gives."""


def texts() -> list[object]:
    """Prompts and calls of one seed, measured in words and marks, so that no tokenizer matters."""
    writer = Writer(
        Company.from_seed("version"), lambda text: len(re.findall(r"\w+|[^\w\s]|\n", text)), Faker(LOCALE), "version"
    )
    written: list[object] = [writer.system(agent, 9000) for agent in AGENTS]
    for conversation in range(20):
        caller = writer.caller(0, conversation)
        written.append(writer.record(caller, 300, 0, conversation))
        spoken = writer.spoken(caller, AGENTS, (9, 50, 110), 0, conversation)
        written += [[turn.agent, turn.caller, turn.reply] for turn in spoken]
    return written


def test_a_changed_text_has_a_changed_version() -> None:
    digest = hashlib.sha256(json.dumps(texts()).encode()).hexdigest()
    assert TEXTS[workload.VERSION] == digest, "give bench.workload.VERSION a new value and add it to TEXTS"
