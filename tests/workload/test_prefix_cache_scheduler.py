"""Predicted hits and steps against vLLM's own scheduler, which serves random requests without a model."""

from __future__ import annotations

import json
import os
import random
import subprocess
from bisect import bisect_left
from collections import Counter
from dataclasses import asdict, dataclass, field, replace
from itertools import chain, islice
from pathlib import Path
from statistics import mean

import pytest

from bench.engine.environment import ensure_environment
from bench.explain.preflight.captures import captures_of
from bench.explain.preflight.lasting import prompts_at_once
from bench.explain.preflight.prefix import rules_of, turns_of
from bench.workload.prefix_cache import Prefill, PrefixCacheModel
from bench.workload.prefix_cache_bounds import ServedPrompt, predict_served
from bench.workload.prefix_cache_rules import CacheRules
from bench.workload.turn import Segment
from quantize.checkpoint import TOY
from tests.explain.preflight.planned import UNIT, basis

pytestmark = pytest.mark.engine
DRIVER = Path(__file__).with_name("scheduler_without_model.py")
AT_ONCE = 16
HALF_A_CARD = ("engine.flags.kv_cache_memory_bytes", "23085449216")
"""Of it a pool that 700 requests have been through."""
PLENTY = 100_000
"""Blocks of a pool that never runs out here."""

Flat = list[int]
"""A prompt as [key, tokens, key, tokens, ...]."""
Row = tuple[Flat, int, int | None]
"""A request: prompt, output tokens, step at which it is sent."""


class Texts:
    """Texts of random lengths, no two of which are the same."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._key = 0

    def new(self, longest: int) -> Flat:
        self._key += 1
        return [self._key, self._rng.randint(1, longest)]


def calls(rng: random.Random, size: int) -> list[tuple[Flat, int]]:
    """Conversations behind a few prefixes, which end in the template's last words."""
    texts = Texts(rng)
    prefixes = [texts.new(5 * size) for _ in range(rng.randint(1, 3))]
    last_words = texts.new(5)
    rows = []
    for _ in range(4):
        history = [*rng.choice(prefixes), *texts.new(size)]
        for _ in range(rng.randint(1, 5)):
            history = [*history, *texts.new(size)]
            rows.append(([*history, *last_words], rng.choice([1, 2, 5, rng.randint(1, 2 * size)])))
            history = [*history, *texts.new(size)]
    return rows


def mixtures(rng: random.Random, size: int) -> list[tuple[Flat, int]]:
    """Prompts of the same few texts in any order."""
    texts = Texts(rng)
    few = [texts.new(2 * size) for _ in range(5)]
    return [
        ([*chain(*rng.choices(few, k=rng.randint(1, 4)))], rng.choice([1, 2, rng.randint(1, 2 * size)]))
        for _ in range(14)
    ]


def random_rules(rng: random.Random, pools: list[int]) -> CacheRules:
    size = rng.choice([8, 16, 32, 48])
    drafts = rng.choice([0, 0, 1, 2, 4])
    units = [unit for unit in range(1, size + 1) if size % unit == 0]
    return CacheRules(
        block_size=size,
        hybrid=True,
        chunk_tokens=rng.choice([size + drafts + 1, 2 * size + 3, 1000]),
        draft_tokens=drafts,
        num_gpu_blocks=rng.choice(pools),
        state_groups=rng.choice([1, 2, 3]),
        match_unit=rng.choice([None, *units, *units]),
    )


def prompt(flat: Flat) -> tuple[Segment, ...]:
    return tuple(Segment(key=key, tokens=tokens) for key, tokens in zip(flat[::2], flat[1::2], strict=True))


@dataclass(frozen=True)
class Run:
    """Requests for one engine, and what became of them."""

    rules: CacheRules
    rows: list[Row]
    answer: list[tuple[int, int, int, list[int]]] = field(default_factory=list)
    """Start, end, hit and the prefill's ends of each request."""
    steps: list[int] = field(default_factory=list)
    """Tokens of each step."""


def one_after_another() -> list[Run]:
    rng = random.Random(20261130)  # noqa: S311  reproducibility is the point
    runs = []
    for _ in range(90):
        rules = random_rules(rng, [PLENTY, 40, 60, 90])
        prompts = rng.choice([calls, mixtures])(rng, rules.block_size)
        runs.append(Run(rules, [(flat, output, None) for flat, output in prompts]))
    return runs


def side_by_side() -> list[Run]:
    rng = random.Random(20261201)  # noqa: S311  as above
    runs = []
    for _ in range(60):
        rules = random_rules(rng, [PLENTY, 300, 600])
        now, gap = 0, rng.choice([1, 2, 5, 20])
        rows: list[Row] = []
        for flat, output in rng.choice([calls, mixtures])(rng, rules.block_size):
            rows.append((flat, output, now))
            now += rng.randint(0, gap)
        runs.append(Run(rules, rows))
    return runs


