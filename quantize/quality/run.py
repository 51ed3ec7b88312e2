"""`just quantize quality`: measure the quantized checkpoint, measure its reference, put them beside each other."""

from __future__ import annotations

import os
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Final, Literal

import pyarrow as pa
import pyarrow.parquet as pq

from bench.bundle.installed import engine_environment
from bench.engine.environment import ensure_environment
from bench.engine.pins import REPOSITORY
from bench.engine.preflight import check_hardware
from bench.errors import UsageError
from bench.observe.environment import describe_environment
from bench.repro import API_KEY
from bench.workload.tokens import CheckpointTokenizer
from quantize.quality import measure
from quantize.quality.dequantize import dequantize, tenths
from quantize.quality.folder import identity
from quantize.quality.judge import judge
from quantize.quality.pairs import Pairs, pair
from quantize.quality.place import Place, place, serving_flags
from quantize.quality.result import FILE_NAME as QUALITY
from quantize.quality.result import Quality, slices
from quantize.quality.scores import load_scores
from quantize.quality.served import FILE_NAME as SERVED
from quantize.quality.served import Served
from quantize.quality.show import markdown
from quantize.quality.side import SCORES, Settings, Side, kept_side
from quantize.quality.text import HeldOutText, held_out_texts
from recipes.command import engine_arguments

if TYPE_CHECKING:
    from pathlib import Path

    from bench.display import Display
    from bench.observe.gpu import Gpu
    from recipes.schema import FlagValue, Recipe

PAIRS: Final = "pairs.parquet"
SUMMARY: Final = "quality.md"
STAND_IN: Final = "its weights, dequantized to BF16"
FEWEST_TEXTS: Final = 2
"""One for each of the two prompts of the repeat."""

Method = Literal["vllm", "transformers"]
SideName = Literal["quantized", "reference"]


@dataclass(frozen=True, kw_only=True)
class Options:
    """What the user asked for; see the command's help."""

    recipe: Recipe
    quantized: str | None
    reference: str | None
    base_url: str | None
    log: Path | None
    reference_url: str | None
    model: str | None
    method: Method
    dequantized: bool
    texts: int
    seed: int
    top_k: int
    only: SideName | None
    out: Path


@dataclass(frozen=True)
class Outcome:
    """What came of it; None where it was not asked for or cannot be had."""

    quality: Quality | None
    served: Served | None


def assess(options: Options, display: Display) -> Outcome:
    """Measures what is asked for and writes everything into the folder.

    Raises:
        UsageError: the options contradict each other, or a checkpoint is not there.
        StreamproofError: an engine does not start, dies or refuses.
    """
    _check(options)
    assessment = _Assessment(options, display)
    sides: dict[SideName, Side] = {}
    for name in ("quantized", "reference"):
        if options.only in (name, None) and assessment.has(name):
            sides[name] = assessment.side(name)
    quality = assessment.compare(sides)
    served = None
    if "quantized" in sides:
        served = judge(
            sides["quantized"],
            sides.get("reference"),
            quality,
            title=assessment.title,
            real=options.recipe.checkpoint.real,
            stand_in=STAND_IN if options.dequantized else None,
        )
    outcome = Outcome(quality, served)
    assessment.write(outcome)
    return outcome


def _check(options: Options) -> None:
    if options.method == "transformers" and (options.base_url or options.reference_url):
        raise UsageError("--by transformers asks no server", remedy="Leave the address out, or measure by vllm.")
    if options.method == "transformers" and options.reference is None:
        raise UsageError("--by transformers has nothing to compare", remedy="Name the BF16 folder with --reference.")
    if options.only == "reference" and options.reference is None and options.reference_url is None:
        raise UsageError("--only reference: there is none", remedy="Name it with --reference or --reference-url.")
    if options.dequantized and options.base_url:
        raise UsageError("--dequantize needs a folder, not a server", remedy="Give --quantized instead of --base-url.")
    if options.log and not (options.base_url and options.quantized):
        raise UsageError(
            "--log is the log of a server that was there already, serving a checkpoint that can be read",
            remedy="Give --base-url and --quantized too.",
        )
    if options.recipe.checkpoint.kind in ("hub", "dummy") and not (options.quantized or options.base_url):
        raise UsageError(
            f"{options.recipe.target} serves no quantized checkpoint of a folder",
            remedy="Name the checkpoint's folder with --quantized.",
        )


