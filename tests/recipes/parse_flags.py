"""Runs in the engine's environment: hands command lines (JSON on standard input) to vLLM's own argument parser.

Writes, as JSON, for each of them what the parser would have ended with (null: it took it) and what it said.
"""

import contextlib
import io
import json
import sys

from vllm.entrypoints.openai.cli_args import make_arg_parser, validate_parsed_serve_args
from vllm.utils.argparse_utils import FlexibleArgumentParser

parser = make_arg_parser(FlexibleArgumentParser())


def parsed(line: list[str]) -> tuple[int | str | None, str]:
    """Status and words of one command line."""
    with contextlib.redirect_stderr(io.StringIO()) as said:
        try:
            validate_parsed_serve_args(parser.parse_args(line))
        except SystemExit as ended:
            return ended.code, said.getvalue()
    return None, said.getvalue()


sys.stdout.write(json.dumps([parsed(line) for line in json.load(sys.stdin)]))
