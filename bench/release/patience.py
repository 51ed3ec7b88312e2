"""How long we wait for GitHub, and how often we ask again."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Patience:
    """Bounds of waiting. The defaults are for people and workflows; tests wait for nothing.

    Attributes:
        attempts: of one request, or of one upload.
        backoff_s: before the second attempt; doubled before each further one.
        secondary_wait_s: after a secondary rate limit that names no time. GitHub asks for a minute at least
            (https://docs.github.com/en/rest/using-the-rest-api/best-practices-for-using-the-rest-api).
        longest_wait_s: a limit that lasts longer ends the command: its error says until when. A time to wait that the
            server itself asks for (Retry-After) is cut to it.
        timeout_s: for a connection, and for each piece of an answer.
        between_s: from one request to the next; GitHub asks for pauses.
        between_writes_s: from one that changes something to the next; GitHub asks for a second.
    """

    attempts: int = 5
    backoff_s: float = 1.0
    secondary_wait_s: float = 60.0
    longest_wait_s: int = 900
    timeout_s: int = 60
    between_s: float = 0.25
    between_writes_s: float = 1.0

    def before(self, failures: int) -> float:
        """Seconds to wait after so many failures (1 or more)."""
        return self.backoff_s * 2.0 ** (failures - 1)