class _Assessment:
    """One run of the command.

    Attributes:
        title: one line; what is not real is in it.
    """

    def __init__(self, options: Options, display: Display) -> None:
        self._options = options
        self._display = display
        recipe = options.recipe
        named = options.quantized or (None if options.base_url else recipe.checkpoint.name)
        self._quantized = place(named) if named else None
        self._reference = place(options.reference) if options.reference else None
        self.title = self._title()
        texts = self._texts(self._quantized or self._reference)
        starts = not (options.base_url and (options.reference_url or not options.reference))
        gpus: tuple[Gpu, ...] = ()
        environment = None
        if starts:
            gpus = check_hardware(recipe.hardware, describe_environment(REPOSITORY))
            lock = recipe.engine.lock
            environment = engine_environment(lock) or ensure_environment(
                lock, say=display.note, terminal=display.is_live
            )
        self._job = measure.Job(
            recipe=recipe,
            environment=environment,
            gpus=gpus,
            texts=texts,
            reply_tokens=recipe.workload.output_tokens,
            display=display,
        )
        options.out.mkdir(parents=True, exist_ok=True)
        display.note(self.title)

    def has(self, name: SideName) -> bool:
        """Whether there is such a side."""
        options = self._options
        return name == "quantized" or bool(options.reference or options.reference_url)

    def side(self, name: SideName) -> Side:
        """Measures it, or takes it from the folder where it was measured before."""
        options = self._options
        folder = options.out / name
        url = options.base_url if name == "quantized" else options.reference_url
        where = self._quantized if name == "quantized" else self._reference
        if url is not None or where is None:
            self._display.note(f"{name}: the server at {url}")
            return measure.by_url(
                self._job,
                self._settings({}),
                folder,
                url=url or "",
                model=options.model,
                api_key=os.environ.get(API_KEY),
                checkpoint=where.folder if where else None,
                log=options.log if name == "quantized" else None,
            )
        flags = serving_flags(
            options.recipe, quantized=name == "quantized" and not options.dequantized, top_k=options.top_k
        )
        digest = identity(where.folder)
        settings = self._settings({} if options.method == "transformers" else flags)
        kept = kept_side(folder, settings, digest)
        if kept is not None:
            self._display.note(f"{name}: taken from {folder}")
            return kept
        self._display.note(f"{name}: {where.folder}")
        checkpoint = self._dequantized(where, digest) if name == "quantized" and options.dequantized else where.folder
        if options.method == "transformers":
            return measure.by_transformers(self._job, settings, folder, checkpoint=checkpoint, digest=digest)
        return measure.by_engine(self._job, settings, folder, checkpoint=checkpoint, digest=digest, flags=flags)

    def compare(self, sides: dict[SideName, Side]) -> Quality | None:
        """Both beside each other, with every pair kept."""
        options = self._options
        if len(sides) < len(("quantized", "reference")):
            return None
        texts = self._job.texts
        pairs = pair(
            load_scores(options.out / "reference" / SCORES),
            load_scores(options.out / "quantized" / SCORES),
            [text.roles for text in texts],
            [text.number for text in texts],
        )
        _write_pairs(options.out / PAIRS, pairs)
        everything, roles, positions = slices(pairs, seed=options.seed)
        settings = sides["quantized"].settings
        return Quality(
            title=self.title,
            method=options.method,
            weights_only=options.dequantized,
            reference=sides["reference"].checkpoint,
            quantized=sides["quantized"].checkpoint,
            workload_version=settings.workload_version,
            seed=options.seed,
            texts=options.texts,
            top_k=options.top_k,
            all=everything,
            roles=roles,
            positions=positions,
        )

    def write(self, outcome: Outcome) -> None:
        """Writes the results beside the sides."""
        out = self._options.out
        for name, part in ((QUALITY, outcome.quality), (SERVED, outcome.served)):
            if part is not None:
                (out / name).write_text(part.model_dump_json(indent=1) + "\n", encoding="utf-8")
        if outcome.quality or outcome.served:
            (out / SUMMARY).write_text(markdown(outcome.quality, outcome.served), encoding="utf-8")

    def _title(self) -> str:
        options = self._options
        name = self._quantized.folder.name if self._quantized else options.base_url
        notes = [
            *(["weights only, dequantized to BF16"] if options.dequantized else []),
            *([] if options.recipe.checkpoint.real else ["toy or random weights"]),
            *(["on a CPU"] if options.recipe.hardware.kind == "cpu" else []),
        ]
        beside = self._reference.folder.name if self._reference else options.reference_url
        return f"{name} beside {beside or 'nothing'}{''.join(f', {note}' for note in notes)}"

    def _texts(self, where: Place | None) -> tuple[HeldOutText, ...]:
        options = self._options
        if where is None:
            raise UsageError(
                "two servers that are there already: whose tokenizer is it?",
                remedy="Name the BF16 folder with --reference too; its tokenizer is used.",
            )
        tokenizer = CheckpointTokenizer.from_folder(where.tokenizer)
        spec = options.recipe.workload
        texts = held_out_texts(spec, tokenizer, seed=options.seed, vocab_size=where.vocab_size)
        return tuple(islice(texts, options.texts))

    def _settings(self, flags: dict[str, FlagValue]) -> Settings:
        options, recipe = self._options, self._options.recipe
        engine = recipe.engine.model_copy(update={"flags": flags})
        words = engine_arguments(recipe.model_copy(update={"engine": engine}), model="", host="", port=0)
        return Settings(
            method=options.method,
            workload=recipe.workload,
            seed=options.seed,
            texts=options.texts,
            top_k=options.top_k,
            scored=options.method == "transformers" or self.has("reference"),
            flags=tuple(words) if flags else (),
        )

    def _dequantized(self, where: Place, digest: str) -> Path:
        folder = self._options.out / f"dequantized-{digest[:12]}"
        if not folder.exists():  # appears only when it is whole
            self._display.note(f"  dequantizing to {folder}")
            dequantize(where.folder, folder, on_bytes=tenths(self._display.note))
        return folder.resolve()


def _write_pairs(path: Path, pairs: Pairs) -> None:
    columns = {name: pa.array(getattr(pairs, name)) for name in Pairs.__slots__}
    pq.write_table(pa.table(columns), path, compression="zstd")
