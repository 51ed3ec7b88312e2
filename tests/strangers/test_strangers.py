"""A report as verifiers see it that we did not write; and changed copies, each refused by all of them."""

import base64
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from bench.report import folder_files as files
from bench.report import keys
from bench.report.folder import finish
from bench.report.keys import own_signer
from bench.report.trust import choose, keyless
from bench.report.trust.instance import ENVIRONMENT
from bench.report.trust.means import Means
from tests.report.factories import healthy_observations, healthy_records, make_started
from tests.report.folders import NOW, Signed, begun, signed
from tests.report.trust.private_sigstore import ISSUER, private_sigstore
from tests.strangers import strangers

WORKFLOW: Final = "https://github.com/o/r/.github/workflows/release.yml@refs/tags/v1"

VERIFIERS: Final[dict[str, strangers.Verifier]] = {
    "ours": strangers.ours,
    "openssl": strangers.openssl,
    "sigstore_js": strangers.sigstore_js,
    "model_signing": strangers.model_signing,
}


def change_byte(path: Path, at: int) -> None:
    raw = bytearray(path.read_bytes())
    raw[at] ^= 1
    path.write_bytes(bytes(raw))


def change_payload(path: Path, old: bytes, new: bytes) -> None:
    """One byte within a statement; the bundle around it stays whole."""
    bundle = json.loads(path.read_bytes())
    payload = base64.b64decode(bundle["dsseEnvelope"]["payload"])
    assert payload.count(old) == 1
    assert sum(a != b for a, b in zip(old, new, strict=True)) == 1
    bundle["dsseEnvelope"]["payload"] = base64.b64encode(payload.replace(old, new)).decode()
    path.write_bytes(files.canonical_json(bundle))


def change_raw_samples(folder: Path) -> None:
    change_byte(folder / files.RECORDS, (folder / files.RECORDS).stat().st_size // 2)


def change_report(folder: Path) -> None:
    change_byte(folder / files.REPORT, (folder / files.REPORT).read_bytes().index(b'"mean": 0.') + 10)


def change_summary(folder: Path) -> None:
    change_payload(folder / files.ATTESTATION, b'"title": "A test', b'"title": "B test')


def change_recipe(folder: Path) -> None:
    change_byte(folder / files.RECIPE, (folder / files.RECIPE).read_bytes().index(b"mean_s = 4") + 9)


def change_key(folder: Path) -> None:
    change_byte(folder / files.SIGNER, 120)


def change_claims(folder: Path) -> None:
    change_payload(folder / files.TEST_RESULT, b"claim forty: ", b"claim forti: ")


CHANGES: Final[dict[str, Callable[[Path], None]]] = {
    "raw samples": change_raw_samples,
    "report": change_report,
    "summary": change_summary,
    "recipe": change_recipe,
    "key": change_key,
    "claims": change_claims,
}


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Signed:
    records = healthy_records([0.5] * 80)
    return signed(tmp_path_factory.mktemp("honest"), records, [make_started(), *healthy_observations(records)])


@pytest.fixture(scope="module")
def trusted_key(honest: Signed, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The signer's key as the stranger got it, over another channel than the report."""
    path = tmp_path_factory.mktemp("elsewhere") / "signer.pem"
    path.write_bytes(keys.public_pem(honest.signer.public))
    return path


@pytest.mark.parametrize("verifier", VERIFIERS)
def test_an_honest_report_is_accepted(honest: Signed, trusted_key: Path, verifier: str) -> None:
    said = VERIFIERS[verifier](honest.path, trusted_key)
    assert said.accepted, said.text


@pytest.mark.parametrize("verifier", VERIFIERS)
@pytest.mark.parametrize("change", CHANGES)
def test_one_changed_byte_is_refused(
    honest: Signed, trusted_key: Path, tmp_path: Path, change: str, verifier: str
) -> None:
    copy = honest.copy(tmp_path / "copy")
    CHANGES[change](copy.path)
    assert not VERIFIERS[verifier](copy.path, trusted_key).accepted


@pytest.mark.parametrize("verifier", VERIFIERS)
def test_another_key_is_refused(honest: Signed, tmp_path: Path, verifier: str) -> None:
    stranger = own_signer(tmp_path / "stranger")
    (tmp_path / "stranger.pem").write_bytes(keys.public_pem(stranger.public))
    assert not VERIFIERS[verifier](honest.path, tmp_path / "stranger.pem").accepted


@pytest.mark.parametrize("verifier", ["ours", "sigstore_js", "model_signing"])
def test_a_file_that_was_added_is_refused(honest: Signed, trusted_key: Path, tmp_path: Path, verifier: str) -> None:
    copy = honest.copy(tmp_path / "copy")
    (copy.path / files.engine_log(7)).write_text("of a run that never was")
    assert not VERIFIERS[verifier](copy.path, trusted_key).accepted


KEYLESS: Final = {
    "sigstore_js": strangers.sigstore_js_keyless,
    "model_signing": strangers.model_signing_keyless,
}


@pytest.fixture(scope="module")
def keyless_report(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A report that was signed keyless, and the description of the instance that vouches for it."""
    base = tmp_path_factory.mktemp("keyless")
    records = healthy_records([0.5] * 80)
    path = begun(base / "reports", records, [make_started(), *healthy_observations(records)])
    with private_sigstore(base / "sigstore") as sigstore, pytest.MonkeyPatch.context() as patch:
        patch.setenv(keyless.VARIABLE, sigstore.token(WORKFLOW))
        patch.setenv(ENVIRONMENT, str(base / "sigstore" / "instance.json"))
        with choose.attester(Means.KEYLESS, lambda _line: None) as signer:
            finish(path, signer=signer, now=NOW)
    return path, base / "sigstore" / "instance.json"


@pytest.mark.parametrize("verifier", KEYLESS)
def test_a_keyless_report_is_accepted_for_its_identity_alone(keyless_report: tuple[Path, Path], verifier: str) -> None:
    path, instance = keyless_report
    said = KEYLESS[verifier](path, instance, WORKFLOW, ISSUER)
    assert said.accepted, said.text
    assert not KEYLESS[verifier](path, instance, f"{WORKFLOW}0", ISSUER).accepted
    assert not KEYLESS[verifier](path, instance, WORKFLOW, "https://other.example").accepted


@pytest.mark.parametrize("verifier", KEYLESS)
@pytest.mark.parametrize("change", ["raw samples", "claims", "summary"])
def test_one_changed_byte_of_a_keyless_report_is_refused(
    keyless_report: tuple[Path, Path], tmp_path: Path, change: str, verifier: str
) -> None:
    path, instance = keyless_report
    copy = Path(shutil.copytree(path, tmp_path / "copy"))
    CHANGES[change](copy)
    assert not KEYLESS[verifier](copy, instance, WORKFLOW, ISSUER).accepted


def test_the_commands_on_the_page_check_the_bytes_of_a_keyless_report_too(keyless_report: tuple[Path, Path]) -> None:
    """The key of its certificate lies in the folder; whose it is, only the certificate says."""
    path, _ = keyless_report
    said = strangers.openssl(path, path / files.SIGNER)
    assert said.accepted, said.text


@pytest.mark.parametrize(("ci", "outcome"), [("true", pytest.fail.Exception), ("", pytest.skip.Exception)])
def test_without_npm_packages_ci_fails_and_anybody_else_skips(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, ci: str, outcome: type[BaseException]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("CI", ci)
    monkeypatch.setattr(strangers, "_tool", lambda _name: Path("/bin/false"))
    with pytest.raises(outcome, match="npm's packages cannot be installed"):
        strangers.node_modules()
