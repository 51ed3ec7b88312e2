import hashlib
import os
import stat
import threading
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519

from bench.errors import StreamproofError, UsageError
from bench.report import keys

# RFC 6979, appendix A.2.5: the public key of the P-256 examples.
X = 0x60FED4BA255A9D31C961EB74C6356D68C049B8923B61FA6CE669622E60F29FB6
Y = 0x7903FE1008B8BC99A41AE9E95628BC64F2F1B20C2D7E9F5177A3C294D4462299


def pem_of(curve: ec.EllipticCurve) -> bytes:
    return keys.public_pem(ec.generate_private_key(curve).public_key())


def test_key_id_is_the_digest_of_the_der_subject_public_key_info() -> None:
    public = ec.EllipticCurvePublicNumbers(X, Y, ec.SECP256R1()).public_key()
    # openssl pkey -pubin -outform DER | sha256sum
    prefix = bytes.fromhex("3059301306072a8648ce3d020106082a8648ce3d03010703420004")
    expected = hashlib.sha256(prefix + X.to_bytes(32, "big") + Y.to_bytes(32, "big")).hexdigest()
    assert keys.key_id(public) == expected


def test_the_key_is_made_once_private_and_with_its_public_half(tmp_path: Path) -> None:
    folder = tmp_path / "config" / "keys"
    first = keys.own_signer(folder)
    again = keys.own_signer(folder)
    assert first.key_id == again.key_id
    assert stat.S_IMODE((folder / keys.PRIVATE_NAME).stat().st_mode) == 0o600
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert (folder / keys.PUBLIC_NAME).read_bytes() == keys.public_pem(first.public)
    assert sorted(path.name for path in folder.iterdir()) == [keys.PRIVATE_NAME, keys.PUBLIC_NAME]


def test_a_lost_public_half_is_written_again(tmp_path: Path) -> None:
    signer = keys.own_signer(tmp_path)
    (tmp_path / keys.PUBLIC_NAME).write_bytes(pem_of(ec.SECP256R1()))
    assert keys.own_signer(tmp_path).key_id == signer.key_id
    assert (tmp_path / keys.PUBLIC_NAME).read_bytes() == keys.public_pem(signer.public)


def test_two_first_uses_at_once_end_with_one_key(tmp_path: Path) -> None:
    found: list[str] = []
    start = threading.Barrier(8)

    def use() -> None:
        start.wait()
        found.append(keys.own_signer(tmp_path / "keys").key_id)

    threads = [threading.Thread(target=use) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert len(set(found)) == 1


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660])
def test_a_key_that_others_can_use_is_refused(tmp_path: Path, mode: int) -> None:
    keys.own_signer(tmp_path)
    (tmp_path / keys.PRIVATE_NAME).chmod(mode)
    with pytest.raises(StreamproofError, match=f"can be used by others .*mode {mode:04o}") as caught:
        keys.own_signer(tmp_path)
    assert "chmod 600" in caught.value.remedy


def test_a_key_of_another_kind_is_refused(tmp_path: Path) -> None:
    for private in (ec.generate_private_key(ec.SECP384R1()), ed25519.Ed25519PrivateKey.generate()):
        pem = private.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        (tmp_path / keys.PRIVATE_NAME).write_bytes(pem)
        (tmp_path / keys.PRIVATE_NAME).chmod(0o600)
        with pytest.raises(StreamproofError, match="not an ECDSA P-256 private key"):
            keys.own_signer(tmp_path)


def test_an_encrypted_or_broken_key_is_refused(tmp_path: Path) -> None:
    encrypted = ec.generate_private_key(ec.SECP256R1()).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.BestAvailableEncryption(b"x")
    )
    for pem in (encrypted, b"-----BEGIN PRIVATE KEY-----\nnonsense\n-----END PRIVATE KEY-----\n", b""):
        (tmp_path / keys.PRIVATE_NAME).write_bytes(pem)
        (tmp_path / keys.PRIVATE_NAME).chmod(0o600)
        with pytest.raises(StreamproofError, match="not an ECDSA P-256 private key"):
            keys.own_signer(tmp_path)


