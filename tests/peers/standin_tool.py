"""A load generator of a few lines: `python standin_tool.py HOW BASE_URL RESULT`.

HOW is "well" (two requests, one after the other, and a result), "badly" (exit status 3 after a line on standard error),
or "mute" (no result).
"""

from __future__ import annotations

import json
import sys
import time
import urllib.request
from pathlib import Path


def main() -> None:
    how, base_url, result = sys.argv[1:]
    if how == "badly":
        sys.stderr.write(f"cannot send to {base_url}\n")
        sys.exit(3)
    body = json.dumps({"model": "truth", "messages": [], "max_tokens": 100, "stream": True, "truth": {"ttft_s": 0.01}})
    taken = []
    for _ in range(2):
        begin = time.monotonic()
        request = urllib.request.Request(f"{base_url}/v1/chat/completions", body.encode())  # noqa: S310  http
        with urllib.request.urlopen(request, timeout=10) as response:  # noqa: S310  as above
            response.read()
        taken.append((time.monotonic() - begin) * 1e3)
    if how == "well":
        Path(result).write_text(json.dumps(sorted(taken)), encoding="utf-8")


if __name__ == "__main__":
    main()
