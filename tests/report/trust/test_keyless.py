"""Keyless signatures against a whole Sigstore instance of our own, on loopback; the public one is never asked."""

import base64
import json
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest
from typer.testing import CliRunner

from bench.cli import app
from bench.errors import StreamproofError, UsageError
from bench.observe.observations import Finished
from bench.report import folder_files as files
from bench.report import keys, verify_show, verify_words
from bench.report import verify as verification
from bench.report.folder import finish
from bench.report.keys import Trust, TrustedIdentity
from bench.report.trust import choose, keyless
from bench.report.trust.instance import ENVIRONMENT, read
from bench.report.trust.keyless_verify import matches
from bench.report.trust.means import VARIABLE, Means
from bench.report.trust.validity import Revocation, Validity
from tests.report.factories import healthy_observations, healthy_records, make_started
from tests.report.folders import NOW, begun
from tests.report.trust.private_sigstore import ISSUER, PrivateSigstore, private_sigstore

WORKFLOW = "https://github.com/o/r/.github/workflows/release.yml@refs/tags/v1"


@dataclass(frozen=True)
class Scene:
    """A report that was signed keyless, and the instance that vouches for the signer."""

    path: Path
    sigstore: PrivateSigstore
    instance: Path
    said: tuple[str, ...]

    def trust(self, identity: str = WORKFLOW, issuer: str = ISSUER, validity: Validity | None = None) -> Trust:
        named = TrustedIdentity(identity, issuer, "keys/trust.toml", validity or Validity())
        return Trust({}, {}, (named,), self.instance)


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    base = tmp_path_factory.mktemp("keyless")
    records = healthy_records([0.5] * 80)
    path = begun(base / "reports", records, [make_started(), *healthy_observations(records)])
    said: list[str] = []
    with private_sigstore(base / "sigstore") as sigstore, pytest.MonkeyPatch.context() as patch:
        patch.setenv(keyless.VARIABLE, sigstore.token(WORKFLOW))
        patch.setenv(ENVIRONMENT, str(base / "sigstore" / "instance.json"))
        with choose.attester(Means.KEYLESS, said.append) as signer:
            finish(path, signer=signer, now=NOW)
    return Scene(path, sigstore, base / "sigstore" / "instance.json", tuple(said))


def reason(path: Path, trust: Trust) -> str:
    found = verification.verify(path, trust)
    assert not found.verified
    return "; ".join(finding.reason for finding in found.findings)


def test_a_keyless_report_is_verified_without_a_network(scene: Scene) -> None:
    """The instance is not there any more: all that is needed lies in the bundle and in the root of trust."""
    found = verification.verify(scene.path, scene.trust())
    assert found.findings == ()
    assert found.passed == verification.STEPS
    assert found.key is not None
    assert found.key.identity is not None
    assert (found.key.identity.name, found.key.identity.issuer) == (WORKFLOW, ISSUER)
    assert found.signed is not None
    assert found.signed.attested
    assert scene.sigstore.started <= found.signed.last
    assert (found.signed.last - found.signed.first).total_seconds() == 600


def test_what_is_published_is_said_before_it_is_sent(scene: Scene) -> None:
    assert scene.said[0] == f"Signing keyless as {WORKFLOW}, says {ISSUER}; certificate from {scene.sigstore.url}."
    assert any("for everybody and for ever" in line for line in scene.said)
    # One certificate for all three signatures, each with its entry and its timestamp.
    assert [path.rstrip("/") for path, _ in scene.sigstore.requests] == [
        "/api/v2/signingCert",
        *("/tsa", "/api/v1/log/entries") * 3,
    ]
    logged = [json.loads(body)["spec"]["proposedContent"] for path, body in scene.sigstore.requests if "log" in path]
    sent = [base64.b64decode(json.loads(each["envelope"])["payload"]) for each in logged]
    kept = [json.loads((scene.path / name).read_bytes())["dsseEnvelope"]["payload"] for name in files.SIGNATURES]
    assert sent == [base64.b64decode(each) for each in kept]


def test_the_bundle_carries_certificate_entry_and_timestamp(scene: Scene) -> None:
    for name in files.SIGNATURES:
        material = json.loads((scene.path / name).read_bytes())["verificationMaterial"]
        assert set(material) == {"certificate", "tlogEntries", "timestampVerificationData"}
        (entry,) = material["tlogEntries"]
        assert entry["kindVersion"] == {"kind": "dsse", "version": "0.0.1"}
        assert len(material["timestampVerificationData"]["rfc3161Timestamps"]) == 1


