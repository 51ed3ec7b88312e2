"""The third stage: packed weights and their scales, a file a decoder layer, written by ModelOpt's exporter."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from quantize import __version__
from quantize.stages import calibrate
from quantize.stages.stage import Key
from quantize.worker_process import run_worker

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from quantize.environment import WorkerPlace
    from quantize.stages.fetch import Source
    from quantize.stages.stage import Manifest, Outcome, Workshop
    from quantize.target import Target
    from quantize.worker_process import Progress

NAME: Final = "export"
HF_QUANT_CONFIG: Final = "hf_quant_config.json"
QUANTIZATION_CONFIG: Final = "quantization_config.json"


def export(  # noqa: PLR0913  what it works on, where, and whom it tells
    source: Source,
    ranges: Manifest,
    target: Target,
    shop: Workshop,
    place: WorkerPlace,
    *,
    say: Callable[[str], None],
    on_progress: Callable[[Progress], None],
) -> Manifest:
    """Quantizes the weights.

    Args:
        source: the BF16 checkpoint.
        ranges: what calibration left.
        target: what to make of it.
        shop: where stages work.
        place: where the worker runs.
        say: takes a line.
        on_progress: told how far the worker is.

    Raises:
        StreamproofError: the worker failed.
    """

    def work(partial: Path) -> Outcome:
        job = {
            "source": str(source.folder),
            "out": str(partial),
            "preset": target.preset,
            "kv_cache": target.kv_cache,
            "device": place.device,
            "ranges": str(shop.place(calibrate.NAME)),
        }
        return run_worker(NAME, job, worker=place.worker, folder=partial, on_progress=on_progress)

    key = Key(
        inputs=source.digests | ranges.digests("ranges: "),
        parameters={
            "preset": target.preset,
            "kv_cache": target.kv_cache,
            "device": place.device,
            "packages_sha256": place.worker.environment.packages_sha256,
            "method": __version__,
        },
    )
    return shop.run(NAME, key, work, say=say)
