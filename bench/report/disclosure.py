"""What a report must say of itself: what was not real, what was assumed, and how each figure is defined."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from bench.records import E2E_DEFINITION
from bench.report.model import Assumption
from bench.report.render.words import percent

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bench.observe.lasting import Lasting
    from bench.observe.observations import ContainerFacts, ResidentFacts
    from recipes.schema import Point, Recipe

DEFINITIONS: Final[dict[str, str]] = {
    "E2E": E2E_DEFINITION,
    "TTFT": "Time to first token runs from the intended send time to the first content, reasoning or tool token.",
    "TPOT": "Time per output token is the time from the first to the last token over the tokens in usage minus one; "
    "it is not the time between chunks, which may carry several tokens.",
    "complete reply": "A reply is complete with [DONE], a finish reason, usage, and exactly the requested number of "
    "tokens; everything else is a failure.",
    "failures": "A failure counts as infinitely late in every percentile and certificate; none is dropped.",
    "interrupted by the caller": "A request that the caller interrupted is neither a failure nor a latency sample: "
    "it is in the number of requests and not in n.",
    "window": "A request belongs to the window when its intended send time lies in steady state, before the drain "
    "begins, whenever it ends; priming, ramp and drain are reported apart.",
    "percentile": "A percentile is the smallest observed latency that at least that share of all requests did not "
    "exceed, over the pooled requests of all runs; it is not interpolated, and never a mean of percentiles.",
    "interval": "An interval is distribution-free: two order statistics that enclose the true percentile with at least "
    "the stated confidence; where too few requests allow none, there is no figure either.",
    "certificate": "A limit is certified when so few of n requests were over it that the binomial distribution leaves "
    "at most 1 % chance for it if more than the stated share of all requests were over it.",
    "stream": "A stream is one open voice conversation; it is silent between turns, and then holds no place in the "
    "engine.",
    "turn gap": "The turn gap is the time from the end of a reply to the stream's next request: playback and the "
    "caller's speech.",
    "concurrent requests": "Concurrent requests are requests in flight in a closed loop without turn gaps; they are "
    "not streams.",
    "requests per second": "Requests per second are the complete replies to the window's requests over the length of "
    "the window.",
    "in flight": "Requests in flight are the mean number of requests open in the window, each from its first byte sent "
    "to its end.",
    "prefix hits": "Prefix hits are prompt tokens that the engine took from its prefix cache, by its own counters over "
    "the whole point, priming included.",
    "acceptance length": "Acceptance length is tokens per verification step: 1 + accepted draft tokens / drafts, by "
    "the engine's counters over the whole point.",
    "steady": "A point is steady when dropping what MSER-5 takes for warm-up in its windows would leave p50 and p95 "
    "within the 99 % intervals that they have with all requests; nothing is ever dropped.",
}
"""Each number of a report, in one sentence."""


def not_real(
    recipe: Recipe, *, external: bool, partial: bool, containers: Sequence[ContainerFacts] = ()
) -> tuple[str, ...]:
    """What the title must name.

    Args:
        recipe: as it was run.
        external: somebody else's engine answered.
        partial: the run ended early.
        containers: that the engine ran in.
    """
    checkpoint, dummy = recipe.checkpoint, random_weights(recipe)
    found = {
        "dummy weights": dummy,
        "toy weights": not dummy and not checkpoint.real,
        "unaudited checkpoint": bool(checkpoint.unaudited),
        "synthetic acceptance": accepts_at_random(recipe),
        "CPU": recipe.hardware.kind == "cpu",
        "scaled prompts": bool(scaled(recipe, "workload")),
        "external engine": external,
        "image given by hand": any(container.given for container in containers),
        "base image replaced": any(container.base_replaced for container in containers),
        "partial": partial,
    }
    return tuple(words for words, true in found.items() if true)


def random_weights(recipe: Recipe) -> bool:
    """Whether the engine makes the weights itself: then all logits are nearly equal."""
    return recipe.checkpoint.kind == "dummy" or recipe.engine.flags.get("load_format") == "dummy"


def accepts_at_random(recipe: Recipe) -> bool:
    """Whether drafts are accepted by a stated rate, whatever the model says to them: then replies mean nothing."""
    drafts = json_table(recipe.engine.flags.get("speculative_config"))
    return drafts.get("rejection_sample_method") == "synthetic"


def scaled(recipe: Recipe, *tables: str) -> list[str]:
    """Dotted keys of some of the recipe's tables whose values were made smaller so that they fit."""
    return sorted(
        key for key, source in recipe.sources.items() if source.kind == "scaled" and key.split(".")[0] in tables
    )


