"""What a run will be, decided before anything is started: recipe, files, hashes, fingerprint."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, TypeAlias

from bench.bundle.installed import installed_bundle
from bench.engine.cores import divide
from bench.engine.pins import REPOSITORY, load_pins
from bench.errors import StreamproofError, UsageError
from bench.images.definition import image_definition, image_target
from bench.load.trace import with_traces_pinned
from bench.workload import VERSION
from bench.workload.tokens import CheckpointTokenizer
from bench.workload.voice import VoiceWorkload
from quantize.checkpoint import ResolvedCheckpoint, resolve
from recipes.fingerprint import Pinned, engine_fingerprint, file_sha256, fingerprint

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.observe.environment import Environment
    from bench.observe.gpu import Gpu
    from recipes.schema import Recipe

EngineKind: TypeAlias = Literal["process", "docker", "external"]
"""Who starts the engine: we as a process, we in a container, somebody else."""


@dataclass(frozen=True, kw_only=True)
class Host:
    """Where the run takes place.

    Attributes:
        machine: this host.
        gpus: those that the engine may use.
        cores: of this host that the engine may use; None for all.
    """

    machine: Environment
    gpus: Sequence[Gpu]
    cores: set[int] | None

    def shares(self, replicas: int) -> tuple[Share, ...]:
        """An equal share of GPUs and cores for each of so many engines, in the order of the GPUs."""
        each = len(self.gpus) // replicas
        cores = [None] * replicas if self.cores is None else divide(self.cores, replicas)
        return tuple(
            Share(
                replica=number,
                host=replace(self, gpus=self.gpus[number * each : (number + 1) * each], cores=cores[number]),
            )
            for number in range(replicas)
        )


@dataclass(frozen=True, kw_only=True)
class Share:
    """The part of a host that one of several replicas has for itself.

    Attributes:
        replica: from 0.
        host: where it runs, with its own GPUs and cores only.
    """

    replica: int
    host: Host


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

    @property
    def engine_fingerprint(self) -> str:
        """Of what decides which engine is started: see `recipes.fingerprint.engine_fingerprint`."""
        return engine_fingerprint(self.recipe, self.pinned)


def engine_kind(recipe: Recipe, *, asked: str | None, image: str | None, base_url: str | None) -> EngineKind:
    """Who shall answer: what the user asks for, else what fits the recipe and this client.

    Args:
        recipe: resolved.
        asked: "docker" or "process"; None leaves it open.
        image: of a container, given by hand.
        base_url: of a server that is there already.

    Raises:
        UsageError: the wishes contradict each other, or the recipe.
    """
    if base_url is not None and recipe.replicas > 1:
        raise UsageError(
            f"{recipe.target} has {recipe.replicas} replicas (engine.replicas), and --base-url is the address of one "
            "server",
            remedy="Leave --base-url out: streamproof starts the replicas. A server that is there is measured with a "
            "recipe without engine.replicas.",
        )
    if base_url is not None and (asked or image):
        raise UsageError(
            f"--base-url measures a server that is there; {'--image' if image else '--engine'} would start one",
            remedy="Leave one of them out.",
        )
    if asked == "process" and image is not None:
        raise UsageError("--image is an image of a container, and --engine process has none", remedy="Leave one out.")
    if asked not in {None, "docker", "process"}:
        raise UsageError(f"--engine {asked}: there is no such engine", remedy="It is docker or process.")
    if base_url is not None:
        return "external"
    if asked is not None:
        return "docker" if asked == "docker" else "process"
    return "docker" if image is not None or _runs_in_an_image(recipe) else "process"


def plan_run(recipe: Recipe, *, external: bool = False, image_digest: str | None = None) -> RunPlan:
    """Finds the files and hashes that a recipe names.

    Args:
        recipe: resolved.
        external: somebody else's server answers: what it runs on is not ours to pin.
        image_digest: of the image that the engine will run from; None where it runs from the lock.

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
    if external:
        return RunPlan(recipe=recipe, checkpoint=checkpoint, pinned=_pinned(lock=None, image=None, checkpoint=None))
    return RunPlan(recipe=recipe, checkpoint=checkpoint, pinned=pins_of(recipe, checkpoint.sha256, image_digest))


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


def pins_of(recipe: Recipe, checkpoint_sha256: str | None, image_digest: str | None = None) -> Pinned:
    """The hashes behind the names of a recipe whose engine we start: that of its image, or that of its lock."""
    lock = None if image_digest else file_sha256(REPOSITORY / load_pins().engine(recipe.engine.lock).lock)
    return _pinned(lock=lock, image=image_digest, checkpoint=checkpoint_sha256)


@dataclass(frozen=True, kw_only=True)
class ShownFingerprint:
    """A fingerprint as far as it can be known before a run.

    Attributes:
        engine: who starts the engine.
        fingerprint: 64 hex digits.
        missing: what it lacks ("" if nothing).
    """

    engine: EngineKind
    fingerprint: str
    missing: str


def fingerprints_for_show(recipe: Recipe) -> tuple[ShownFingerprint, ...]:
    """Those of the engines that the recipe can run with, the one that `repro` takes by itself first."""
    shown = [_shown(recipe, "process", None)]
    if (digest := _definition(recipe)) is not None:
        shown.append(_shown(recipe, "docker", digest))
    chosen = engine_kind(recipe, asked=None, image=None, base_url=None)
    return tuple(sorted(shown, key=lambda one: one.engine != chosen))


def _shown(recipe: Recipe, engine: EngineKind, image_digest: str | None) -> ShownFingerprint:
    if recipe.checkpoint.kind == "hub":  # not asked here: its commit pins its files
        missing = "" if recipe.checkpoint.revision else "the checkpoint's commit, which the run resolves"
    else:
        try:
            digest = plan_run(recipe, image_digest=image_digest).fingerprint
            return ShownFingerprint(engine=engine, fingerprint=digest, missing="")
        except StreamproofError:
            missing = "the checkpoint's hash: its files are not here yet"
    digest = fingerprint(recipe, pins_of(recipe, None, image_digest))
    return ShownFingerprint(engine=engine, fingerprint=digest, missing=missing)


def _definition(recipe: Recipe) -> str | None:
    """Hash of what the recipe's image is built from; None where no image of ours fits it, or none can be built here."""
    try:
        return image_definition(image_target(recipe)).sha256
    except StreamproofError:
        return None


def _runs_in_an_image(recipe: Recipe) -> bool:
    """Whether a container is what this recipe runs in unless somebody asks for something else."""
    if bundle := installed_bundle():  # what came with it is what is here
        return bundle.image is not None
    return recipe.engine.image is not None and recipe.hardware.kind == "gpu"


def _pinned(*, lock: str | None, image: str | None, checkpoint: str | None) -> Pinned:
    return Pinned(lock_sha256=lock, image_digest=image, checkpoint_sha256=checkpoint, workload_version=VERSION)
