import base64
import hashlib
import json
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from bench.errors import StreamproofError
from bench.report import sign
from bench.report.disclosure import not_real
from bench.report.keys import Signer, TrustedKey, key_id, own_signer
from quantize.attested import check_attested
from quantize.audit.model import FILE_NAME as AUDIT
from quantize.audit.model import NEEDS_MORE, Audit, Format, Gate, GateName, Verdict, audit_json
from quantize.checkpoint import resolve
from quantize.hashes import Hashes
from quantize.provenance import SIGNATURE
from recipes.load import load_recipe


@pytest.fixture
def signer() -> Signer:
    private = ec.generate_private_key(ec.SECP256R1())
    return Signer(private, key_id(private.public_key()))


def trusting(signer: Signer) -> dict[str, TrustedKey]:
    return {signer.key_id: TrustedKey(signer.key_id, signer.public, "a test")}


def write_audit(folder: Path, *, failed: GateName | None = None) -> None:
    gates = tuple(
        Gate(
            number=number,
            name=name,
            says="",
            verdict=Verdict.FAILED if name is failed else Verdict.NOT_CHECKED if name in NEEDS_MORE else Verdict.PASSED,
        )
        for number, name in enumerate(GateName)
    )
    form = Format(kind="nvfp4", says="", quant_algo="NVFP4", group_size=16)
    audit = Audit.of(checkpoint="c", family=None, format_=form, tensors=1, data_bytes=1, gates=gates)
    (folder / AUDIT).write_bytes(audit_json(audit))


def write_signature(folder: Path, signer: Signer) -> None:
    """As model-signing 1.1.1 writes it (tests/quantize/test_quantize_tiny.py has it written by the tool itself)."""
    names = sorted(path.name for path in folder.iterdir() if path.name != SIGNATURE)
    digests = {name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in names}
    statement = {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": folder.name, "digest": {"sha256": "0" * 64}}],
        "predicateType": "https://model_signing/signature/v1.0",
        "predicate": {
            "resources": [{"name": n, "digest": d, "algorithm": "sha256"} for n, d in digests.items()],
            "serialization": {"method": "files", "hash_type": "sha256", "allow_symlinks": False},
        },
    }
    payload = json.dumps(statement, indent=2).encode()
    signature = signer.private.sign(sign.pae(sign.PAYLOAD_TYPE, payload), sign.SIGNATURE_ALGORITHM)
    envelope = {
        "payload": base64.b64encode(payload).decode(),
        "payloadType": sign.PAYLOAD_TYPE,
        "signatures": [{"sig": base64.b64encode(signature).decode(), "keyid": ""}],
    }
    material = {"publicKey": {"hint": "0" * 64}, "tlogEntries": []}
    bundle = {"mediaType": sign.BUNDLE_TYPE, "verificationMaterial": material, "dsseEnvelope": envelope}
    (folder / SIGNATURE).write_text(json.dumps(bundle))


@pytest.fixture
def folder(tmp_path: Path, signer: Signer) -> Path:
    folder = tmp_path / "checkpoint"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    (folder / "model.safetensors").write_bytes(b"weights")
    write_audit(folder)
    write_signature(folder, signer)
    return folder


def check(folder: Path, signer: Signer) -> None:
    check_attested(folder, trusting(signer), hashes=Hashes(None))


def refusal(folder: Path, signer: Signer) -> str:
    with pytest.raises(StreamproofError) as caught:
        check(folder, signer)
    assert "--unaudited" in caught.value.remedy
    return caught.value.message


def test_what_was_audited_and_signed_is_taken(folder: Path, signer: Signer) -> None:
    signed = check_attested(folder, trusting(signer), hashes=Hashes(None))
    assert signed.key_id == signer.key_id
    assert signed.digests["model.safetensors"] == hashlib.sha256(b"weights").hexdigest()


def test_a_changed_file(folder: Path, signer: Signer) -> None:
    (folder / "model.safetensors").write_bytes(b"Weights")
    assert "model.safetensors is not the file that was audited and signed" in refusal(folder, signer)


def test_a_missing_file(folder: Path, signer: Signer) -> None:
    (folder / "config.json").unlink()
    assert "config.json is missing" in refusal(folder, signer)


def test_a_file_that_nobody_signed(folder: Path, signer: Signer) -> None:
    (folder / "model-2.safetensors").write_bytes(b"")
    assert "model-2.safetensors is not among the files that were signed" in refusal(folder, signer)


def test_no_audit(folder: Path, signer: Signer) -> None:
    (folder / AUDIT).unlink()
    assert "nobody has audited it" in refusal(folder, signer)


def test_a_failed_audit_even_when_somebody_signed_it(folder: Path, signer: Signer) -> None:
    write_audit(folder, failed=GateName.SCALES)
    write_signature(folder, signer)
    assert "its audit failed (scales)" in refusal(folder, signer)


def test_no_signature(folder: Path, signer: Signer) -> None:
    (folder / SIGNATURE).unlink()
    assert "no signature" in refusal(folder, signer)


def test_the_signature_of_a_stranger(folder: Path, signer: Signer) -> None:
    private = ec.generate_private_key(ec.SECP256R1())
    write_signature(folder, Signer(private, key_id(private.public_key())))
    assert "no key that is trusted here" in refusal(folder, signer)


def test_a_signature_that_was_edited(folder: Path, signer: Signer) -> None:
    bundle = json.loads((folder / SIGNATURE).read_text())
    payload = base64.b64decode(bundle["dsseEnvelope"]["payload"]).replace(b"config.json", b"konfig.json")
    bundle["dsseEnvelope"]["payload"] = base64.b64encode(payload).decode()
    (folder / SIGNATURE).write_text(json.dumps(bundle))
    assert "no key that is trusted here" in refusal(folder, signer)


@pytest.mark.parametrize("content", [b"", b"{}", b"[1]", b'{"dsseEnvelope": {"payload": "*"}}', b"\xff"])
def test_a_signature_that_is_none(folder: Path, signer: Signer, content: bytes) -> None:
    (folder / SIGNATURE).write_bytes(content)
    assert "its signature cannot be read" in refusal(folder, signer)


def overrides(folder: Path, **more: str) -> dict[str, str]:
    named = {"checkpoint.kind": "quantized", "checkpoint.name": str(folder)}
    return named | {f"checkpoint.{key}": value for key, value in more.items()}


def test_a_recipe_serves_it_and_the_hash_is_the_same_whoever_signs(
    folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    write_signature(folder, own_signer())
    recipe = load_recipe("cpu", overrides(folder))
    before = resolve(recipe.checkpoint).sha256
    write_signature(folder, own_signer())
    assert resolve(recipe.checkpoint).sha256 == before
    (folder / "model.safetensors").write_bytes(b"other")
    with pytest.raises(StreamproofError, match="is not the file that was audited"):
        resolve(recipe.checkpoint)


def test_served_unaudited_the_title_says_so(folder: Path) -> None:
    (folder / SIGNATURE).unlink()
    recipe = load_recipe("cpu", overrides(folder, unaudited="true"))
    assert resolve(recipe.checkpoint).model == str(folder)
    assert "unaudited checkpoint" in not_real(recipe, external=False, partial=False)
    assert "unaudited checkpoint" not in not_real(load_recipe("cpu"), external=False, partial=False)
