"""Block sizes that were tried, on a terminal and as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from rich import box
from rich.console import Group
from rich.table import Table
from rich.text import Text

from bench.explain.preflight.blocks import FINEST
from bench.report.render import words

if TYPE_CHECKING:
    from rich.console import RenderableType

    from bench.explain.preflight.blocks import Blocks


_WRONG: Final = "with which prompts would go on from wrong recurrent states."


def blocks_shown(blocks: Blocks) -> RenderableType:
    """What was tried, and the pairs that none beats, for people."""
    heading, tried = Text("Cache blocks", style="bold"), Text(_tried(blocks), style="dim")
    return Group(heading, tried, _table(blocks)) if blocks.shown else Group(heading, tried)


def blocks_data(blocks: Blocks) -> dict[str, Any]:
    """The same for scripts; tokens and steps are means of a prompt, one request at a time."""
    return {
        "tried": blocks.tried,
        "left_out": blocks.misnaming,
        "sizes": list(blocks.sizes),
        "choices": [
            {
                "block_size": choice.block_size,
                "prefix_match_unit": choice.match_unit,
                "computed_tokens": choice.computed,
                "steps": choice.steps,
                "sequences": choice.sequences,
                "hits": choice.hits,
                "lasting_hits": choice.lasting,
                "current": choice.current,
                "beaten": choice not in blocks.front,
            }
            for choice in blocks.shown
        ],
    }


def _tried(blocks: Blocks) -> str:
    if not blocks.sizes:
        return f"No block can be tried: the smallest, {blocks.smallest:,} tokens, does not fit max_num_batched_tokens."
    units = f", each without a match unit and with those from its half to its {FINEST}th" if blocks.units else ""
    return (
        f"{words.plural(blocks.tried, 'pair')} tried: blocks of {blocks.sizes[0]:,} to {blocks.sizes[-1]:,} tokens, "
        f"every {blocks.sizes.step}{units}. Here is what this recipe has, and what no other pair beats in both tokens "
        "computed and steps of a prompt, one request at a time. Larger blocks leave room for fewer sequences. Hits "
        "are the share of prompt tokens that is not computed; lasting is what remains of it once the pool has been "
        "through, all of the ladder's requests at once."
        + (f" Left out: {words.plural(blocks.misnaming, 'pair')} {_WRONG}" if blocks.misnaming else "")
    )


def _table(blocks: Blocks) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0), show_edge=False)
    for heading in ("block", "unit", "computed", "steps", "sequences", "hits", "lasting"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("", overflow="fold")
    for choice in blocks.shown:
        mark = "" if not choice.current else "this recipe" if choice in blocks.front else "this recipe: beaten"
        table.add_row(
            words.count(choice.block_size),
            words.count(choice.match_unit) if choice.match_unit else "none",
            words.count(round(choice.computed)),
            f"{choice.steps:.2f}",
            words.count(round(choice.sequences)),
            words.percent(choice.hits),
            words.percent(choice.lasting),
            mark,
            style="bold" if choice.current else "",
        )
    return table
