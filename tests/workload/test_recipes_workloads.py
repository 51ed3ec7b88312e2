from __future__ import annotations

import pytest

from bench.workload.tokens import CheckpointTokenizer
from bench.workload.voice import VoiceWorkload
from recipes.load import load_recipe, targets


@pytest.mark.parametrize("target", targets())
def test_every_recipes_workload_can_be_built(tokenizer: CheckpointTokenizer, target: str) -> None:
    spec = load_recipe(target).workload
    source = VoiceWorkload(spec, tokenizer=tokenizer, model="toy", seed=("recipes", target))
    assert [turn.agent for turn in source.primes()] == 2 * spec.agents
    prompts = [turn.prompt_tokens for turn in next(source.calls(0))]
    assert abs(sum(prompts) / len(prompts) - spec.prompt_tokens) <= 0.5
