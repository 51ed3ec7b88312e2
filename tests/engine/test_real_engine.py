"""What the stand-ins stand in for: the pinned engine itself, with the toy checkpoint, on this host's CPU."""

from __future__ import annotations

import http.client
import json
import time
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import psutil
import pytest

from bench.engine.environment import ensure_environment
from bench.engine.metrics import MetricsPage
from bench.engine.own import HOST, RunningOwn
from bench.engine.pins import REPOSITORY
from bench.engine.process import Launch, ProcessBody, ProcessEngine
from recipes.command import engine_arguments
from recipes.load import load_recipe

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.engine, pytest.mark.thorough]

PROMPT = "The caller wants a table for four tonight. " * 60


def ask(running: RunningOwn, **changes: object) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
    message = {"role": "user", "content": PROMPT}
    body = {"model": running.model, "messages": [message], "max_tokens": 16, "ignore_eos": True, "temperature": 0}
    connection = http.client.HTTPConnection(HOST, urlsplit(running.base_url).port or 0)
    headers = {"Content-Type": "application/json"}
    connection.request("POST", "/v1/chat/completions", json.dumps({**body, **changes}), headers)
    return connection, connection.getresponse()


def answered(running: RunningOwn) -> dict[str, Any]:
    connection, response = ask(running)
    usage: dict[str, Any] = json.loads(response.read())["usage"]
    connection.close()
    return usage


def test_it_starts_counts_as_the_client_does_and_leaves_nothing(tmp_path: Path) -> None:
    recipe = load_recipe("cpu")
    model = str(REPOSITORY / recipe.checkpoint.name)
    launch = Launch(
        environment=ensure_environment(recipe.engine.lock, say=print),
        arguments=lambda port: engine_arguments(recipe, model=model, host=HOST, port=port),
        model=recipe.target,
        env=recipe.engine.env,
        log=tmp_path / "engine-0.log",
        ready_timeout_s=recipe.engine.ready_timeout_s,
    )
    with ProcessEngine(launch, run=0, clock=time.monotonic) as running:
        started = running.started
        assert started.version == recipe.engine.version
        assert started.max_model_len == recipe.engine.flags["max_model_len"]
        assert started.prefix_caching is recipe.engine.flags["enable_prefix_caching"]
        assert started.block_size == running._start_up.facts.attention_block_size
        assert (started.stages[0].name, started.stages[-1].name) == ("launch", "server-start")

        page = MetricsPage(*running.servers)
        before = page.settled_counters()
        assert (before.requests_finished, before.prompt_tokens) == (0.0, 0.0)
        replies = [answered(running) for _ in range(3)]
        after = page.settled_counters()
        assert after.requests_finished == 3.0
        assert after.prompt_tokens == sum(reply["prompt_tokens"] for reply in replies)
        assert after.generation_tokens == sum(reply["completion_tokens"] for reply in replies) == 48
        assert after.preemptions == 0.0

        # A client that goes away is counted nowhere as finished, but what was made for it is counted.
        connection, response = ask(running, stream=True, max_tokens=2000)
        response.readline()
        response.close()
        connection.close()
        given_up = page.settled_counters()
        assert given_up.requests_finished == 3.0
        assert given_up.generation_tokens is not None
        assert 48.0 < given_up.generation_tokens < 48.0 + 2000.0

        # Its first process killed: EngineCore and the worker would live on, were it not for the guards.
        assert isinstance(running.body, ProcessBody)
        guard = psutil.Process(running.body.process._guard.pid)
        family = [guard, *guard.children(recursive=True)]
        _, _, first, *others = family  # two guards, then the engine in the order of its tree
        assert any(process.name().startswith("VLLM::EngineCor") for process in others)
        first.kill()
        running.body.process._guard.wait()
        assert running.events()[-1].line == "it was killed by SIGKILL"
        assert psutil.wait_procs(family, timeout=60)[1] == []
