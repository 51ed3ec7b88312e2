"""What our Dockerfile must never say, as a list of what is wrong with a given one."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from bench.images.layout import USER_ID

SECRET = re.compile(r"TOKEN|SECRET|PASSWORD|API_KEY|PRIVATE_KEY", re.IGNORECASE)
BASE = "${BASE}"


@dataclass
class Stage:
    """One FROM and what follows it."""

    name: str
    base: str
    instructions: list[tuple[str, str]] = field(default_factory=list)

    def last(self, word: str) -> str | None:
        return next((rest for name, rest in reversed(self.instructions) if name == word), None)

    def env(self) -> dict[str, str]:
        pairs = [pair for name, rest in self.instructions if name == "ENV" for pair in rest.split()]
        return dict(pair.partition("=")[::2] for pair in pairs)


def parse(text: str) -> list[Stage]:
    """The stages. Comments are dropped, continued lines joined."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    stages: list[Stage] = []
    for line in filter(str.strip, "\n".join(lines).replace("\\\n", " ").splitlines()):
        word, _, rest = line.partition(" ")
        if word == "FROM":
            base, _, name = rest.partition(" AS ")
            stages.append(Stage(name=name, base=base))
        elif stages:
            stages[-1].instructions.append((word, rest.strip()))
        else:
            assert (word, rest) == ("ARG", "BASE"), "before the first FROM there is the base and nothing else"
    return stages


def wrong(text: str) -> list[str]:
    """Each rule that is broken, with its stage."""
    found = [] if not text.startswith("# syntax") else ["a frontend would have to be fetched"]
    for stage in parse(text):
        if stage.base != BASE:
            found.append(f"{stage.name}: a base that is not given by digest: {stage.base}")
        if stage.last("USER") != f"{USER_ID}:{USER_ID}":
            found.append(f"{stage.name}: runs as {stage.last('USER') or 'root'}")
        said = " ".join(rest for _, rest in stage.instructions)
        if ":latest" in said:
            found.append(f"{stage.name}: latest")
        if SECRET.search(said):
            found.append(f"{stage.name}: a secret")
        if re.search(r"https?://|\b(apt-get|pip|curl|wget|git) ", said):
            found.append(f"{stage.name}: something is fetched while it is built")
        if "ADD" in dict(stage.instructions):
            found.append(f"{stage.name}: ADD, which fetches and unpacks")
    return found
