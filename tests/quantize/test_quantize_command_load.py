from __future__ import annotations

import subprocess
import sys


def test_numpy_is_loaded_by_the_commands_that_need_it_only() -> None:
    """It takes 100 ms, which `--help` and every other command would wait for."""
    check = "import sys, quantize.cli; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", check], check=False).returncode == 0
