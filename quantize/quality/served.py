"""`served.json`: what a run that served the quantized checkpoint on the real engine showed. Gate 8 of the audit.

Each check has one of three verdicts. "no information" is no failure and no success: random weights accept no drafts,
so their acceptance can be compared with nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from bench.errors import StreamproofError

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA_VERSION: Final = "1.1"
"""1.0 did not tell the target's KV scales from the drafter's, nor a tie from another reply that differs."""
FILE_NAME: Final = "served.json"
READ_LIMIT: Final = 16 << 20
"""Bytes of a `served.json` that is read back; ours have some kilobytes."""

Outcome: TypeAlias = Literal["passed", "failed", "no information"]
CheckName: TypeAlias = Literal[
    "load", "experts", "drafter", "method", "backend", "replies", "repeatable", "acceptance", "quality"
]
KvScales: TypeAlias = Literal["checkpoint", "1.0"]
Finite: TypeAlias = Annotated[float, Field(allow_inf_nan=False)]

CHECKS: Final[tuple[CheckName, ...]] = (
    "load",
    "experts",
    "drafter",
    "method",
    "backend",
    "replies",
    "repeatable",
    "acceptance",
    "quality",
)
"""All of them, in the order in which they are shown."""

MEASURED: Final[frozenset[CheckName]] = frozenset({"acceptance", "quality"})
"""Checks that need the BF16 reference; without one they say nothing, and the run can still pass."""


class Part(BaseModel):
    """Base: frozen, no unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Interval(Part):
    """A figure with its confidence interval.

    Attributes:
        value: the figure.
        low, high: of the interval; None where there are too few blocks for one.
        confidence: of the interval.
        blocks: independent pieces that were redrawn: conversations.
    """

    value: Finite
    low: Finite | None
    high: Finite | None
    confidence: Finite
    blocks: int


class Check(Part):
    """One thing that the run was to show.

    Attributes:
        name: which.
        outcome: what came of it.
        detail: the figures or the offenders, in one or two sentences.
    """

    name: CheckName
    outcome: Outcome
    detail: str


class EngineFacts(Part):
    """What the engine said of itself while it started. None where its log was not ours to read, or does not say.

    Attributes:
        version: vLLM's.
        argv: its whole command line.
        ready_s: seconds from the start of the process to the first answered request.
        quantization: method that it resolved ("modelopt_fp4").
        moe_backend: that it chose for the quantized experts ("MARLIN").
        moe_line: the line that says so.
        linear_kernel: for quantized linear layers, where there are any.
        weight_only: whether it said that only weights are quantized on this card; that says nothing of activations.
        kv_scales: of the target's FP8 cache: "checkpoint", or "1.0" where at least one layer found none there.
        kv_scales_drafter: of the drafter's. "1.0" is usual: an MTP head that is carried over as it was has no
            scales. That can cost accepted drafts and no reply its tokens, which the target decides.
        load_s: reading the weights.
        loaded_gib: memory that they took.
    """

    version: str | None
    argv: tuple[str, ...] | None
    ready_s: Finite | None
    quantization: str | None
    moe_backend: str | None
    moe_line: str | None
    linear_kernel: str | None
    weight_only: bool | None
    kv_scales: KvScales | None
    kv_scales_drafter: KvScales | None = None
    load_s: Finite | None
    loaded_gib: Finite | None


class LoadedTensors(Part):
    """Which of the checkpoint's tensors the engine said it loaded, one group of modules.

    Attributes:
        expected: tensors, fused ones counted once per expert and projection, that the engine names when it loads them.
        loaded: of those, how many it named.
        missing: names of those it did not, at most twenty.
        unseen: tensors that it packs with others and does not name; the other gates of the audit cover these.
    """

    expected: int
    loaded: int
    missing: tuple[str, ...]
    unseen: int


class Replies(Part):
    """The requests.

    Attributes:
        asked: how many.
        exact: how many were answered with the exact token counts, of the prompt and of the reply.
        prompt_tokens, reply_tokens: in all, as the engine counted them.
        first_wrong: the first that was not exact, in words; None where all were.
    """

    asked: int
    exact: int
    prompt_tokens: int
    reply_tokens: int
    first_wrong: str | None


