"""The prompts of a run's probe: of the recipe's own workload, and of no point of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from bench.load.probe import Probe, ProbePrompts
from bench.report.disclosure import accepts_at_random
from bench.workload.voice import VoiceWorkload

if TYPE_CHECKING:
    from bench.plan import RunPlan
    from bench.workload.tokens import CheckpointTokenizer
    from bench.workload.turn import Turn

AGENTS: Final = 2
"""Of the recipe, at most: ten requests before the ladder and ten after it, some seconds; and twelve of one token each
where the replies to two prompts are equal."""


def probe_of(plan: RunPlan, *, run: int, model: str, nonce: str, tokenizer: CheckpointTokenizer) -> Probe:
    """The probe of one run. Takes a moment: it makes four prompts.

    Args:
        plan: of the whole job.
        run: index of the engine start.
        model: what to ask the engine for.
        nonce: makes the prompts differ from those of earlier jobs.
        tokenizer: of the checkpoint.

    Raises:
        UsageError: see `VoiceWorkload`.
    """
    spec, ranks = plan.recipe.workload, plan.recipe.ranks
    seed = (plan.fingerprint, nonce, run, "probe")

    def prompt(agent: str, which: str) -> Turn:
        greedy = spec.sampling.model_copy(update={"temperature": 0.0})
        alone = spec.model_copy(update={"api": "token_ids", "agents": [agent], "sampling": greedy})
        source = VoiceWorkload(
            alone,
            tokenizer=tokenizer,
            model=model,
            seed=(*seed, agent, which),
            vocab_size=plan.checkpoint.vocab_size,
        )
        return source.call(0, 0).turns[0]

    return Probe(
        [
            ProbePrompts(
                agent=agent,
                first=prompt(agent, "A"),
                other=prompt(agent, "B"),
                rank=number % ranks if ranks > 1 else None,
            )
            for number, agent in enumerate(spec.agents[:AGENTS])
        ],
        comparable=not accepts_at_random(plan.recipe),
        salt=" ".join(str(part) for part in seed),
    )
