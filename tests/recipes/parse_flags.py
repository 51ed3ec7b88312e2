"""Runs in the engine's environment: hands command lines (JSON on standard input) to vLLM's own argument parser."""

import json
import sys

from vllm.entrypoints.openai.cli_args import make_arg_parser, validate_parsed_serve_args
from vllm.utils.argparse_utils import FlexibleArgumentParser

parser = make_arg_parser(FlexibleArgumentParser())
for line in json.load(sys.stdin):
    validate_parsed_serve_args(parser.parse_args(line))
sys.stdout.write(json.dumps({"parsed": True}))
