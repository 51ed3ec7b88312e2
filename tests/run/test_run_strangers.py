"""The report of a real run, as verifiers see it that we did not write."""

import pytest

from bench.report import folder_files as files
from tests.run.real_run import RealRun
from tests.strangers import strangers

pytestmark = [pytest.mark.engine, pytest.mark.alone]


@pytest.mark.parametrize(
    "verifier", [strangers.ours, strangers.openssl, strangers.sigstore_js, strangers.model_signing]
)
def test_a_real_report_is_accepted(cpu_run: RealRun, verifier: strangers.Verifier) -> None:
    said = verifier(cpu_run.folder, cpu_run.home / "streamproof" / "keys" / files.SIGNER)
    assert said.accepted, said.text
