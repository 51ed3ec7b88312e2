"""How long computing a report again would take, before it is begun.

A few records can name prompts of 10^12 tokens; predicting their prefix-cache hits walks over every block of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from bench.observe.observations import EngineStarted
from bench.report import folder_files as files
from bench.report.columns import Columns
from bench.report.prefix import MOST_PREDICTED
from bench.report.verify_files import Finding, RefusedError

if TYPE_CHECKING:
    from bench.report.evidence import Evidence

STEPS_LIMIT: Final = 100_000_000
"""Cache blocks of all prompts and tokens of all replies of one run: the most requests that are predicted, of 10,000
tokens in blocks of 16 each, take 63 million."""


def check_work(evidence: Evidence) -> None:
    """Refuses evidence that no measurement has.

    Raises:
        RefusedError: its prompts and replies are longer than all requests that are predicted could have together.
    """
    sizes = {seen.run: seen.block_size for seen in evidence.observations if isinstance(seen, EngineStarted)}
    columns = Columns.of(evidence.records)
    # Sums as floats: the tokens of a hostile file can add up to more than 64 bits.
    before = np.concatenate(([0.0], np.cumsum(columns.segment_tokens, dtype=np.float64)))
    prompts = before[columns.segment_start[1:]] - before[columns.segment_start[:-1]]
    replies = columns.requested.astype(np.float64) + np.nan_to_num(columns.completion)
    for run, size in sizes.items():
        rows = columns.run == run
        steps = float(prompts[rows].sum() / max(1, size or 1) + replies[rows].sum())
        if rows.sum() <= MOST_PREDICTED and steps > STEPS_LIMIT:
            reason = f"names prompts and replies of {steps:.3g} cache blocks and tokens in run {run}; no run has those"
            raise RefusedError(Finding(files.RECORDS, reason))