def test_an_identity_that_is_not_trusted_is_named_with_what_to_do(scene: Scene) -> None:
    for trust in (
        scene.trust("https://github.com/o/r/.github/workflows/release.yml@refs/tags/v2"),
        scene.trust(issuer="https://other.example"),
        Trust({}, {}, (), scene.instance),
    ):
        found = verification.verify(scene.path, trust)
        (finding,) = found.findings
        assert finding.reason == f"signed by an identity that is not trusted here: {WORKFLOW}, says {ISSUER}"
        assert "--identity" in finding.remedy
        assert found.key is None


def test_a_pattern_of_the_allow_list_fits_every_tag(scene: Scene) -> None:
    pattern = "https://github.com/o/r/.github/workflows/release.yml@refs/tags/*"
    assert verification.verify(scene.path, scene.trust(pattern)).verified


def test_an_entry_that_withdraws_trust_counts_beside_one_that_gives_it(scene: Scene) -> None:
    """A revoked tag is not trusted by a pattern that fits it, nor because somebody names it on the command line."""
    revoked = Validity(revoked=Revocation(scene.sigstore.started, "compromised", "the workflow was changed"))
    one = TrustedIdentity(WORKFLOW, ISSUER, "keys/trust.toml", revoked)
    pattern = TrustedIdentity(f"{WORKFLOW.rpartition('/')[0]}/*", ISSUER, "keys/trust.toml")
    named = TrustedIdentity(WORKFLOW, ISSUER, "--identity")
    for entries in ((pattern, one), (one, pattern), (named, one), (named, pattern, one)):
        trust = Trust({}, {}, entries, scene.instance)
        assert "had been revoked" in reason(scene.path, trust)
    limited = TrustedIdentity(WORKFLOW, ISSUER, "keys/trust.toml", Validity(not_after=scene.sigstore.started))
    assert "had expired" in reason(scene.path, Trust({}, {}, (pattern, limited), scene.instance))
    assert verification.verify(scene.path, Trust({}, {}, (named, pattern), scene.instance)).verified


def test_only_a_star_at_the_end_stands_for_anything() -> None:
    assert matches("https://a/b@*", "https://a/b@c")
    assert not matches("https://a/b@*", "https://a/c@c")
    assert not matches("https://a/.@c", "https://a/b@c")
    assert not matches("https://a/b@c", "https://a/b@cd")


def test_another_instance_does_not_vouch(scene: Scene, tmp_path: Path) -> None:
    with private_sigstore(tmp_path) as other:
        assert other.url != scene.sigstore.url
    trust = Trust({}, {}, scene.trust().identities, tmp_path / "instance.json")
    assert "the keyless signature does not hold: " in reason(scene.path, trust)


