from __future__ import annotations

import asyncio
import subprocess
import sys
import urllib.error
import urllib.request
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from bench.load.clock import RunClock
from bench.load.http import Client
from bench.records import Outcome
from tests.truth.process import ROOT, TruthServer, running, start
from tests.truth.workload import turn

if TYPE_CHECKING:
    from pathlib import Path

    from bench.load.reply import Exchange
    from bench.workload.turn import Turn

pytestmark = pytest.mark.alone


def send(server: TruthServer, turns: list[Turn], *, together: bool = False) -> list[Exchange]:
    async def main() -> list[Exchange]:
        clock = RunClock.start()
        async with Client(server.base_url, clock=clock, request_timeout_s=20) as client:
            if together:
                return await asyncio.gather(*(client.exchange(one, clock.now()) for one in turns))
            return [await client.exchange(one, clock.now()) for one in turns]

    return asyncio.run(main())


def post(server: TruthServer, body: dict[str, Any], path: str = "/v1/chat/completions") -> tuple[int, dict[str, Any]]:
    request = urllib.request.Request(  # noqa: S310  our own http URL
        server.base_url + path, data=orjson.dumps(body), method="POST"
    )
    try:
        with urllib.request.urlopen(request, timeout=10) as response:  # noqa: S310  as above
            return response.status, orjson.loads(response.read())
    except urllib.error.HTTPError as error:
        with error:
            return error.code, orjson.loads(error.read())


def test_nothing_leaves_before_its_time_and_the_truth_says_when_it_did() -> None:
    with running() as server:
        send(server, [turn("slow", headers_s=0.01, role_s=0.02, ttft_s=0.03, gap_s=[0.004, 0.008], output_tokens=3)])
        (truth,) = server.truth()
    begin = truth["received_s"]
    assert begin <= truth["complete_s"] <= truth["started_s"]
    assert truth["headers_s"] - begin >= 0.01
    assert truth["role_s"] - begin >= 0.02
    assert truth["first_token_s"] == truth["chunk_s"][0]
    assert truth["last_token_s"] == truth["chunk_s"][-1]
    for moment, due in zip(truth["chunk_s"], (0.03, 0.034, 0.042), strict=True):
        assert moment - begin >= due
    assert truth["done_s"] >= truth["last_token_s"]
    assert (truth["ended"], truth["generated_tokens"], truth["prompt_tokens"]) == ("complete", 3, 50)


def test_it_speaks_what_an_engine_speaks() -> None:
    with running() as server:
        assert server.get("/health") == b""
        (card,) = orjson.loads(server.get("/v1/models"))["data"]
        assert (card["id"], card["max_model_len"]) == ("truth", 32768)
        assert orjson.loads(server.get("/version"))["version"]
        assert post(server, {"model": "other", "messages": []})[0] == 404
        assert post(server, {"model": "truth", "messages": [], "truth": {"nonsense": 1}})[0] == 400
        assert post(server, {"model": "truth", "messages": [], "truth": 5})[0] == 400
        assert post(server, {}, "/v1/embeddings")[0] == 404
        status, reply = post(server, {"messages": [{"role": "user", "content": "a b c"}], "max_tokens": 2})
        assert status == 200
        assert reply["usage"]["prompt_tokens"] == 3
        status, reply = post(server, {"prompt": [1, 2, 3, 4], "max_tokens": 2}, "/v1/completions")
        assert reply["usage"]["prompt_tokens"] == 4


def test_the_counters_are_vllms_and_count_what_happened() -> None:
    with running() as server:
        send(server, [turn("a", cached_tokens=32, chunk_tokens=[3]), turn("b", status=503), turn("c", output_tokens=1)])
        send(server, [turn("cut", fault="cut", fault_after=2, output_tokens=10)])
        expected = {
            "vllm:prompt_tokens_total": 150,
            "vllm:generation_tokens_total": 7,
            "vllm:request_success_total": 3,
            'vllm:request_success_total{engine="0",model_name="truth",finished_reason="length"}': 2,
            "vllm:prefix_cache_queries_total": 150,
            "vllm:prefix_cache_hits_total": 32,
            "vllm:num_preemptions_total": 0,
            "vllm:spec_decode_num_drafts_total": 5,
            "vllm:spec_decode_num_draft_tokens_total": 10,
            "vllm:spec_decode_num_accepted_tokens_total": 2,
            "vllm:spec_decode_num_accepted_tokens_per_pos_total": 2,
            "vllm:num_requests_running": 0,
            "vllm:num_requests_waiting": 0,
            "vllm:kv_cache_usage_perc": 0,
            "vllm:cache_config_info": 1,
        }
        text = server.get("/metrics").decode()
        for name, value in expected.items():
            if "{" in name:
                assert f"{name} {float(value)}" in text
            else:
                assert server.counter(name) == value, name
        assert 'block_size="16"' in text


def test_a_script_decides_by_order_of_arrival_and_the_request_has_the_last_word(tmp_path: Path) -> None:
    script = {
        "default": {"prompt_tokens": 50},
        "requests": [{"status": 503}, {"finish_reason": None}, {"status": 500}],
    }
    with running(script, folder=tmp_path) as server:
        results = send(server, [turn("1"), turn("2"), turn("3", status=200), turn("4")])
    assert [result.outcome for result in results] == [
        Outcome.HTTP_ERROR,
        Outcome.NO_FINISH,
        Outcome.OK,
        Outcome.OK,
    ]
    with running({**script, "cycle": True}, folder=tmp_path) as server:
        results = send(server, [turn(str(number)) for number in range(5)])
    assert [result.status for result in results] == [503, 200, 500, 503, 200]


