"""Text of anybody's, and how a cluster reads what we make of it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence

from hypothesis import strategies as st

from bench.deploy.asked import Asked
from recipes.load import load_recipe
from recipes.schema import Recipe

CLIENT = "registry.example/streamproof/bench@sha256:" + "a" * 64

WORST = [
    "",
    " ",
    "\n- name: injected\n",
    '"; touch /tmp/owned; echo "',
    "'; touch /tmp/owned; echo '",
    "$(id) `id` ${HOME} $HOME $$ $(VLLM_API_KEY) $$(VLLM_API_KEY)",
    "\\",
    "\\n\\x41",
    "{{ 7 * 7 }} {% raw %}",
    "#SBATCH --wrap=id",
    "---\nkind: Secret",
    "!!python/object/apply:os.system [id]",
    "*anchor &anchor",
    "yes",
    "0777",
    "null",
    "é \u2028 \u0085 \ufeff 😀 \x07 \x1b[31m \x7f",
    "tab\tand\r\nline",
    "--help",
]

texts = st.one_of(
    st.sampled_from(WORST),
    st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=40),
    st.text("\"'\\$(){}#:-\n \t!&*|>%@`x", max_size=20),
)
"""Whatever a TOML file can say and a process can be given."""


def asked(
    target: str = "h200-fp8-dummy",
    *,
    title: str | None = None,
    flags: Mapping[str, object] | None = None,
    env: Mapping[str, str] | None = None,
    overrides: Mapping[str, str] | None = None,
) -> Asked:
    """A target with some of its values replaced by anything."""
    recipe = load_recipe(target)
    engine = recipe.engine.model_copy(
        update={"flags": {**recipe.engine.flags, **(flags or {})}, "env": {**recipe.engine.env, **(env or {})}}
    )
    changed: Recipe = recipe.model_copy(update={"engine": engine, "title": recipe.title if title is None else title})
    return Asked(recipe=changed, target=target, overrides=overrides or {})


def expanded(text: str, variables: Mapping[str, str]) -> str:
    """What a container gets of an argument: written from the API reference's words on `args`, not from our filter.

    "Variable references $(VAR_NAME) are expanded using the container's environment. If a variable cannot be resolved,
    the reference in the input string will be unchanged. Double $$ are reduced to a single $."
    """
    out = []
    at = 0
    while at < len(text):
        if text.startswith("$$", at):
            out.append("$")
            at += 2
        elif text.startswith("$(", at) and (end := text.find(")", at)) != -1:
            out.append(variables.get(text[at + 2 : end], text[at : end + 1]))
            at = end + 1
        else:
            out.append(text[at])
            at += 1
    return "".join(out)


def bash_words(script: str, *, environment: Mapping[str, str] | None = None) -> list[str]:
    """Runs a script that ends in an array `words`; returns the array, as bytes would be: by NUL."""
    done = subprocess.run(
        ["bash", "-c", f"{script}\nprintf '%s\\0' \"${{words[@]}}\""],
        env={"PATH": os.environ["PATH"], "LC_ALL": "C", **(environment or {})},
        capture_output=True,
        check=True,
    )
    return done.stdout.decode().split("\0")[:-1]


def as_array(words: Sequence[str]) -> str:
    """Quoted words as bash reads them into an array."""
    return f"words=({' '.join(words)})"
