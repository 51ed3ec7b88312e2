"""`just quantize`: from a target to a signed checkpoint, in one direction.

    fetch -> calibrate -> export -> carry -> audit -> sign

Everything that can be known beforehand is checked first: whether the source is one that can be quantized, and whether
it fits here. Then each stage runs once; a run that was cut off goes on where it stopped.
"""

from __future__ import annotations

import fcntl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from bench.errors import StreamproofError, UsageError
from quantize.available import available, choose_device
from quantize.environment import WorkerPlace, worker_python
from quantize.hashes import Hashes
from quantize.needs import GIB, check, describe, needs
from quantize.provenance import Provenance, StageRecord
from quantize.stages import audit, calibrate, carry, export, fetch, sign
from quantize.stages.stage import Workshop

if TYPE_CHECKING:
    from pathlib import Path

    from quantize.audit.model import Audit
    from quantize.display import Display
    from quantize.options import Options
    from quantize.stages.stage import Manifest
    from quantize.target import Target
    from quantize.worker_process import Progress

MIXED_WARNING: Final = (
    "This preset mixes formats: vLLM takes such a checkpoint as modelopt_mixed only, the recipe b200-nvfp4 refuses it, "
    "and the audit, which knows single-format NVFP4, leaves it unsigned."
)


def quantize(target: Target, options: Options, display: Display) -> Audit | None:
    """Makes the checkpoint.

    Args:
        target: what to make.
        options: where and how.
        display: is told what happens.

    Returns:
        The audit; None when `until` ended the work before it.

    Raises:
        StreamproofError: it cannot be done here, or a stage failed; what is done stays done.
    """
    if options.out.exists() and not sign.is_ours(options.out):
        raise UsageError(
            f"{options.out} exists and was not made by this command", remedy="Name another folder: --out DIR"
        )
    with _alone(options.work):
        return _Run(target, options, display).all()


class _Run:
    """One run of the stages."""

    def __init__(self, target: Target, options: Options, display: Display) -> None:
        self._target = target
        self._options = options
        self._display = display
        self._shop = Workshop(options.work, Hashes(options.work / "hashes.json"))

    def all(self) -> Audit | None:
        """Every stage up to the last one that is asked for."""
        target, options, say = self._target, self._options, self._display.say
        say(f"{target.title}: {target.preset}, KV cache {target.kv_cache}")
        if target.is_mixed:
            say(MIXED_WARNING)
        found = fetch.find(target, folder=options.source, work=options.work)
        there = available(options.work)
        device = choose_device(options.device, there)
        wanted = needs(found.shape, target.calibration, device=device, download_bytes=found.download_bytes)
        say(f"source {found.where}, {found.shape.total_bytes / GIB:.1f} GiB in BF16; on {device} this needs")
        for line in describe(wanted):
            say(f"  {line}")
        check(wanted, there)
        worker = worker_python(options.python, say=say, terminal=self._display.is_live)
        if not worker.environment.locked:
            say(f"The workers run in {worker.python}, which is not the locked environment; the manifests say so.")
        source = fetch.fetch(found, target, self._shop, say=say, on_file=self._files(found))
        if options.until == fetch.NAME:
            return None
        place = WorkerPlace(worker=worker, device=device)
        ranges = calibrate.calibrate(
            source, target, self._shop, place, say=say, on_progress=self._steps(calibrate.NAME)
        )
        self._tell(ranges)
        if options.until == calibrate.NAME:
            return None
        exported = export.export(
            source, ranges, target, self._shop, place, say=say, on_progress=self._steps(export.NAME)
        )
        self._tell(exported)
        if options.until == export.NAME:
            return None
        carried = carry.carry(source, exported, self._shop, say=say, on_shard=self._shards)
        self._tell(carried)
        if options.until == carry.NAME:
            return None
        outcome, audited = audit.audit(
            source,
            carried,
            self._shop,
            name=options.out.name,
            say=say,
            on_progress=lambda p: self._display.step(audit.NAME, p.done_bytes, p.total_bytes, p.doing),
        )
        self._tell(audited)
        if options.until == audit.NAME:
            return outcome
        provenance = Provenance(
            name=options.out.name,
            target=target.model_dump(mode="json"),
            audited=outcome.passed,
            format="mixed" if target.is_mixed else "nvfp4",
            stages=tuple(StageRecord.of(manifest) for manifest in (ranges, exported, carried, audited)),
        )
        sign.sign(provenance, self._shop, options.out, worker=worker, say=say)
        return outcome

    def _tell(self, manifest: Manifest) -> None:
        peak = f", {manifest.peak_rss_bytes / GIB:.1f} GiB of memory" if manifest.peak_rss_bytes else ""
        gpu = f", {manifest.peak_gpu_bytes / GIB:.1f} GiB on the GPU" if manifest.peak_gpu_bytes else ""
        size = sum(record.size for record in manifest.outputs.values())
        self._display.say(f"{manifest.stage}: {manifest.seconds:.1f} s{peak}{gpu}; {size / GIB:.2f} GiB written")

    def _steps(self, stage: str) -> Callable[[Progress], None]:
        def on_progress(progress: Progress) -> None:
            self._display.step(stage, progress.done, progress.of, progress.what)

        return on_progress

    def _shards(self, done: int, of: int) -> None:
        self._display.step(carry.NAME, done, of, f"shard {done} of {of}")

    def _files(self, found: fetch.Found) -> Callable[[str, int], None]:
        total, so_far = found.download_bytes or found.shape.total_bytes, 0

        def on_file(name: str, size: int) -> None:
            nonlocal so_far
            so_far += size
            self._display.step(fetch.NAME, min(so_far, total), total, name)

        return on_file


@contextmanager
def _alone(work: Path) -> Iterator[None]:
    """Holds the work folder, so that two runs do not write into it at once."""
    try:
        work.mkdir(parents=True, exist_ok=True)
        file = (work / ".lock").open("w")
    except OSError as error:
        raise StreamproofError(
            f"cannot use the work folder {work}: {error.strerror}", remedy="Name another one: --work DIR"
        ) from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise StreamproofError(
                f"another run works in {work}", remedy="Wait for it, or name another folder: --work DIR"
            ) from error
        yield
