"""The second stage: the ranges of what goes into quantized linears and into the KV cache, on real text."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final

from quantize import __version__
from quantize.stages.stage import Key
from quantize.tensor_files import write_tensor
from quantize.text import token_sequences
from quantize.worker_process import run_worker

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from quantize.environment import WorkerPlace
    from quantize.stages.fetch import Source
    from quantize.stages.stage import Manifest, Outcome, Workshop
    from quantize.target import Target
    from quantize.worker_process import Progress

NAME: Final = "calibrate"
_TOKENS: Final = "tokens.safetensors"


def calibrate(  # noqa: PLR0913  what it works on, where, and whom it tells
    source: Source,
    target: Target,
    shop: Workshop,
    place: WorkerPlace,
    *,
    say: Callable[[str], None],
    on_progress: Callable[[Progress], None],
) -> Manifest:
    """Measures the ranges.

    Args:
        source: the BF16 checkpoint.
        target: what to make of it.
        shop: where stages work.
        place: where the worker runs.
        say: takes a line.
        on_progress: told how far the worker is.

    Raises:
        UsageError: the calibration's text is too short.
        StreamproofError: the worker failed.
    """
    tokens = token_sequences(target.calibration, source.folder)
    settings = target.calibration

    def work(partial: Path) -> Outcome:
        write_tensor(partial / _TOKENS, tokens)
        job = {
            "source": str(source.folder),
            "out": str(partial),
            "preset": target.preset,
            "kv_cache": target.kv_cache,
            "device": place.device,
            "tokens": str(partial / _TOKENS),
            "batch_tokens": settings.batch_tokens,
            "save_every": settings.save_every,
        }
        return run_worker(NAME, job, worker=place.worker, folder=partial, on_progress=on_progress)

    key = Key(
        inputs={**source.digests, "token ids": hashlib.sha256(tokens.content).hexdigest()},
        parameters={
            "preset": target.preset,
            "kv_cache": target.kv_cache,
            "device": place.device,
            "calibration": settings.model_dump(mode="json"),
            "packages_sha256": place.worker.environment.packages_sha256,
            "method": __version__,
        },
    )
    return shop.run(NAME, key, work, say=say)
