"""The tables of CUDA graph use that vLLM writes into its log with `--cudagraph-metrics`.

Source: `CUDAGraphLogging` in vllm/compilation/cuda_graph.py and `LoggingStatLogger.log` in vllm/v1/metrics/loggers.py,
vLLM 0.26.0. Every `VLLM_LOG_STATS_INTERVAL` seconds (10 by default) the steps since the last table are counted by
tokens, padded tokens and mode, and written as one message of many lines; an interval without steps has no table. The
formatter ends each line with a carriage return and repeats the prefix; the last line of the message is empty:

    INFO 11-30 02:49:01 [cuda_graph.py:123] **CUDAGraph Config Settings:**
    INFO 11-30 02:49:01 [cuda_graph.py:123]
    INFO 11-30 02:49:01 [cuda_graph.py:123] - Mode: FULL_AND_PIECEWISE
    INFO 11-30 02:49:01 [cuda_graph.py:123] - Capture sizes: [5, 10, 20]
    ...
    INFO 11-30 02:49:01 [cuda_graph.py:123] | Unpadded Tokens | Padded Tokens | Num Paddings | Runtime Mode | Count |
    INFO 11-30 02:49:01 [cuda_graph.py:123] |-----------------|---------------|--------------|--------------|-------|
    INFO 11-30 02:49:01 [cuda_graph.py:123] | 15              | 20            | 5            | FULL         | 812   |
    INFO 11-30 02:49:01 [cuda_graph.py:123]

Only steps of the target model are counted, not those of its draft layers.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from bench.observe.observations import GraphSteps, GraphTable

if TYPE_CHECKING:
    from bench.engine.log_lines import LogLine

_BEGIN: Final = "**CUDAGraph Config Settings:**"
_MODE: Final = re.compile(r"^- Mode: (\w+)$")
_SIZES: Final = re.compile(r"^- Capture sizes: \[([\d, ]*)\]$")
_ROW: Final = re.compile(r"^\|\s*(\d+)\s*\|\s*(\d+)\s*\|\s*\d+\s*\|\s*(NONE|PIECEWISE|FULL)\s*\|\s*(\d+)\s*\|$")
_OF_A_TABLE: Final = ("**CUDAGraph", "- ", "|")

MOST_ROWS: Final = 20_000
"""Rows kept of one table: more than an engine has different steps in an interval."""


@dataclass(slots=True)
class _Open:
    """A table that is being read."""

    mode: str | None = None
    sizes: tuple[int, ...] = ()
    rows: list[GraphSteps] = field(default_factory=list)


class GraphTableReader:
    """Turns the lines of one run's log into tables. Processes that write at the same time do not disturb each other.

    Args:
        run: index of the engine start.
    """

    def __init__(self, run: int) -> None:
        self._run = run
        self._open: dict[str, _Open] = {}

    def feed(self, line: LogLine, t: float) -> GraphTable | None:
        """The table that ends before or with this line, if one does.

        Args:
            line: the next line.
            t: when it was read, on the run's clock.
        """
        message = line.message.strip()
        table = self._open.get(line.process)
        if message == _BEGIN:
            self._open[line.process] = _Open()
            return self._closed(table, t)
        if table is None:
            return None
        if message.startswith(_OF_A_TABLE) or (not message and not table.rows):
            _note(table, message)
            return None
        del self._open[line.process]
        return self._closed(table, t)

    def _closed(self, table: _Open | None, t: float) -> GraphTable | None:
        if table is None or table.mode is None or not table.rows:
            return None
        return GraphTable(t=t, run=self._run, mode=table.mode, capture_sizes=table.sizes, steps=tuple(table.rows))


def _note(table: _Open, message: str) -> None:
    if found := _ROW.match(message):
        if len(table.rows) < MOST_ROWS:
            tokens, padded, mode, count = found.groups()
            table.rows.append(
                GraphSteps.model_validate(
                    {"tokens": int(tokens), "padded": int(padded), "mode": mode, "count": int(count)}
                )
            )
    elif found := _MODE.match(message):
        table.mode = found[1]
    elif found := _SIZES.match(message):
        table.sizes = tuple(int(size) for size in found[1].replace(" ", "").split(",") if size)
