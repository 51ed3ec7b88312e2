"""What the reference server is told to do: a behaviour per request, and laws of latency."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, model_validator

from tests.truth.answers import Answers

Seconds: TypeAlias = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Count: TypeAlias = Annotated[int, Field(ge=0)]

Fault: TypeAlias = Literal[
    "none",
    "cut",  # the connection is reset after `fault_after` chunks
    "close",  # as cut, but with a proper end of the TCP stream
    "hang",  # nothing more comes after `fault_after` chunks, the connection stays open
    "error_event",  # an error object inside the stream after `fault_after` chunks, then [DONE]
    "not_json",  # an event that is not JSON after `fault_after` chunks
    "no_chunk",  # status 200, an event stream without one chunk, then [DONE]
    "nothing",  # status 200 and an empty body
    "html",  # status 200 and a web page
    "not_http",  # bytes that are no HTTP
    "no_response",  # the request is read, then the connection is closed without one byte
    "dead_keepalive",  # as no_response, but only on a connection that has answered before
]


class Model(BaseModel):
    """Frozen, no unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Behaviour(Model):
    """How one request is answered. Times are offsets from the moment its first byte was received.

    Attributes:
        ttft_s: to the first chunk with content.
        gap_s: between chunks; a list is used in turn, its last value over and over.
        chunk_tokens: tokens per chunk, likewise (several with speculative decoding).
        output_tokens: length of the reply; null is what the request asks for.
        prompt_tokens: what usage reports; null counts the prompt.
        cached_tokens: prompt tokens reported as found in the prefix cache; null asks the simulated one (0 without it).
        tag: any string; comes back in the truth record.
        headers_s: to the response headers.
        role_s: to the role-only first chunk; null sends none.
        field: the delta that carries the text.
        usage: "present" is only sent when asked for, as vLLM does; "wrong" is one completion token too few.
        finish_reason: null sends none.
        done: whether [DONE] is sent.
        fault, fault_after: what goes wrong, and after how many chunks.
        status: other than 200 answers with an error object.
        retry_after_s: the Retry-After header of an error status.
        echo_prompt: the first chunk also carries the whole prompt, in one line.
        split_writes: every chunk is written in so many pieces, cut in the middle of a UTF-8 character.
        newline: of the event stream.
        comments: a comment line before every chunk.
        content_length: the body has a length instead of chunks.
        one_write: everything from the first chunk on leaves in one write, when the last token is due.
        close_after_s: the server closes the connection so long after the reply; null keeps it.
    """

    ttft_s: Seconds = 0.02
    gap_s: Seconds | Annotated[list[Seconds], Field(min_length=1)] = 0.002
    chunk_tokens: Annotated[list[Annotated[int, Field(ge=1)]], Field(min_length=1)] = [1]
    output_tokens: Count | None = None
    prompt_tokens: Count | None = None
    cached_tokens: Count | None = None
    tag: str = ""
    headers_s: Seconds = 0.0
    role_s: Seconds | None = 0.0
    field: Literal["content", "reasoning", "reasoning_content", "tool_calls"] = "content"
    usage: Literal["present", "absent", "wrong"] = "present"
    finish_reason: str | None = "length"
    done: bool = True
    fault: Fault = "none"
    fault_after: Count = 0
    status: Annotated[int, Field(ge=200, le=599)] = 200
    retry_after_s: Count | None = None
    echo_prompt: bool = False
    split_writes: Annotated[int, Field(ge=1)] = 1
    newline: Literal["\n", "\r\n", "\r"] = "\n"
    comments: bool = False
    content_length: bool = False
    one_write: bool = False
    close_after_s: Seconds | None = None

    def merged(self, changes: dict[str, Any]) -> Behaviour:
        """This behaviour with some of its fields replaced.

        Raises:
            pydantic.ValidationError: an unknown field or a bad value.
        """
        return Behaviour.model_validate({**self.model_dump(), **changes}) if changes else self


class Law(Model):
    """Latency drawn per request, and growing with the requests in flight.

    E2E is lognormal with the given median and p95 at one request in flight; each further request in flight at arrival,
    beyond `free`, adds the share `slowdown` to it. The first chunk comes after `ttft_share` of it, the rest evenly.

    Attributes:
        e2e_p50_s, e2e_p95_s: quantiles of the whole reply, seconds.
        ttft_share: share of the reply's time that passes before the first chunk.
        slowdown: growth per further request in flight (0.02 is 2 %).
        free: requests in flight that slow nothing down.
    """

    e2e_p50_s: Annotated[float, Field(gt=0)]
    e2e_p95_s: Annotated[float, Field(gt=0)]
    ttft_share: Annotated[float, Field(gt=0, lt=1)] = 0.35
    slowdown: Seconds = 0.0
    free: Annotated[int, Field(ge=1)] = 1

    @model_validator(mode="after")
    def _ordered(self) -> Law:
        if self.e2e_p95_s < self.e2e_p50_s:
            raise ValueError("law.e2e_p95_s is below law.e2e_p50_s")
        return self


class Script(Model):
    """The whole script.

    A request's behaviour is `default`, changed by the entry of `requests` with its number (in order of arrival; after
    the last entry there is no change, or the first one again with `cycle`), changed by the object under the key
    "truth" in the request's own body.

    Attributes:
        model: the only model that is served.
        max_model_len: as reported by /v1/models.
        law: draws the times instead of `ttft_s` and `gap_s`; a request that names either keeps its own.
        max_running: requests beyond it wait, first come first served; null never lets one wait.
        block_size: tokens of a block of the prefix cache.
        prefix_caching: simulate a prefix cache that never evicts. Costs time: not for timing.
        mamba_cache_mode: as reported with it; the simulated cache is that of a model without recurrent layers, "none".
        seed: of everything that is drawn.
        not_an_api: every path answers with a web page.
        answers: what requests in token ids are told; null tells no token ids.
    """

    model: str = "truth"
    max_model_len: int = 32768
    default: Behaviour = Behaviour()
    requests: list[dict[str, Any]] = []
    cycle: bool = False
    law: Law | None = None
    max_running: Annotated[int, Field(ge=1)] | None = None
    block_size: Annotated[int, Field(ge=1)] = 16
    prefix_caching: bool = False
    mamba_cache_mode: str | None = None
    seed: int = 0
    not_an_api: bool = False
    answers: Answers | None = None

    @model_validator(mode="after")
    def _every_entry_is_a_behaviour(self) -> Script:
        for changes in self.requests:
            self.default.merged(changes)
        return self

    def changes(self, number: int) -> dict[str, Any]:
        """What the script changes for the request with this number of arrival, from 0."""
        if not self.requests:
            return {}
        if self.cycle:
            return self.requests[number % len(self.requests)]
        return self.requests[number] if number < len(self.requests) else {}


def load(path: Path | None) -> Script:
    """The script in a JSON file; the default script without one.

    Raises:
        pydantic.ValidationError: not a script.
    """
    return Script() if path is None else Script.model_validate_json(path.read_bytes())
