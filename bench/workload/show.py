"""One conversation of a workload, as people would read it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rich.console import Group
from rich.padding import Padding
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from rich.console import RenderableType

    from bench.workload.turn import Turn
    from bench.workload.voice import Call, VoiceWorkload

_EXCERPT: Final = 3
"""Lines of a system prompt that are shown."""


def show(workload: VoiceWorkload, stream: int = 0) -> RenderableType:
    """The first conversation of a stream, with what its prompts share.

    Args:
        workload: any.
        stream: number of the stream.

    Returns:
        Something that `rich` prints.
    """
    call = workload.call(stream, 0)
    primes = workload.primes()
    shares = seen_before([*primes, *call.turns])[len(primes) :]
    return Group(
        Text.assemble(("The agents of ", "bold"), (workload.company.name, "bold cyan")),
        _agents(workload),
        Text(),
        Text.assemble(
            ("A call of ", "bold"),
            (f"{call.caller.first} {call.caller.last}", "bold cyan"),
            (f", stream {stream}", "bold"),
        ),
        _record(call),
        *_spoken(call, shares),
        Text(),
        _sum(workload, call, shares),
    )


def seen_before(turns: Sequence[Turn]) -> list[int]:
    """By turn, how many of its prompt's first tokens an earlier one of these turns began with as well.

    A cache that keeps everything, token by token, could save so many. Engines cache whole blocks: fewer.
    """
    nodes: dict[tuple[int, int], int] = {}
    shares = []
    for turn in turns:
        node = shared = 0
        for segment in turn.segments:
            step = (node, segment.key)
            shared += segment.tokens if step in nodes else 0  # behind an unknown step, every node is a new one
            node = nodes.setdefault(step, len(nodes) + 1)
        shares.append(shared)
    return shares


def _agents(workload: VoiceWorkload) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("agent", style="magenta")
    table.add_column("prefix", justify="right")
    table.add_column("begins with, for every caller of this point", style="dim")
    for agent, message in workload.systems.items():
        lines = message.content.splitlines()
        excerpt = Text("\n".join(lines[:_EXCERPT]), no_wrap=True, overflow="ellipsis")
        excerpt.append(f"\n... {len(lines):,} lines, {len(message.content.split()):,} words", "italic")
        table.add_row(agent, f"{message.part.tokens:,} tokens", excerpt)
    return table


def _record(call: Call) -> RenderableType:
    return Panel(
        Text(call.record, "dim"),
        title="record, the first message of the call: no other call has it",
        title_align="left",
        border_style="dim",
    )


def _spoken(call: Call, shares: Sequence[int]) -> Iterable[RenderableType]:
    for number, (spoken, turn, shared) in enumerate(zip(call.spoken, call.turns, shares, strict=True), start=1):
        yield Text()
        yield Text.assemble(
            (f"{number} {turn.agent}", "bold magenta"),
            (f"  prompt {turn.prompt_tokens:,} tokens, {shared:,} of them seen before ", "dim"),
            (f"({shared / turn.prompt_tokens:.0%})", "dim"),
        )
        yield Padding(Text.assemble(("caller  ", "green"), spoken.caller), (0, 0, 0, 2))
        yield Padding(Text.assemble(("agent   ", "blue"), spoken.reply), (0, 0, 0, 2))


def _sum(workload: VoiceWorkload, call: Call, shares: Sequence[int]) -> Text:
    spec = workload.spec
    mean = sum(turn.prompt_tokens for turn in call.turns) / len(call.turns)
    total = sum(turn.prompt_tokens for turn in call.turns)
    return Text(
        f"Mean prompt {mean:,.1f} tokens; every utterance {spec.caller_tokens} and every reply {spec.output_tokens}, "
        f"exactly. Seen before: {sum(shares) / total:.1%} of all prompt tokens, once the agents' "
        "prefixes are in the cache; an engine saves less, because it caches whole blocks.\n"
        "Replies in the history are scripted, so that every prompt is known before it is sent; the model's own replies "
        "are measured and thrown away.",
        "dim",
    )
