"""What a run will be, decided before anything is started: recipe, files, hashes, fingerprint."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench.engine.pins import REPOSITORY, load_pins
from bench.errors import StreamproofError
from bench.load.trace import with_traces_pinned
from bench.workload import VERSION
from bench.workload.tokens import CheckpointTokenizer
from bench.workload.voice import VoiceWorkload
from quantize.checkpoint import ResolvedCheckpoint, resolve
from recipes.fingerprint import Pinned, file_sha256, fingerprint

if TYPE_CHECKING:
    from recipes.schema import Recipe


@dataclass(frozen=True, kw_only=True)
class RunPlan:
    """Everything that decides the numbers, with its hashes.

    Attributes:
        recipe: resolved; a hub checkpoint's revision filled in.
        checkpoint: where its files are.
        pinned: the hashes behind the names.
    """

    recipe: Recipe
    checkpoint: ResolvedCheckpoint
    pinned: Pinned

    @property
    def fingerprint(self) -> str:
        """See `recipes.fingerprint`."""
        return fingerprint(self.recipe, self.pinned)


def plan_run(recipe: Recipe, *, external: bool = False) -> RunPlan:
    """Finds the files and hashes that a recipe names.

    Args:
        recipe: resolved.
        external: somebody else's server answers: what it runs on is not ours to pin.

    Raises:
        UsageError: a trace of the ladder is none.
        StreamproofError: the checkpoint is not there, or not reachable.
    """
    recipe = with_traces_pinned(recipe)
    checkpoint = resolve(recipe.checkpoint)
    if external:  # there is no engine start to repeat
        recipe = recipe.model_copy(update={"load": recipe.load.model_copy(update={"runs": 1})})
    if checkpoint.revision != recipe.checkpoint.revision:
        pinned_checkpoint = recipe.checkpoint.model_copy(update={"revision": checkpoint.revision})
        recipe = recipe.model_copy(update={"checkpoint": pinned_checkpoint})
    return RunPlan(
        recipe=recipe,
        checkpoint=checkpoint,
        pinned=pins_of(recipe, None if external else checkpoint.sha256, external=external),
    )


def example_workload(recipe: Recipe) -> VoiceWorkload:
    """The recipe's workload as its first run would begin it, to be looked at."""
    checkpoint = resolve(recipe.checkpoint)
    return VoiceWorkload(
        recipe.workload,
        tokenizer=CheckpointTokenizer.from_folder(checkpoint.tokenizer),
        model=recipe.target,
        seed=("example",),
        vocab_size=checkpoint.vocab_size,
    )


def pins_of(recipe: Recipe, checkpoint_sha256: str | None, *, external: bool = False) -> Pinned:
    """The hashes behind the names of a recipe."""
    return Pinned(
        # The process engine runs from the lock; images come into it with the Docker engine.
        lock_sha256=None if external else file_sha256(REPOSITORY / load_pins().engine(recipe.engine.lock).lock),
        image_digest=None,
        checkpoint_sha256=checkpoint_sha256,
        workload_version=VERSION,
    )


def fingerprint_for_show(recipe: Recipe) -> tuple[str, str]:
    """The fingerprint as far as it can be known here and now, and what is missing from it ("" if nothing)."""
    if recipe.checkpoint.kind == "hub":
        missing = "" if recipe.checkpoint.revision else "the checkpoint's commit, which the run resolves"
        return fingerprint(recipe, pins_of(recipe, None)), missing
    try:
        return plan_run(recipe).fingerprint, ""
    except StreamproofError:
        return fingerprint(recipe, pins_of(recipe, None)), "the checkpoint's hash: its files are not here yet"
