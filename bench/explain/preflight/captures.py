"""The CUDA graphs that an engine will really capture, from the sizes that it is asked for.

Source: `_set_cudagraph_sizes` in vllm/config/vllm.py, `adjust_cudagraph_sizes_for_spec_decode` in
vllm/config/compilation.py and `CudagraphDispatcher.initialize_cudagraph_keys` in vllm/v1/cudagraph_dispatcher.py, vLLM
0.26.0. Sizes are tokens of a step.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from bench.errors import UsageError

if TYPE_CHECKING:
    from bench.explain.preflight.settings import Settings

_DEFAULT_LARGEST: Final = 512
_DECODE_FULL: Final = frozenset({"FULL", "FULL_DECODE_ONLY", "FULL_AND_PIECEWISE"})
_MIXED_PIECEWISE: Final = frozenset({"PIECEWISE", "FULL_AND_PIECEWISE"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Captures:
    """What is captured.

    Attributes:
        asked: the list before anything is done to it, in order.
        sizes: what is left of it, in order.
        dropped: sizes that a step can have and that were asked for, but that no graph of the list covers, in order.
        piecewise: sizes that are captured in pieces, for steps with prefill in them.
        full: sizes that are captured whole, for steps that only decode.
    """

    asked: tuple[int, ...]
    sizes: tuple[int, ...]
    dropped: tuple[int, ...]
    piecewise: tuple[int, ...]
    full: tuple[int, ...]

    @property
    def largest(self) -> int:
        """Steps of more tokens run without a graph; 0 where there are none."""
        return self.sizes[-1] if self.sizes else 0

    @property
    def graphs(self) -> int:
        """Graphs to capture."""
        return len(self.piecewise) + len(self.full)


def captures_of(settings: Settings) -> Captures:
    """The captures of an engine.

    Raises:
        UsageError: the engine would refuse the list, or nothing of it is left.
    """
    if settings.graph_mode == "NONE":
        return Captures(asked=(), sizes=(), dropped=(), piecewise=(), full=())
    asked = settings.capture_sizes or _default(settings)
    kept = sorted({size for size in asked if size <= settings.max_num_batched_tokens})
    largest = kept[-1] if kept else 0
    if settings.capture_sizes and settings.max_capture not in (None, largest):
        raise UsageError(
            f"max_cudagraph_capture_size is {settings.max_capture}, the largest size that is left is {largest} "
            f"(sizes above max_num_batched_tokens = {settings.max_num_batched_tokens} are removed): vLLM refuses this.",
            remedy="Leave max_cudagraph_capture_size out, or set it to the largest size.",
        )
    step = settings.draft_tokens + 1
    if settings.graph_mode in _DECODE_FULL and step > 1 and settings.release.rounds_captures:
        kept = rounded(kept, step, largest)
    if not kept:
        raise UsageError(
            f"no capture size is left of {list(asked)} (max_num_batched_tokens {settings.max_num_batched_tokens}, "
            f"multiples of {step}).",
            remedy="Ask for at least one size between k + 1 and max_num_batched_tokens, or set enforce_eager.",
        )
    decode = [size for size in kept if step <= size <= step * settings.max_num_seqs]
    mixed = settings.graph_mode in _MIXED_PIECEWISE
    return Captures(
        asked=tuple(sorted(set(asked))),
        sizes=tuple(kept),
        dropped=tuple(size for size in sorted(set(asked)) if kept[-1] < size <= settings.max_num_batched_tokens),
        piecewise=tuple(kept) if mixed else (),
        full=() if settings.graph_mode == "PIECEWISE" else tuple(kept if settings.graph_mode == "FULL" else decode),
    )


def rounded(sizes: list[int], step: int, largest: int) -> list[int]:
    """Each size rounded up to a multiple of `step` (k + 1), those above `largest` dropped without a word.

    The list [1, 2, 4, 8, ..., 12288, 16384] with k = 4 ends at 12,290: 16,385 is above 16,384.
    """
    up = (-(-size // step) * step for size in sizes)
    return sorted({size for size in up if size <= largest}) or ([step] if step <= largest else [])


def _default(settings: Settings) -> tuple[int, ...]:
    """VLLM's own list: 1, 2, 4, steps of 8 below 256, steps of 16 from there."""
    largest = settings.max_capture
    if largest is None:
        largest = min(settings.max_num_seqs * (settings.draft_tokens + 1) * 2, _DEFAULT_LARGEST)
    largest = min(largest, settings.max_num_batched_tokens)
    sizes = [1, 2, 4, *range(8, min(largest + 1, 256), 8), *range(256, largest + 1, 16)]
    if settings.max_num_batched_tokens <= largest:
        sizes.append(settings.max_num_batched_tokens)
    return tuple(sorted({size for size in sizes if size <= largest}))