def the_tuned_recipe(*overrides: tuple[str, str]) -> Run:
    """Its primes, and then 16 calls at once, a request every two steps.

    A reply takes 31 steps, as with drafts of which 2.2 are accepted on average.
    """
    plan = basis("h200-fp8-fast-dummy", *overrides)
    rules = rules_of(plan.recipe, plan.settings, plan.cache)
    assert rules is not None
    pool = replace(rules, num_gpu_blocks=plan.budget.blocks, state_groups=plan.cache.gdn_groups)
    workload = plan.recipe.workload.model_dump_json()
    keys: dict[int, int] = {}  # small ones, which the driver can make tokens of

    def flat(segments: tuple[Segment, ...]) -> Flat:
        return [*chain(*((keys.setdefault(part.key, len(keys) + 1), part.tokens) for part in segments))]

    primes: list[Row] = [(flat(turn.segments), 1, 6 * place) for place, turn in enumerate(turns_of(workload)[0])]
    begin = 6 * len(primes)
    sent = islice(prompts_at_once(workload, AT_ONCE), 700)
    return Run(pool, [*primes, *((flat(segments), 31, begin + 2 * place) for place, (_, segments) in enumerate(sent))])


@pytest.fixture(scope="module")
def served() -> tuple[list[Run], list[Run], list[Run]]:
    """All kinds of runs, served by one process: vLLM takes longer to start than to schedule them all."""
    environment = ensure_environment("engine-cpu", say=print)
    alone, beside, tuned = (
        one_after_another(),
        side_by_side(),
        [the_tuned_recipe(), the_tuned_recipe(UNIT, HALF_A_CARD)],
    )
    lines = [json.dumps({"rules": asdict(run.rules), "requests": run.rows}) for run in (*alone, *beside, *tuned)]
    done = subprocess.run(
        [environment.python, DRIVER, TOY],
        input="\n".join(lines),
        env={**os.environ, **environment.env},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    for run, line in zip((*alone, *beside, *tuned), done.stdout.splitlines(), strict=True):
        made = json.loads(line)
        run.answer.extend((start, end, hit, ends) for start, end, hit, ends in made["served"])
        run.steps.extend(made["steps"])
    return alone, beside, tuned


def test_one_after_another_every_hit_and_step_is_exact(served: tuple[list[Run], list[Run], list[Run]]) -> None:
    seen: Counter[str] = Counter()
    for run in served[0]:
        model = PrefixCacheModel(run.rules)
        prefills = [model.serve(prompt(flat), output) for flat, output, _ in run.rows]
        assert prefills == [Prefill(hit, tuple(ends)) for _, _, hit, ends in run.answer], run.rules
        predicted = [prefill.hit for prefill in prefills]
        inside = any(hit % run.rules.block_size for hit in predicted)
        seen["inside blocks"] += inside
        seen["inside blocks, drafts"] += inside and run.rules.draft_tokens > 0
        seen["several steps"] += any(prefill.steps > 2 for prefill in prefills)
        seen["evicted"] += model.evicted > 0
        seen["whole blocks"] += not run.rules.fine and any(predicted)
    kinds = ("inside blocks", "inside blocks, drafts", "several steps", "evicted", "whole blocks")
    assert all(seen[kind] >= 10 for kind in kinds)


def test_side_by_side_every_hit_is_within_its_bounds(served: tuple[list[Run], list[Run], list[Run]]) -> None:
    certain = 0
    for run in served[1]:
        requests = [
            ServedPrompt(segments=prompt(flat), output_tokens=output, start_s=start, end_s=end)
            for (flat, output, _), (start, end, _, _) in zip(run.rows, run.answer, strict=True)
        ]
        for (_, _, hit, _), bound in zip(run.answer, predict_served(requests, run.rules), strict=True):
            assert bound.least <= hit <= bound.most, run.rules
            certain += bound.least == bound.most > 0
    assert certain > 30


def test_hits_that_do_not_last_are_lost_by_vllm_too(served: tuple[list[Run], list[Run], list[Run]]) -> None:
    """`bench.explain.preflight.lasting`: the simulated hits of the tuned recipe, hundred by hundred."""
    run = served[2][1]
    engine, rows, primes = PrefixCacheModel(run.rules), [(prompt(flat), output) for flat, output, _ in run.rows], 10
    for each in rows[:primes]:
        engine.serve(*each)
    simulated = [0] * primes + [each.hit for each in engine.serve_at_once(rows[primes:], AT_ONCE)]
    by_vllm = [hit for _, _, hit, _ in run.answer]
    assert mean(end - start for start, end, _, _ in run.answer[primes:]) == pytest.approx(2 * AT_ONCE, rel=0.05)
    shares = [
        [sum(hits[begin : begin + 100]) / 1_000_000 for begin in range(primes, len(run.rows), 100)]
        for hits in (simulated, by_vllm)
    ]
    assert shares[0] == pytest.approx(shares[1], abs=0.03)  # in which hundred they go
    assert shares[0][-3:] == pytest.approx(shares[1][-3:], abs=0.002)  # what lasts
    assert shares[1][0] > shares[1][-1] + 0.1


def test_the_tuned_recipes_graphs_fit_its_steps(served: tuple[list[Run], list[Run], list[Run]]) -> None:
    """The source of its capture sizes."""
    run = served[2][0]
    sizes = captures_of(basis("h200-fp8-fast-dummy").settings).sizes
    begun = run.rows[10][2] or 0  # after the primes
    steps = [tokens for tokens in run.steps[begun:] if tokens]
    with_prompts = [tokens for tokens in steps if tokens > 5 * 64]  # more than all sequences decode
    assert len(with_prompts) > 650
    assert max(steps) <= sizes[-1]
    graphs = [sizes[bisect_left(sizes, tokens)] for tokens in with_prompts]
    assert sum(graphs) / sum(with_prompts) - 1 < 0.03
