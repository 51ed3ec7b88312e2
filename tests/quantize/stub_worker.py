"""Stands in for the quantizer's interpreter: copies what the real worker wrote, a file at a time, and can be killed.

    stub_worker.py -m quantize.worker.STAGE JOB.json

`STUB_RESULTS` names a folder with the real results by stage; `STUB_KILL` is "STAGE:N": the client is killed (kill -9)
after N files of that stage, and with it this process.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

REAL = os.environ["STUB_REAL_PYTHON"]


def main() -> int:
    if sys.argv[1:3] == ["-m", "model_signing"] or sys.argv[1] == "-c":
        return subprocess.run([REAL, *sys.argv[1:]], check=False).returncode
    stage = sys.argv[2].rpartition(".")[2]
    job = json.loads(Path(sys.argv[3]).read_text())
    results, out = Path(os.environ["STUB_RESULTS"]) / stage, Path(job["out"])
    kill_stage, _, kill_after = os.environ.get("STUB_KILL", ":").partition(":")
    copied = 0
    for path in sorted(results.iterdir()):
        if path.name in ("manifest.json", "begun.json") or path.name.startswith(".") or (out / path.name).exists():
            continue
        if stage == kill_stage and copied == int(kill_after):
            (out / f".{path.name}.partial").write_bytes(b"half of it")
            os.kill(os.getppid(), signal.SIGKILL)
            return 1
        shutil.copyfile(path, out / path.name)
        copied += 1
    facts = json.loads((results / "manifest.json").read_text())
    done = {"event": "done", "worker_s": 0.0, "peak_rss_bytes": 1, "peak_gpu_bytes": 0}
    sys.stdout.write(json.dumps({**done, "facts": {"versions": facts["versions"]}}) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
