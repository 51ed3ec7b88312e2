"""What the engine's ten-second reports say while it serves: hit rate, acceptance, whether anything moves."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from bench.explain.doctor.phrases import Value

_LOAD: Final = re.compile(
    r"Avg prompt throughput: (?P<prompt>[\d.]{1,20}) tokens/s, Avg generation throughput: (?P<output>[\d.]{1,20}) "
    r"tokens/s, Running: (?P<running>\d{1,9}) reqs"
)
_HITS: Final = re.compile(r"(?:Prefix cache hit rate: |GPU: )(?P<percent>[\d.]{1,10})%")
_ACCEPTANCE: Final = re.compile(r"Mean acceptance length: (?P<tokens>[\d.]{1,10})")


class Reports:
    """Gathers the reports of one start.

    Attributes:
        served: requests that were answered with a status of 200 to 299, where the log names requests.
    """

    def __init__(self) -> None:
        self.served = 0
        self._busy = 0
        self._stalled = 0
        self._hits: list[float] = []
        self._acceptance: list[float] = []
        self._acceptances = 0

    def feed(self, message: str) -> bool:
        """Take a line; True where it is a report of an engine that does something."""
        if found := _LOAD.search(message):
            prompt, output, running = float(found["prompt"]), float(found["output"]), int(found["running"])
            self._busy += prompt > 0
            self._stalled = self._stalled + 1 if running and not prompt and not output else 0
            if prompt > 0 and (hits := _HITS.search(message, found.end())):
                self._hits = [max([float(hits["percent"]), *self._hits])]
            return bool(prompt or output)
        if found := _ACCEPTANCE.search(message):
            self._acceptances += 1
            self._acceptance = [max([float(found["tokens"]), *self._acceptance])]
        return False

    def values(self) -> dict[str, Value]:
        """What they come to.

        Returns:
            "served-requests": as `served`; "busy-reports": in how many reports prompts were computed;
            "stalled-reports": how many at the end had requests running and not one token; "prefix-hit-rate-max" in
            percent, "acceptance-max" in tokens a step, over "acceptance-reports" reports.
        """
        values: dict[str, Value] = {
            "served-requests": float(self.served),
            "busy-reports": float(self._busy),
            "stalled-reports": float(self._stalled),
            "acceptance-reports": float(self._acceptances),
        }
        if self._hits:
            values["prefix-hit-rate-max"] = self._hits[0]
        if self._acceptance:
            values["acceptance-max"] = self._acceptance[0]
        return values