def test_the_public_instance_does_not_vouch_either(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Its roots come with the package: nobody is asked."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    trust = Trust({}, {}, scene.trust().identities, None)
    assert "the keyless signature does not hold: " in reason(scene.path, trust)


def edited(path: Path, at: tuple[str | int, ...], value: object) -> None:
    """Another value in the bundle."""
    bundle = json.loads(path.read_bytes())
    inner = bundle
    for step in at[:-1]:
        inner = inner[step]
    inner[at[-1]] = value
    path.write_bytes(files.canonical_json(bundle))


ENTRY = ("verificationMaterial", "tlogEntries", 0)
TIMES = ("verificationMaterial", "timestampVerificationData")


@pytest.mark.parametrize(
    ("at", "value", "expected"),
    [
        ((*ENTRY, "logIndex"), "7", "SET"),
        ((*ENTRY, "integratedTime"), "1000000000", "does not hold"),
        ((*ENTRY, "canonicalizedBody"), base64.b64encode(b"{}").decode(), "does not hold"),
        ((*ENTRY, "inclusionProof", "rootHash"), base64.b64encode(b"0" * 32).decode(), "root hash"),
        ((*ENTRY, "inclusionProof", "treeSize"), "0", "is no keyless bundle"),
        (("verificationMaterial", "tlogEntries"), [], "is no keyless bundle"),
        (("verificationMaterial", "certificate", "rawBytes"), "AAAA", "is no keyless bundle"),
        (("verificationMaterial", "certificate", "more"), 1, "is not our bundle"),
        (("dsseEnvelope", "signatures", 0, "sig"), base64.b64encode(b"0" * 70).decode(), "does not hold"),
        (("mediaType",), "application/vnd.dev.sigstore.bundle+json;version=0.2", "is not our bundle"),
        (TIMES, {"rfc3161Timestamps": [{"signedTimestamp": "AAAA"}]}, "does not hold"),
    ],
)
def test_a_changed_bundle_is_refused(
    scene: Scene, tmp_path: Path, at: tuple[str | int, ...], value: object, expected: str
) -> None:
    copy = Path(shutil.copytree(scene.path, tmp_path / "copy"))
    edited(copy / files.ATTESTATION, at, value)
    assert expected in reason(copy, scene.trust())


def test_the_key_in_the_folder_must_be_the_certificates(scene: Scene, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(scene.path, tmp_path / "copy"))
    (copy / files.SIGNER).write_bytes(keys.public_pem(keys.own_signer(tmp_path / "keys").public))
    assert reason(copy, scene.trust()) == "is not the key of the certificate that the report was signed with"


def test_the_attested_time_is_judged_and_not_the_claimed_one(scene: Scene) -> None:
    """The report says that it was signed at `NOW`; the certificate knows better."""
    issued = scene.sigstore.started
    late = scene.trust(validity=Validity(not_before=issued + timedelta(days=1)))
    assert reason(scene.path, late).startswith("it was signed on ")
    over = scene.trust(validity=Validity(not_after=issued))
    assert reason(scene.path, over).startswith("the signer's key had expired: it was signed on ")
    revoked = Revocation(issued + timedelta(hours=1), "compromised", "a stolen laptop")
    # Nobody can date a keyless signature back: what was made before counts.
    found = verification.verify(scene.path, scene.trust(validity=Validity(revoked=revoked)))
    assert found.verified


def test_what_is_printed_says_who_when_and_what_it_proves(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr(verify_show, "ALLOW_LIST", tmp_path / "keys")
    named = scene.trust().identities
    assert verify_show.check_and_show(scene.path, [], identities=named, instance=scene.instance) == 0
    text = capsys.readouterr().out
    assert f"signed by {WORKFLOW}, says {ISSUER} (keys/trust.toml)" in text
    assert "as certificate authority and public log attest" in text
    assert verify_words.IDENTITY_PROVES in text
    assert verify_show.check_and_show(scene.path, [], identities=named, instance=scene.instance, as_json=True) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["identity"] == {"name": WORKFLOW, "issuer": ISSUER}
    assert data["signed"]["attested"] is True


def test_the_command_takes_identity_issuer_and_instance(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "200")
    command = ["verify", str(scene.path), "--identity", WORKFLOW, "--issuer", ISSUER]
    done = CliRunner().invoke(app, [*command, "--instance", str(scene.instance)], catch_exceptions=False)
    assert done.exit_code == 0
    assert f"signed by {WORKFLOW}, says {ISSUER} (--identity)" in done.output
    monkeypatch.setenv(ENVIRONMENT, str(scene.instance))
    assert CliRunner().invoke(app, command, catch_exceptions=False).exit_code == 0
    assert CliRunner().invoke(app, command[:2], catch_exceptions=False).exit_code == 1


def test_a_token_alone_signs_nothing_keyless(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    with private_sigstore(tmp_path / "sigstore") as sigstore:
        monkeypatch.setenv(keyless.VARIABLE, sigstore.token(WORKFLOW))
        with choose.attester(Means.KEY, pytest.fail) as signer:
            assert isinstance(signer, keys.Signer)
        assert sigstore.requests == []


@pytest.mark.parametrize("breaks", ["/api/v2/signingCert", "/api/v1/log/entries"])
def test_an_instance_that_fails_leaves_the_report_and_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, breaks: str
) -> None:
    records = healthy_records([0.5] * 80)
    path = begun(tmp_path / "reports", records, healthy_observations(records))
    with private_sigstore(tmp_path / "sigstore") as sigstore:
        sigstore.breaks = breaks
        monkeypatch.setenv(keyless.VARIABLE, sigstore.token(WORKFLOW))
        monkeypatch.setenv(ENVIRONMENT, str(tmp_path / "sigstore" / "instance.json"))
        with (
            pytest.raises(StreamproofError, match="signing keyless failed: ") as caught,
            choose.attester(Means.KEYLESS, lambda _line: None) as signer,
        ):
            finish(path, signer=signer, now=NOW)
    assert "`just finish FOLDER`" in caught.value.remedy
    own = keys.own_signer(tmp_path / "keys")
    finish(path, signer=own, now=NOW)
    assert verification.verify(path, keys.trusted_keys(allow_list=None, own_folder=tmp_path / "keys")).verified


def test_without_a_token_it_says_how_to_get_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(keyless.VARIABLE, raising=False)
    monkeypatch.setattr("sigstore.oidc.detect_credential", lambda: None)
    with pytest.raises(StreamproofError, match="there is none") as caught:
        choose.can_sign(Means.KEYLESS, pytest.fail)
    assert "id-token: write" in caught.value.remedy


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PrivateSigstore]:
    """We are a job of GitHub Actions that may ask for tokens; whom it names is the test's."""
    with private_sigstore(tmp_path / "sigstore") as sigstore:
        monkeypatch.delenv(keyless.VARIABLE, raising=False)
        monkeypatch.setenv("GITHUB_ACTIONS", "true")
        monkeypatch.setenv("ACTIONS_ID_TOKEN_REQUEST_URL", f"{sigstore.url}/token?api-version=2.0")
        monkeypatch.setenv("ACTIONS_ID_TOKEN_REQUEST_TOKEN", "of the job")
        monkeypatch.setenv(ENVIRONMENT, str(tmp_path / "sigstore" / "instance.json"))
        monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
        monkeypatch.setenv("COLUMNS", "200")
        yield sigstore


def test_a_job_of_github_actions_signs_a_finished_report_in_its_own_name(
    tmp_path: Path, job: PrivateSigstore, monkeypatch: pytest.MonkeyPatch
) -> None:
    job.job = WORKFLOW
    records = healthy_records([0.5] * 80)
    path = begun(tmp_path / "reports", records, [*healthy_observations(records), Finished(t=99.0, run=0)])
    done = CliRunner().invoke(app, ["finish", str(path), "--sign", "keyless"], catch_exceptions=False)
    assert f"Signing keyless as {WORKFLOW}, says {ISSUER}" in done.output
    assert "for everybody and for ever" in done.output
    assert job.requests
    trusted = Trust({}, {}, (TrustedIdentity(WORKFLOW, ISSUER, "here"),), tmp_path / "sigstore" / "instance.json")
    assert verification.verify(path, trusted).verified
    assert not (tmp_path / "config").exists()  # no key was made

    # The same by the environment; and without either, the token lies there and a key signs.
    job.requests.clear()
    monkeypatch.setenv(VARIABLE, "keyless")
    CliRunner().invoke(app, ["finish", str(path)], catch_exceptions=False)
    assert job.requests
    job.requests.clear()
    monkeypatch.delenv(VARIABLE)
    CliRunner().invoke(app, ["finish", str(path)], catch_exceptions=False)
    assert job.requests == []
    assert verification.verify(path, keys.trusted_keys(allow_list=None)).verified


def test_a_job_without_the_permission_is_told_so_before_anything_is_measured(
    tmp_path: Path, job: PrivateSigstore
) -> None:
    command = ["repro", "cpu", "--sign", "keyless", "--reports", str(tmp_path / "reports")]
    with pytest.raises(StreamproofError, match="the identity token cannot be used") as caught:
        CliRunner().invoke(app, command, catch_exceptions=False)
    assert "id-token: write" in caught.value.remedy
    assert not (tmp_path / "reports").exists()
    assert job.requests == []


@pytest.mark.parametrize("audience", [None, "somebody else"])
def test_a_token_that_is_none_is_refused_before_anything_is_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, audience: str | None
) -> None:
    with private_sigstore(tmp_path) as sigstore:
        token = "nonsense" if audience is None else sigstore.token(WORKFLOW, audience=audience)
        monkeypatch.setenv(keyless.VARIABLE, token)
        monkeypatch.setenv(ENVIRONMENT, str(tmp_path / "instance.json"))
        with (
            pytest.raises(StreamproofError, match="the identity token cannot be used"),
            choose.attester(Means.KEYLESS, pytest.fail),
        ):
            pytest.fail("there is a signer")
        assert sigstore.requests == []


def test_an_instance_that_cannot_be_read_is_wrong_usage(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot read"):
        read(tmp_path / "none.json", offline=True)
    (tmp_path / "bad.json").write_text("{}")
    with pytest.raises(UsageError, match="is no ClientTrustConfig of Sigstore"):
        read(tmp_path / "bad.json", offline=True)


def test_without_the_extra_it_says_what_to_install(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("sigstore.errors", "sigstore.sign"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(StreamproofError, match="is not installed here") as caught:
        verification.verify(scene.path, scene.trust())
    assert "uv sync --extra release" in caught.value.remedy
    monkeypatch.setenv(keyless.VARIABLE, "x")
    with pytest.raises(StreamproofError, match="is not installed here"):
        choose.can_sign(Means.KEYLESS, pytest.fail)
