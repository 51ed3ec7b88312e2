"""What is asked for: a recipe as the command line named it, so that the cluster runs the very same."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from bench.errors import UsageError
from recipes.layers import read_layer
from recipes.schema import Recipe

_PLAIN_PATH: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*(/[A-Za-z0-9_][A-Za-z0-9._-]*)*")
"""Relative, without "..", and without anything that a shell, YAML or a mount would read as more than a name."""


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A recipe to deploy.

    Attributes:
        recipe: resolved; of a GPU.
        target: as it was typed: a name, or the path of a TOML file.
        overrides: that `recipe` was resolved with.
    """

    recipe: Recipe
    target: str
    overrides: Mapping[str, str] = field(default_factory=dict)

    def repro(self, target: str, *options: str) -> tuple[str, ...]:
        """Arguments of the `streamproof` that runs this recipe.

        Args:
            target: what the recipe is called there.
            options: of `repro`.
        """
        sets = [word for key, value in self.overrides.items() for word in ("--set", f"{key}={value}")]
        return ("repro", target, *sets, *options)

    def own_files(self) -> tuple[Path, ...]:
        """The files of a recipe that is not one of ours: its own, and those beside it that it extends."""
        if not self.target.endswith(".toml"):
            return ()
        files = [Path(self.target)]
        while (below := read_layer(files[-1]).extends) is not None:
            beside = files[-1].parent / f"{below}.toml"
            if not beside.is_file():  # one of ours
                break
            files.append(beside)
        return tuple(files)


def plain_path(path: str, *, what: str) -> str:
    """The path, if it can be carried to another machine as it is.

    Args:
        path: relative to the repository, with "/".
        what: it is, for the error.

    Raises:
        UsageError: it is absolute, leaves the repository, or has characters that mean something elsewhere.
    """
    if _PLAIN_PATH.fullmatch(path) is None:
        raise UsageError(
            f"{what} {path!a} cannot be carried to another machine under that name.",
            remedy="Name a path below the repository, of letters, digits, dots, dashes and underscores, e.g. "
            "checkpoints/my-model.",
        )
    return path
