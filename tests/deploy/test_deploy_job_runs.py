"""The client's Job does what it says: its two commands, as the manifest has them, against the reference server."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from bench.deploy.asked import Asked
from bench.deploy.kubernetes import CLIENT_PYTHON, Cluster, manifests
from bench.engine.pins import REPOSITORY
from bench.report import folder_files as files
from bench.report.keys import PRIVATE_NAME, own_signer
from recipes.load import load_recipe
from tests.deploy.hostile import CLIENT
from tests.truth.process import TruthServer, running

TARGET = "h200-fp8-dummy"
SHORT = {
    "workload.prompt_tokens": "900",
    "workload.turns": "[1, 2]",
    "workload.shared_prefix_tokens": "500",
    "load.ladder": "[{streams = 2}]",
    "load.turn_gap": '{distribution = "fixed", mean_s = 0.05}',
    "load.ramp_s": "0.3",
    "load.steady_s": "1.0",
}


class Pod:
    """The Job's pod, as far as its commands go: the same arguments, with this host's paths for those of the image."""

    def __init__(self, folder: Path, server: TruthServer) -> None:
        asked = Asked(recipe=load_recipe(TARGET, SHORT), target=TARGET, overrides=SHORT)
        documents = yaml.safe_load_all(manifests(asked, Cluster(client=CLIENT))["client.yaml"])
        (self.spec,) = (one["spec"]["template"]["spec"] for one in documents if one["kind"] == "Job")
        self.folder = folder
        self.places = {
            CLIENT_PYTHON: sys.executable,
            "/reports": str(folder / "reports"),
            "/signing/signer.key.pem": str(folder / "secret"),
            f"http://streamproof-{TARGET}:8000": server.base_url,
        }

    def run(self, container: dict[str, Any]) -> subprocess.CompletedProcess[str]:
        words = [self.places.get(word, word) for word in (*container["command"], *container["args"])]
        environment = {"PATH": os.environ["PATH"], "HOME": str(self.folder / "home"), "STREAMPROOF_API_KEY": "key"}
        return subprocess.run(words, cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=False)


@pytest.fixture
def secret(tmp_path: Path) -> str:
    """The signing key of the Secret; its id."""
    signer = own_signer(tmp_path / "mine")
    (tmp_path / "secret").write_bytes((tmp_path / "mine" / PRIVATE_NAME).read_bytes())
    return signer.key_id


def test_the_job_waits_measures_and_leaves_a_report_signed_with_the_users_key(tmp_path: Path, secret: str) -> None:
    with running({"prefix_caching": True, "block_size": 16}, folder=tmp_path) as server:
        pod = Pod(tmp_path, server)
        waited = pod.run(pod.spec["initContainers"][0])
        assert (waited.returncode, waited.stderr) == (0, "")
        measured = pod.run(pod.spec["containers"][0])
    (folder,) = (tmp_path / "reports" / TARGET).iterdir()
    report = json.loads((folder / files.REPORT).read_bytes())
    assert measured.returncode == report["exit_code"], measured.stderr
    assert report["partial"] is False
    assert [point["label"] for point in report["points"]] == ["2 streams"]
    assert report["points"][0]["requests"] > 0
    assert own_signer(tmp_path / "home" / ".config" / "streamproof" / "keys").key_id == secret
    signature = json.loads((folder / "attestation.sigstore.json").read_bytes())
    assert secret in json.dumps(signature)