def test_a_folder_that_cannot_be_made_is_an_error_with_a_remedy(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StreamproofError, match="cannot use the signing key") as caught:
        keys.own_signer(tmp_path / "file" / "keys")
    assert "XDG_CONFIG_HOME" in caught.value.remedy


def test_where_the_key_lives(monkeypatch: pytest.MonkeyPatch) -> None:
    assert keys.keys_folder({"XDG_CONFIG_HOME": "/c", "HOME": "/h"}) == Path("/c/streamproof/keys")
    assert keys.keys_folder({"XDG_CONFIG_HOME": "relative", "HOME": "/h"}) == Path("/h/.config/streamproof/keys")
    monkeypatch.setattr(Path, "home", lambda: Path("/by/passwd"))
    assert keys.keys_folder({}) == Path("/by/passwd/.config/streamproof/keys")
    monkeypatch.setenv("XDG_CONFIG_HOME", "/from/environment")
    assert keys.keys_folder() == Path("/from/environment/streamproof/keys")


def test_without_a_home_folder_it_says_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere() -> Path:
        raise RuntimeError

    monkeypatch.setattr(Path, "home", nowhere)
    with pytest.raises(StreamproofError, match="no home folder") as caught:
        keys.keys_folder({})
    assert "XDG_CONFIG_HOME" in caught.value.remedy


def test_trusted_are_the_own_key_the_allow_list_and_those_named(tmp_path: Path) -> None:
    own = keys.own_signer(tmp_path / "own")
    listed, named = pem_of(ec.SECP256R1()), pem_of(ec.SECP256R1())
    (tmp_path / "keys").mkdir()
    (tmp_path / "keys" / "ci.pem").write_bytes(listed)
    (tmp_path / "keys" / "README.md").write_text("not a key, and not read")
    (tmp_path / "friend.pem").write_bytes(named)
    found = keys.trusted_keys(
        allow_list=tmp_path / "keys", extra=[tmp_path / "friend.pem"], own_folder=tmp_path / "own"
    )
    assert {key.origin for key in found.values()} == {"your own key", "keys/ci.pem", str(tmp_path / "friend.pem")}
    assert found[own.key_id].public == own.public
    assert all(found[identity].key_id == identity == keys.key_id(found[identity].public) for identity in found)


def test_looking_for_trusted_keys_makes_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert keys.trusted_keys(allow_list=None) == {}
    assert keys.trusted_keys(allow_list=tmp_path / "missing") == {}
    assert list(tmp_path.iterdir()) == []


def test_a_bad_key_in_the_allow_list_is_named(tmp_path: Path) -> None:
    (tmp_path / "bad.pem").write_bytes(pem_of(ec.SECP384R1()))
    with pytest.raises(StreamproofError, match=r"bad\.pem is not an ECDSA P-256 public key"):
        keys.trusted_keys(allow_list=tmp_path, own_folder=tmp_path / "none")


def test_a_named_key_that_is_missing_is_wrong_usage(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"cannot read the key .*gone\.pem"):
        keys.trusted_keys(allow_list=None, extra=[tmp_path / "gone.pem"], own_folder=tmp_path)


def test_of_an_endless_key_file_only_the_beginning_is_read(tmp_path: Path) -> None:
    with pytest.raises(StreamproofError, match="not an ECDSA P-256 public key"):
        keys.trusted_keys(allow_list=None, extra=[Path("/dev/zero")], own_folder=tmp_path)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_key_of_somebody_else_is_refused(tmp_path: Path) -> None:
    keys.own_signer(tmp_path)
    os.chown(tmp_path / keys.PRIVATE_NAME, 12345, -1)
    with pytest.raises(StreamproofError, match="owner 12345"):
        keys.own_signer(tmp_path)
