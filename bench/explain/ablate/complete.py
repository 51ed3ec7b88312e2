"""What of a table of configurations and blocks can be compared: every cell of it must be there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletePart:
    """Every one of these configurations was measured in every one of these blocks.

    Attributes:
        names: of the configurations, in order of the plan.
        blocks: in order.
        left_out: the rest, and why.
    """

    names: tuple[str, ...]
    blocks: tuple[int, ...]
    left_out: tuple[str, ...]


def complete_part(
    names: Sequence[str], blocks: int, missing: Mapping[tuple[str, int], str], *, may_drop: bool
) -> CompletePart:
    """The largest complete part of a table.

    An engine that stays and dies takes its own configuration along, and not what the others measured after it: with
    `may_drop` the configurations that lack most are left out one by one, as long as more remains to be compared.

    Args:
        names: configurations; the first is the one that all are compared with, and is never left out.
        blocks: how many there are, from 1.
        missing: why, by configuration and block.
        may_drop: leave out configurations too, and not only blocks.
    """
    lacking = {name: [block for block in range(1, blocks + 1) if (name, block) in missing] for name in names}
    worst_first = sorted(names[1:], key=lambda name: -len(lacking[name])) if may_drop else []
    best, most = list(names), -1
    for drop in range(max(1, len(worst_first))):  # one stays beside the first
        kept = [name for name in names if name not in worst_first[:drop]]
        cells = len(kept) * len(_whole(kept, lacking, blocks))
        if cells > most:
            best, most = kept, cells
    whole = _whole(best, lacking, blocks)
    dropped = [(name, lacking[name][0]) for name in names if name not in best]
    broken = [
        (block, next(name for name in best if block in lacking[name]))
        for block in range(1, blocks + 1)
        if block not in whole
    ]
    return CompletePart(
        names=tuple(best),
        blocks=tuple(whole),
        left_out=(
            *(f"{name}: in block {block} it is {missing[name, block]}" for name, block in dropped),
            *(f"block {block}: {name} is {missing[name, block]}" for block, name in broken),
        ),
    )


def _whole(names: Collection[str], lacking: Mapping[str, Collection[int]], blocks: int) -> list[int]:
    return [block for block in range(1, blocks + 1) if not any(block in lacking[name] for name in names)]
