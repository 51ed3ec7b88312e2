"""Which of a log's failures is the cause: the earliest that echoes no other and that the engine did not survive."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bench.explain.doctor.knowledge import Knowledge, Outcome
    from bench.explain.doctor.start import Seen, Start


@dataclass(frozen=True)
class Causes:
    """What failed in one start.

    Attributes:
        outcome: how the start ended.
        root: the failure to explain; None where nothing failed or only echoes are there.
        others: other failures that may be causes, in the order of the log.
        echoes: failures that repeat another one's.
        survived: failures after which the engine went on: warnings, single requests.
    """

    outcome: Outcome
    root: Seen | None
    others: tuple[Seen, ...]
    echoes: tuple[Seen, ...]
    survived: tuple[Seen, ...]


def causes(start: Start, known: Knowledge) -> Causes:
    """Sorts a start's failures.

    vLLM prints the same exception in its worker, its engine core and its API server. The worker's comes first and
    says where; the outer ones say "Engine core initialization failed". Errors of collective communication are causes
    only where nothing else failed: a rank that dies makes all others lose their connection, often before its own
    traceback reaches the log.
    """
    survived = tuple(seen for seen in start.failures if start.survived(seen))
    fatal = [seen for seen in start.failures if seen not in survived]
    echoes = tuple(seen for seen in fatal if _is_group(seen, known, "@echo"))
    hard = [seen for seen in fatal if seen not in echoes]
    weak = [seen for seen in hard if _is_group(seen, known, "@weak")]
    complete = [seen for seen in hard if seen not in weak and seen.failure.raised]
    cut = [seen for seen in hard if not seen.failure.raised]
    order = [*complete, *cut, *weak]
    root = order[0] if order else None
    return Causes(_outcome(start, root, echoes), root, tuple(order[1:]), echoes, survived)


def _outcome(start: Start, root: Seen | None, echoes: tuple[Seen, ...]) -> Outcome:
    if root is not None:
        return "failed"
    if start.last_death or (echoes and start.stopped is None):
        return "unexplained"
    return "served" if start.stage.value == "ready" else "unfinished"


def _is_group(seen: Seen, known: Knowledge, group: str) -> bool:
    """Whether every exception of the chain is one of the group."""
    phrases = known.phrases([group])
    texts = [raised.text.lower() for raised in seen.failure.raised]
    return bool(texts) and all(any(phrase.is_in(text) for phrase in phrases) for text in texts)
