"""The client's Job does what it says: its commands measure the reference server, in the client's image, under the pod's
own restrictions.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from bench.deploy.asked import Asked
from bench.deploy.kubernetes import Cluster, manifests
from bench.report import folder_files as files
from bench.report.keys import PRIVATE_NAME, own_signer
from recipes.load import load_recipe
from tests.deploy.hostile import CLIENT
from tests.truth.process import TruthServer, running

if TYPE_CHECKING:
    from collections.abc import Iterator

    import docker

    from bench.images.build import BuiltImage

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
KEY = {"STREAMPROOF_API_KEY": "key"}
"""What Kubernetes takes from the Secret."""


@dataclass
class Pod:
    """The Job's pod: its volumes are folders of this host, and the engine is the reference server.

    Attributes:
        folder: of its volumes.
        server: instead of the engine's Service.
    """

    folder: Path
    server: TruthServer
    spec: dict[str, Any] = field(init=False)

    def __post_init__(self) -> None:
        asked = Asked(recipe=load_recipe(TARGET, SHORT), target=TARGET, overrides=SHORT)
        documents = yaml.safe_load_all(manifests(asked, Cluster(client=CLIENT))["client.yaml"])
        (self.spec,) = (one["spec"]["template"]["spec"] for one in documents if one["kind"] == "Job")
        for volume in self.spec["volumes"]:
            (self.folder / volume["name"]).mkdir()
        self.signer = own_signer(self.folder / "mine")
        (self.folder / "signing" / "signer.key.pem").write_bytes((self.folder / "mine" / PRIVATE_NAME).read_bytes())

    @property
    def containers(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """The one that waits, the one that measures."""
        (waits,), (measures,) = self.spec["initContainers"], self.spec["containers"]
        return waits, measures

    def words(self, container: dict[str, Any]) -> list[str]:
        """Its command line, with the reference server's address."""
        service = f"http://streamproof-{TARGET}:8000"
        words = [*container["command"], *container["args"]]
        assert service in words
        return [self.server.base_url if word == service else word for word in words]

    def check_report(self, exit_code: int, said: str) -> None:
        """Whole, and signed with the Secret's key."""
        reports = sorted(self.folder.glob(f"reports/{TARGET}/*"))
        assert len(reports) == 1, said
        (folder,) = reports
        report = json.loads((folder / files.REPORT).read_bytes())
        assert exit_code == report["exit_code"], said
        assert report["partial"] is False
        assert [point["label"] for point in report["points"]] == ["2 streams"]
        assert report["points"][0]["requests"] > 0
        assert self.signer.key_id in (folder / "attestation.sigstore.json").read_text()


@pytest.fixture
def pod(tmp_path: Path) -> Iterator[Pod]:
    with running({"prefix_caching": True, "block_size": 16}, folder=tmp_path) as server:
        (tmp_path / "pod").mkdir()
        yield Pod(tmp_path / "pod", server)


def test_the_clients_image_needs_no_more_than_the_pod_gives(
    pod: Pod, docker_client: docker.DockerClient, bench_image: BuiltImage
) -> None:
    user, group = pod.spec["securityContext"]["runAsUser"], pod.spec["securityContext"]["fsGroup"]
    for folder in (pod.folder, *pod.folder.iterdir()):  # what `fsGroup` does
        os.chown(folder, -1, group)
        folder.chmod(0o2770)
    secret = pod.folder / "signing" / "signer.key.pem"
    os.chown(secret, 0, group)
    secret.chmod(0o440)
    for parent in pod.folder.parents[:3]:
        parent.chmod(0o755)

    def run(container: dict[str, Any]) -> tuple[int, str]:
        limits = container["securityContext"]
        command, *arguments = pod.words(container)
        made = docker_client.containers.create(
            bench_image.id,
            arguments,
            entrypoint=command,
            environment={**{one["name"]: one["value"] for one in container["env"] if "value" in one}, **KEY},
            user=f"{user}:{group}",
            read_only=limits["readOnlyRootFilesystem"],
            cap_drop=limits["capabilities"]["drop"],
            security_opt=["no-new-privileges"],
            network_mode="host",  # where the reference server listens
            volumes=[
                f"{pod.folder / mount['name']}:{mount['mountPath']}:{'ro' if mount.get('readOnly') else 'rw'}"
                for mount in container["volumeMounts"]
            ],
        )
        try:
            made.start()
            status = int(made.wait()["StatusCode"])
            return status, made.logs().decode()
        finally:
            made.remove(force=True)

    waits, measures = pod.containers
    assert run(waits) == (0, "")
    pod.check_report(*run(measures))
