"""Runs in the engine's environment: prints a table as the engine does, then the names of its options as JSON."""

import json
import sys

from vllm.compilation.cuda_graph import CUDAGraphLogging, CUDAGraphStat
from vllm.config import CUDAGraphMode
from vllm.entrypoints.openai.cli_args import make_arg_parser
from vllm.logger import init_logger
from vllm.utils.argparse_utils import FlexibleArgumentParser

logger = init_logger("vllm.v1.metrics.loggers")
table = CUDAGraphLogging(CUDAGraphMode.FULL_AND_PIECEWISE, [5, 10])
for _ in range(3):
    table.observe(CUDAGraphStat(7, 10, 3, str(CUDAGraphMode.FULL)))
table.observe(CUDAGraphStat(900, 900, 0, str(CUDAGraphMode.NONE)))
table.log(log_fn=logger.info)
sys.stdout.flush()

long = [name for action in make_arg_parser(FlexibleArgumentParser())._actions for name in action.option_strings]
names = {name[2:].replace("-", "_") for name in long if name.startswith("--") and not name.startswith("--no-")}
sys.stdout.write("=== options\n" + json.dumps(sorted(names - {"help"})))
