"""`left_out.toml` as typed rules: which packages and files a bundle does not carry."""

from __future__ import annotations

import difflib
import fnmatch
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from bench.errors import StreamproofError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

RULES_FILE: Final = Path(__file__).with_name("left_out.toml")
CLIENT: Final = "client"
"""What `of` calls the client's own packages."""


class Rule(BaseModel):
    """One thing that is left out. See the head of the data file."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, alias_generator=lambda name: name.replace("_", "-")
    )

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]*$")]
    of: str
    why: str
    packages: list[str] = []
    megabytes: Annotated[int, Field(gt=0)] | None = None
    files: list[str] = []
    but_not: list[str] = []
    gpus: list[str] | None = None

    @model_validator(mode="after")
    def _of_one_kind(self) -> Rule:
        if bool(self.packages) == bool(self.files) or bool(self.packages) != (self.megabytes is not None):
            raise ValueError("a rule has files, or packages with their megabytes")
        return self

    def leaves_out(self, path: str, python: str) -> bool:
        """Whether a file of the site is not carried.

        Args:
            path: relative to the site.
            python: of the host, as extension modules name it ("312").
        """

        def matches(patterns: Iterable[str]) -> bool:
            return any(fnmatch.fnmatchcase(path, pattern.replace("{python}", python)) for pattern in patterns)

        return matches(self.files) and not matches(self.but_not)


@dataclass(frozen=True)
class Saving:
    """What a rule saved.

    Attributes:
        rule: the rule.
        size: bytes unpacked; of packages to the megabyte, since they were not even downloaded.
    """

    rule: Rule
    size: int


def rules_for(site: str, *, gpu: str | None, keep: Sequence[str] = (), path: Path = RULES_FILE) -> tuple[Rule, ...]:
    """The rules that apply.

    Args:
        site: the engine's lock, or `CLIENT`.
        gpu: the recipe's card, None for a CPU recipe.
        keep: names of rules that shall not apply.
        path: of the data file.

    Raises:
        UsageError: `keep` names no rule.
        StreamproofError: the file is not valid.
    """
    rules = _load(path)
    for name in keep:
        if name not in {rule.name for rule in rules}:
            near = difflib.get_close_matches(name, [rule.name for rule in rules], n=1)
            raise UsageError(
                f"--keep {name}: nothing of this name is left out.",
                remedy=(f"Did you mean {near[0]}? " if near else "")
                + f"Rules: {', '.join(rule.name for rule in rules)}.",
            )
    return tuple(
        rule
        for rule in rules
        if rule.of in (site, "any") and rule.name not in keep and (rule.gpus is None or gpu in rule.gpus)
    )


def leave_out(paths: Sequence[str], rules: Sequence[Rule], python: str) -> dict[str, Rule]:
    """Which of a site's files are not carried, and by which rule: the first that matches.

    Raises:
        StreamproofError: a rule for this site alone matches nothing: it is stale.
    """
    found: dict[str, Rule] = {}
    for rule in rules:
        matched = [path for path in paths if rule.leaves_out(path, python)]
        if rule.files and not matched and rule.of != "any":
            raise StreamproofError(
                f"{RULES_FILE.name}: the rule {rule.name} matches no file of {rule.of}.",
                remedy="The packages changed: correct its patterns, or take the rule out.",
            )
        for path in matched:
            found.setdefault(path, rule)
    return found


def _load(path: Path) -> tuple[Rule, ...]:
    try:
        rules = tuple(
            Rule.model_validate(entry) for entry in tomllib.loads(path.read_text(encoding="utf-8")).get("rule", [])
        )
    except (OSError, tomllib.TOMLDecodeError, ValidationError) as error:
        raise StreamproofError(
            f"the rules of what a bundle leaves out are not valid: {path}: {error}",
            remedy="Compare the file with the one in git.",
        ) from error
    names = [rule.name for rule in rules]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise StreamproofError(f"{path}: two rules are called {twice}.", remedy="Give each its own name.")
    return rules
