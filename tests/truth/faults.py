"""What a client has to make of every scripted fault."""

from __future__ import annotations

from typing import Any, Final

from bench.records import Outcome

FAULTS: Final[dict[str, tuple[dict[str, Any], Outcome]]] = {
    "no usage": ({"usage": "absent"}, Outcome.NO_USAGE),
    "wrong usage": ({"usage": "wrong"}, Outcome.SHORT),
    "no [DONE]": ({"done": False}, Outcome.NO_DONE),
    "no finish reason": ({"finish_reason": None}, Outcome.NO_FINISH),
    "reset in the middle": ({"fault": "cut", "fault_after": 2}, Outcome.CUT),
    "reset before the end": ({"fault": "cut", "fault_after": 1000}, Outcome.CUT),
    "closed in the middle": ({"fault": "close", "fault_after": 2}, Outcome.CUT),
    "closed in the middle, with a length": ({"fault": "close", "content_length": True}, Outcome.CUT),
    "closed before a response": ({"fault": "no_response"}, Outcome.CUT),
    "no chunk": ({"fault": "no_chunk"}, Outcome.EMPTY),
    "nothing": ({"fault": "nothing"}, Outcome.EMPTY),
    "a web page": ({"fault": "html"}, Outcome.BAD_REPLY),
    "not HTTP": ({"fault": "not_http"}, Outcome.BAD_REPLY),
    "not JSON": ({"fault": "not_json", "fault_after": 1}, Outcome.BAD_REPLY),
    "an error event": ({"fault": "error_event"}, Outcome.ENGINE_ERROR),
    "an error event after tokens": ({"fault": "error_event", "fault_after": 1}, Outcome.ENGINE_ERROR),
    "503": ({"status": 503, "retry_after_s": 2}, Outcome.HTTP_ERROR),
    "500 after slow headers": ({"status": 500, "headers_s": 0.01}, Outcome.HTTP_ERROR),
}
"""Name to what is scripted, and the outcome."""

WHOLE: Final[dict[str, dict[str, Any]]] = {
    "plain": {},
    "several tokens a chunk": {"chunk_tokens": [3, 1, 5]},
    "no role chunk": {"role_s": None},
    "late role chunk": {"role_s": 0.01, "headers_s": 0.01},
    "CRLF": {"newline": "\r\n"},
    "CR": {"newline": "\r"},
    "comments": {"comments": True},
    "with a length": {"content_length": True},
    "one write": {"one_write": True},
    "characters cut in two": {"split_writes": 4},
    "echoed prompt": {"echo_prompt": True},
    "uneven gaps": {"gap_s": [0.0, 0.004, 0.0]},
    "closed afterwards": {"close_after_s": 0.0},
    "kept connections closed": {"fault": "dead_keepalive"},
    "reasoning": {"field": "reasoning"},
    "reasoning_content": {"field": "reasoning_content"},
    "tool calls": {"field": "tool_calls"},
}
"""Name to what is scripted; each of them is a whole reply."""