def title(recipe: Recipe, unreal: tuple[str, ...]) -> str:
    """The recipe's title and, in brackets, what was not real."""
    return f"{recipe.title} ({', '.join(unreal)})" if unreal else recipe.title


def assumptions(
    recipe: Recipe,
    containers: Sequence[ContainerFacts] = (),
    residents: Sequence[ResidentFacts] = (),
    lasting: Lasting | None = None,
) -> tuple[Assumption, ...]:
    """Every value that the source does not give, or that was scaled, in order of its key; then what ran it, if given.

    Args:
        recipe: as it was run.
        containers: that the engine ran in.
        residents: of engines that were there before the run.
        lasting: what was planned of prefix hits in the long run, where that is known.
    """
    values = recipe.model_dump(mode="json", exclude_none=True)
    of_recipe = [
        Assumption(key=key, value=_words(_at(values, key)), kind=source.kind, why=source.why or "")
        for key, source in sorted(recipe.sources.items())
        if source.kind in ("assumption", "scaled")
    ]
    of_routing = () if recipe.ranks == 1 or "load.affinity" in recipe.sources else (_of_routing(recipe),)
    of_images = (found for one in containers for found in _of_image(one))
    of_hits = () if lasting is None or lasting.lasts else (_of_hits(lasting),)
    return tuple(dict.fromkeys((*of_recipe, *of_routing, *of_images, *map(_of_resident, residents), *of_hits)))


def _of_routing(recipe: Recipe) -> Assumption:
    """How calls find their rank, where the recipe leaves it open."""
    name = "data-parallel rank" if recipe.replicas == 1 else recipe.rank_name
    return Assumption(
        key="load.affinity",
        value="rank",
        kind="assumption",
        why=f"left open: stream s is pinned to {name} s modulo {recipe.ranks}, whose prefix cache then has "
        "the call's earlier turns; a router in front of the engine would have to do the same",
    )


def _of_image(container: ContainerFacts) -> Iterator[Assumption]:
    if container.given:
        yield Assumption(
            key="image", value=container.image_id, kind="assumption", why="given by hand instead of the target's own"
        )
    if container.base_replaced:
        yield Assumption(
            key="image base",
            value=container.base_digest or "unknown",
            kind="assumption",
            why="takes the place of the base that docker/pins.toml names",
        )


def _of_resident(resident: ResidentFacts) -> Assumption:
    others = "1 other engine" if resident.beside == 1 else f"{resident.beside} other engines"
    return Assumption(
        key="engine start",
        value=f"measurement {resident.measurement} on start {resident.start[:8]}, ready for {resident.age_s:.0f} s",
        kind="assumption",
        why="the engine was started before this run and stays: taken to serve like one that was just started"
        + (f", though it stands beside {others} without load" if resident.beside else ""),
    )


def _of_hits(lasting: Lasting) -> Assumption:
    return Assumption(
        key="prefix hits",
        value=f"{percent(lasting.first)} of the prompts' tokens, as at a server's beginning",
        kind="assumption",
        why=f"planned: once some {lasting.lost_after or lasting.requests:,} requests, {lasting.at_once:,} at once, "
        f"have been through {lasting.blocks:,} blocks, {percent(lasting.rate)} are left (just preflight)",
    )


def holds_for(recipe: Recipe, point: Point) -> str:
    """The assumption that decides most at a point, with the value under which the figures were measured."""
    if point.concurrent is not None:
        return "requests back to back, without turn gaps"
    if point.rate is not None:
        return f"{point.label}, whatever the engine does"
    if point.trace is not None:
        return f"the arrivals of the {point.label}"
    gap = point.turn_gap or recipe.load.turn_gap
    words = f"a mean turn gap of {gap.mean_s:g} s ({gap.distribution})"
    return words if point.barge_in is None else f"{words}, {point.barge_in.share * 100:g} % of the replies interrupted"


def json_table(flag: Any) -> dict[str, Any]:  # noqa: ANN401  a flag may have any JSON type
    """A flag that vLLM takes as JSON: a table in most recipes, but its text means the same; empty if it is neither."""
    if isinstance(flag, str):
        try:
            flag = json.loads(flag)
        except json.JSONDecodeError:
            return {}
    return flag if isinstance(flag, dict) else {}


def _at(values: Any, key: str) -> Any:  # noqa: ANN401  a recipe's value may have any JSON type
    """The value at a dotted key; None where the recipe sets none."""
    for part in key.split("."):
        values = values.get(part) if isinstance(values, dict) else None
    return values


def _words(value: Any) -> str:  # noqa: ANN401  as above
    """As people write it: text bare, tables and lists as JSON."""
    if value is None:
        return "not set"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
