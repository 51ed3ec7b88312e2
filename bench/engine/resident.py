"""An engine that stays: started once, lent to one run after another, stopped by whoever started it.

Each run sees it as an engine of its own (`bench.engine.base.Engine`): with events and tables on the run's clock, and
only those of the start and of the run itself. What the engine wrote while it was lent to others is not this run's.
"""

from __future__ import annotations

import contextlib
import secrets
import shutil
from typing import TYPE_CHECKING

from bench.errors import StreamproofError
from bench.observe.observations import ResidentFacts

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

    from bench.engine.base import Clock
    from bench.engine.compiled import Look, Since
    from bench.engine.own import RunningOwn
    from bench.observe.observations import EngineEvent, EngineStarted, GraphTable
    from bench.servers import Server


class ResidentEngine:
    """An engine that is ready and stays so between runs.

    Args:
        running: the engine.
        clock: that it was started with.
        log: that it writes.
    """

    def __init__(self, running: RunningOwn, *, clock: Clock, log: Path) -> None:
        self.running = running
        self.clock = clock
        self.log = log
        self.start = secrets.token_hex(8)
        self.of_start = tuple(running.events())
        self._lent = 0

    def alive(self) -> bool:
        """False once it is known to be dead."""
        return self.running.alive()

    @property
    def death(self) -> str:
        """How it ended, in words, once it has."""
        return self.running.death or "it was stopped"

    def lend(self, *, run: int, clock: Clock, log: Path, beside: int) -> Lent:
        """The engine for one run.

        Args:
            run: index of the engine start in that run.
            clock: of the run.
            log: of the run's report: everything that the engine wrote until the run's end is copied there.
            beside: other engines that stay on the same hardware meanwhile.
        """
        self._lent += 1
        return Lent(self, run=run, clock=clock, log=log, measurement=self._lent, beside=beside)


class Lent:
    """A resident engine during one run. Entering starts nothing, and leaving stops nothing.

    Args:
        resident: the engine.
        run: index of the engine start.
        clock: of the run.
        log: of the run's report.
        measurement: which one on this start, from 1.
        beside: other engines on the same hardware.
    """

    def __init__(  # noqa: PLR0913  what a run wants, and what it is told
        self, resident: ResidentEngine, *, run: int, clock: Clock, log: Path, measurement: int, beside: int
    ) -> None:
        self._resident = resident
        self._run = run
        self._clock = clock
        self._log = log
        self._measurement = measurement
        self._beside = beside

    def __enter__(self) -> LentRunning:
        """See `bench.engine.base.Engine`.

        Raises:
            StreamproofError: the engine has died since it was started.
        """
        running = self._resident.running
        running.events()  # what came since the last run is nobody's
        if not running.alive():
            raise StreamproofError(
                f"the engine that should be measured is gone: {self._resident.death}",
                remedy=f"Its whole log is in {self._resident.log}.",
            )
        running.graph_tables()
        shift = self._clock() - self._resident.clock()
        facts = ResidentFacts(
            start=self._resident.start,
            age_s=self._resident.clock() - running.started.t,
            measurement=self._measurement,
            beside=self._beside,
        )
        started = running.started.model_copy(update={"t": self._clock(), "run": self._run, "resident": facts})
        return LentRunning(running, started, of_start=self._resident.of_start, shift=shift)

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
        /,
    ) -> None:
        """Leave the engine alone, and the report its log."""
        with contextlib.suppress(OSError):  # a full disk: the run has said so, and the log itself stays where it is
            shutil.copyfile(self._resident.log, self._log)


class LentRunning:
    """See `bench.engine.base.RunningEngine`.

    Args:
        running: the engine.
        started: what the run is told of its start.
        of_start: events of the start, before the first run, on the engine's clock.
        shift: the run's clock minus the engine's, seconds.
    """

    def __init__(
        self, running: RunningOwn, started: EngineStarted, *, of_start: tuple[EngineEvent, ...], shift: float
    ) -> None:
        self._running = running
        self._started = started
        self._of_start = of_start
        self._shift = shift

    @property
    def servers(self) -> tuple[Server, ...]:
        """Where it answers."""
        return self._running.servers

    @property
    def model(self) -> str:
        """The name that requests must carry."""
        return self._running.model

    @property
    def started(self) -> EngineStarted:
        """What is known about it, and that it was there before."""
        return self._started

    def alive(self) -> bool:
        """False once it has ended."""
        return self._running.alive()

    def events(self) -> list[EngineEvent]:
        """The events since the last call, oldest first; at the first call those of the start come first."""
        found = [*self._of_start, *self._running.events()]
        self._of_start = ()
        return [event.model_copy(update=self._here(event.t)) for event in found]

    def graph_tables(self) -> list[GraphTable]:
        """What the engine told of its CUDA graphs since the last call, oldest first."""
        return [table.model_copy(update=self._here(table.t)) for table in self._running.graph_tables()]

    def compiled_since(self, moment: Since) -> list[Look]:
        """What it has compiled since a moment: of the run's, if the moment is."""
        return self._running.compiled_since(moment)

    def _here(self, t: float) -> dict[str, float]:
        return {"t": t + self._shift, "run": self._started.run}
