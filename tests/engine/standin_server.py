"""A stand-in for vLLM's server: its flags, its log, its health, models, version and metrics. Run as a module.

What it does is one word in the environment variable STANDIN:
    serve       answers at once
    die         fails while loading weights, with a traceback
    refuse      refuses its flags as argparse does
    hang        never listens
    mislabel    serves a model of another name
    perish      answers, and fails when /v1/completions is asked for
    stubborn    answers, and does not care about SIGTERM
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

DATA = Path(__file__).with_name("data")


def say(text: str) -> None:
    print(text, flush=True)  # noqa: T201  a log is what it writes


def excerpt(name: str, until: str) -> None:
    for line in (DATA / f"{name}.log").read_text().splitlines():
        say(line)
        if until in line:
            return


class Handler(BaseHTTPRequestHandler):
    model = ""
    key = os.environ.get("STANDIN_KEY")

    def do_GET(self) -> None:
        wanted = f"Bearer {self.key}"
        if self.key and self.path == "/v1/models" and self.headers["Authorization"] != wanted:
            self.send_error(401)
            return
        pages = {
            "/health": b"",
            "/version": json.dumps({"version": "0.26.0"}).encode(),
            "/v1/models": json.dumps({"data": [{"id": self.model, "max_model_len": 4096}]}).encode(),
            "/metrics": (DATA / "cpu.prom").read_bytes(),
        }
        self._answer(pages[self.path])

    def do_POST(self) -> None:
        say((DATA / "cpu-died.log").read_text())
        os._exit(1)

    def _answer(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the base class's name
        say(f"(APIServer pid={os.getpid()}) INFO:     {format % args}")


def main() -> None:
    parser = argparse.ArgumentParser(prog="api_server.py")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--served-model-name", required=True)
    what = os.environ["STANDIN"]
    options = parser.parse_args([*sys.argv[1:], *(["--nope"] if what == "refuse" else [])])
    Handler.model = "another" if what == "mislabel" else options.served_model_name
    if what == "die":
        excerpt("h200-gdn-missing", until="Starting to load model")
        say("(EngineCore pid=2) ERROR 11-29 22:33:43 [core.py:1330] ValueError: no such tensor")
        sys.exit(1)
    if what == "hang":
        excerpt("h200-healthy", until="Starting to load model")
        signal.pause()
    if what == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    excerpt("cpu-healthy", until="Application startup complete")
    ThreadingHTTPServer((options.host, options.port), Handler).serve_forever()


if __name__ == "__main__":
    main()