class Parting(Part):
    """Where a later reply to A leaves the first one. Up to there both had the same tokens before them.

    Attributes:
        reply: which one, from 2.
        at: leading tokens that both share.
        gap: by how many nats the two candidates moved against each other from the one reply to the other, at least;
            None where log-probabilities are not there, or one reply ends.
    """

    reply: int
    at: int
    gap: Finite | None


class Repeat(Part):
    """Prompt A, then B, then A several times again, greedily, none of them from a cache.

    Attributes:
        tokens: length of the longest reply to A.
        same: leading tokens that all replies to A share.
        differs_from_b: whether B had another reply than A: if not, equal replies say little.
        replies: to A.
        compared: tokens of later replies that are those of the first one, up to where each parts from it.
        partings: of the later replies that part from the first one.
        other_gap: between the first reply to A and the one to B, where these part; as `Parting.gap`.
        moved: largest change of a log-probability that two replies name after the same tokens, in nats; None without.
    """

    tokens: int
    same: int
    differs_from_b: bool
    replies: int = 2
    compared: int = 0
    partings: tuple[Parting, ...] = ()
    moved: Finite | None = None
    other_gap: Finite | None = None


class Drafts(Part):
    """What came of the drafted tokens.

    Attributes:
        drafts: how often tokens were drafted.
        accepted: by position, how many were accepted.
    """

    drafts: int
    accepted: tuple[int, ...]

    @property
    def rates(self) -> tuple[float, ...]:
        """Accepted share by position."""
        return tuple(count / self.drafts if self.drafts else 0.0 for count in self.accepted)

    @property
    def tokens_a_step(self) -> float:
        """Tokens that a step of the model gives: the drafts accepted and one of its own."""
        return 1 + sum(self.rates)


class Acceptance(Part):
    """Drafts of the quantized checkpoint beside those of the reference, in the same conversations.

    Attributes:
        quantized, reference: what came of them; None where that engine drafted nothing or was not run.
        rates: by position, quantized minus reference, with its interval; empty without a reference.
        tokens_a_step: quantized over reference, with its interval.
    """

    quantized: Drafts | None
    reference: Drafts | None
    rates: tuple[Interval, ...]
    tokens_a_step: Interval | None


class Served(Part):
    """The whole outcome.

    Attributes:
        schema_version: of this model.
        title: one line; what was not real is in it.
        checkpoint: digest of the folder that was served (`quantize.quality.folder.identity`).
        real: False for random or toy weights.
        stand_in: what was served instead of the quantized checkpoint itself, e.g. its weights dequantized to BF16; then
            the run says nothing of the engine's own quantized path. None where it was the checkpoint.
        engine: what the engine said.
        experts, decoder, drafter: what it loaded; None where its log was not ours to read.
        replies, repeat, acceptance: what its requests showed.
        checks: what that comes to, one each of `CHECKS`.
    """

    schema_version: Literal["1.0", "1.1"] = SCHEMA_VERSION
    title: str
    checkpoint: str
    real: bool
    stand_in: str | None
    engine: EngineFacts
    experts: LoadedTensors | None
    decoder: LoadedTensors | None
    drafter: LoadedTensors | None
    replies: Replies
    repeat: Repeat
    acceptance: Acceptance
    checks: tuple[Check, ...]

    @property
    def outcome(self) -> Outcome:
        """Failed where a check failed; passed where all that need no reference passed; else no information."""
        if any(check.outcome == "failed" for check in self.checks):
            return "failed"
        open_ = [c for c in self.checks if c.outcome == "no information" and c.name not in MEASURED]
        return "no information" if open_ else "passed"


def read_served(path: Path) -> Served:
    """A `served.json`.

    Raises:
        StreamproofError: the file is missing, too big, or not one of these.
    """
    remedy = "It is written by `just quantize quality`; make it again."
    try:
        if path.stat().st_size > READ_LIMIT:
            raise StreamproofError(f"{path} is too big to be a result of a serving run", remedy=remedy)
        return Served.model_validate_json(path.read_bytes())
    except OSError as error:
        raise StreamproofError(f"{path} cannot be read: {error.strerror}", remedy=remedy) from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "the file"
        raise StreamproofError(
            f"{path} is no result of a serving run: {where}: {first['msg']}", remedy=remedy
        ) from error
