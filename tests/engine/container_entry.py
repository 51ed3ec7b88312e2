"""What the stand-in's image starts: with STANDIN set the stand-in for vLLM, else the reference server.

The reference server's script comes as JSON in TRUTH; its model is called as the engine's flags say. Of those flags only
address, port and served name are looked at.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import sys
import tempfile
from pathlib import Path

from tests.truth.__main__ import serve
from tests.truth.script import load


def main() -> None:
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--host", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--served-model-name", required=True)
    options, _ = parser.parse_known_args()
    if "STANDIN" in os.environ:
        where = ["--host", options.host, "--port", str(options.port), "--served-model-name", options.served_model_name]
        os.environ["STANDIN_KEY"] = os.environ["VLLM_API_KEY"]
        os.environ["PYTHONUNBUFFERED"] = "1"
        server = Path(__file__).with_name("standin_server.py")
        os.execv(sys.executable, [sys.executable, str(server), *where])  # noqa: S606  takes this process's place
    script = Path(tempfile.mkdtemp()) / "script.json"
    script.write_text(json.dumps({**json.loads(os.environ.get("TRUTH", "{}")), "model": options.served_model_name}))
    asyncio.run(serve(load(script), host=options.host, port=options.port, truth=None))


if __name__ == "__main__":
    main()