def test_requests_beyond_the_running_ones_wait_in_order(tmp_path: Path) -> None:
    with running({"max_running": 2}, folder=tmp_path) as server:
        results = send(server, [turn(str(number), ttft_s=0.03) for number in range(6)], together=True)
        truths = server.truth()
    assert {result.outcome for result in results} == {Outcome.OK}
    assert sorted(truth["in_flight"] for truth in truths) == [1, 2, 3, 4, 5, 6]
    starts = [truth["started_s"] for truth in truths]
    assert starts == sorted(starts)
    events = sorted(
        [(truth["started_s"], 1) for truth in truths] + [(truth["ended_s"], -1) for truth in truths],
        key=lambda event: (event[0], event[1]),
    )
    running_now = 0
    for _, change in events:
        running_now += change
        assert running_now <= 2


def test_one_that_waits_and_leaves_takes_no_place(tmp_path: Path) -> None:
    async def main(server: TruthServer) -> None:
        clock = RunClock.start()
        async with Client(server.base_url, clock=clock, request_timeout_s=20) as client:
            first = asyncio.ensure_future(client.exchange(turn("first", fault="hang"), clock.now()))
            while not await asyncio.to_thread(server.counter, "vllm:num_requests_running"):
                pass
            second = asyncio.ensure_future(client.exchange(turn("second"), clock.now()))
            while not await asyncio.to_thread(server.counter, "vllm:num_requests_waiting"):
                pass
            second.cancel()
            while await asyncio.to_thread(server.counter, "vllm:num_requests_waiting"):
                pass
            first.cancel()
            assert (await client.exchange(turn("third"), clock.now())).outcome is Outcome.OK

    with running({"max_running": 1}, folder=tmp_path) as server:
        asyncio.run(main(server))
        ended = {truth["tag"]: truth["ended"] for truth in server.truth()}
    assert ended == {"first": "client", "second": "client", "third": "complete"}


def test_the_prefix_cache_finds_whole_blocks_of_what_was_sent_before(tmp_path: Path) -> None:
    def words(count: int, last: str = "") -> Turn:
        text = " ".join(["same"] * (count - 1) + [last or "same"])
        body = {
            "messages": [{"role": "user", "content": text}],
            "max_tokens": 1,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        return replace(turn(output_tokens=1), body=orjson.dumps(body), prompt_tokens=count)

    with running({"prefix_caching": True, "block_size": 4}, folder=tmp_path) as server:
        results = send(server, [words(10), words(10), words(12, "other"), words(8), words(3)])
        hits = server.counter("vllm:prefix_cache_hits_total")
    assert [result.cached_tokens for result in results] == [0, 8, 8, 4, 0]  # never the whole prompt
    assert hits == 20


def test_the_law_draws_times_unless_the_request_names_its_own(tmp_path: Path) -> None:
    law = {"e2e_p50_s": 0.2, "e2e_p95_s": 0.2, "ttft_share": 0.5}
    with running({"law": law}, folder=tmp_path) as server:
        send(server, [turn("drawn")])
        (drawn,) = server.truth()
    assert drawn["first_token_s"] - drawn["received_s"] >= 0.1
    assert drawn["last_token_s"] - drawn["received_s"] >= 0.2 - 1e-6
    hours = {"e2e_p50_s": 3600.0, "e2e_p95_s": 3600.0}
    with running({"law": hours}, folder=tmp_path) as server:
        (named,) = send(server, [turn("named", ttft_s=0.0, gap_s=0.0)])
    assert named.outcome is Outcome.OK


def test_a_web_page_everywhere(tmp_path: Path) -> None:
    with running({"not_an_api": True}, folder=tmp_path) as server:
        assert b"<html>" in server.get("/v1/models")
        (result,) = send(server, [turn("page")])
    assert result.outcome is Outcome.BAD_REPLY


def test_sigterm_ends_it_and_leaves_the_truth_in_its_file(tmp_path: Path) -> None:
    path = tmp_path / "truth.jsonl"
    command = [sys.executable, "-m", "tests.truth", "--port", "0", "--truth", str(path), "--core", "0"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        server = TruthServer(process.stdout.readline().removeprefix("listening on ").strip(), process)

        async def main() -> Exchange:
            clock = RunClock.start()
            async with Client(server.base_url, clock=clock, request_timeout_s=20) as client:
                assert (await client.exchange(turn("whole"), clock.now())).outcome is Outcome.OK
                open_one = asyncio.ensure_future(client.exchange(turn("open", fault="hang"), clock.now()))
                while not await asyncio.to_thread(server.counter, "vllm:num_requests_running"):
                    pass
                assert await asyncio.to_thread(server.stop) == 0
                return await open_one

        assert asyncio.run(main()).outcome is Outcome.CUT
    truths = [orjson.loads(line) for line in path.read_bytes().splitlines()]
    assert [(truth["tag"], truth["ended"]) for truth in truths] == [("whole", "complete"), ("open", "shutdown")]


def test_a_script_that_is_none_does_not_start(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "script.json"
    path.write_text('{"requests": [{"nonsense": 1}]}')
    with pytest.raises(RuntimeError, match="did not start"):
        start(path)
    assert "nonsense" in capfd.readouterr().err
    with pytest.raises(ValueError, match="folder"), running({"model": "x"}):
        pass


def test_what_is_not_http_is_answered_so() -> None:
    with running() as server:
        port = int(server.base_url.rpartition(":")[2])

        async def main() -> bytes:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"hello\r\n\r\n")
            answer = await reader.read()
            writer.close()
            await writer.wait_closed()
            return answer

        assert asyncio.run(main()).startswith(b"HTTP/1.1 400 ")
