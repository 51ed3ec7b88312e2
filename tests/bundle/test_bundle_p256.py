from __future__ import annotations

import base64
import hashlib

import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.bundle.host import p256
from bench.bundle.host.p256 import BadKeyError, der_of_pem, key_id, verifies
from bench.report import keys

ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
PRIVATE = ec.derive_private_key(0xC9AFA9D845BA75166B5C215767B1D6934E50C3DB36E89B127B8A622B120F6721, ec.SECP256R1())
"""The key of RFC 6979, appendix A.2.5."""


def der(key: ec.EllipticCurvePublicKey) -> bytes:
    return key.public_bytes(serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo)


PUBLIC = der(PRIVATE.public_key())


SAMPLE = encode_dss_signature(
    0xEFD48B2AACB6A8FD1140DD9CD45E81D69D2C877B56AAF991C34D0EA84EAF3716,
    0xF7CB1C942D657C41D436C7A1B6E29F65F3E900DBB9AFF4064DC4AB2F843ACDA8,
)
"""Over "sample", from the same place, with SHA-256."""


@pytest.mark.parametrize(
    ("message", "signature"),
    [  # RFC 6979, appendix A.2.5, "With SHA-256"
        (b"sample", SAMPLE),
        (
            b"test",
            encode_dss_signature(
                0xF1ABB023518351CD71D881567B1EA663ED3EFCF6C5132B354F28D3B0B7D38367,
                0x019F4113742A2B14BD25926B49C649155F267E60D3814B4C0CC84250E46F0083,
            ),
        ),
    ],
)
def test_published_vectors(message: bytes, signature: bytes) -> None:
    assert verifies(PUBLIC, signature, message)
    assert not verifies(PUBLIC, signature, message + b".")


@settings(max_examples=25)
@given(secret=st.integers(1, ORDER - 1), message=st.binary(max_size=200))
def test_agrees_with_openssl(secret: int, message: bytes) -> None:
    private = ec.derive_private_key(secret, ec.SECP256R1())
    signature = private.sign(message, ec.ECDSA(hashes.SHA256()))
    assert verifies(der(private.public_key()), signature, message)
    if secret != 1:
        other = ec.derive_private_key(secret - 1, ec.SECP256R1())
        assert not verifies(der(other.public_key()), signature, message)


@settings(max_examples=60)
@given(data=st.data())
def test_a_changed_byte_of_a_signature_is_refused(data: st.DataObject) -> None:
    signature = bytearray(SAMPLE)
    at = data.draw(st.integers(0, len(signature) - 1))
    signature[at] ^= data.draw(st.integers(1, 255))
    assert not verifies(PUBLIC, bytes(signature), b"sample")


@pytest.mark.parametrize("numbers", [(0, 1), (1, 0), (ORDER, 1), (1, ORDER), (0, 0), (1, 1)])
def test_numbers_out_of_range_are_refused(numbers: tuple[int, int]) -> None:
    assert not verifies(PUBLIC, encode_dss_signature(*numbers), b"message")


@pytest.mark.parametrize(
    "signature",
    [
        b"",
        b"\x30",
        bytes.fromhex("3006020101020101ff"),  # something follows
        bytes.fromhex("300702010102010105"),  # something follows inside
        bytes.fromhex("30080202000102020001"),  # leading zeros
        bytes.fromhex("3006020101040101"),  # not an integer
        bytes.fromhex("30050200020101"),  # an empty integer
        bytes.fromhex("3081"),
        bytes.fromhex("30060201ff020101"),  # negative
    ],
)
def test_malformed_signatures_are_refused(signature: bytes) -> None:
    assert not verifies(PUBLIC, signature, b"message")


def test_a_sum_at_infinity_is_refused() -> None:
    # With Q = G and z = -r the sum z/s G + r/s Q is the point at infinity, which has no x.
    generator = der(ec.derive_private_key(1, ec.SECP256R1()).public_key())
    digest = int.from_bytes(hashlib.sha256(b"message").digest(), "big")
    assert not verifies(generator, encode_dss_signature(-digest % ORDER, 5), b"message")


def test_adding_nothing_changes_nothing() -> None:
    assert p256._add(p256._G, None) == p256._G == p256._add(None, p256._G)


@pytest.mark.parametrize(
    "bad",
    [
        b"",
        PUBLIC[:-1],
        PUBLIC[:-1] + bytes([PUBLIC[-1] ^ 1]),  # not on the curve
        PUBLIC[:-64] + b"\xff" * 64,  # beyond the field
        der(ec.derive_private_key(5, ec.SECP384R1()).public_key()),
    ],
)
def test_what_is_no_key_is_an_error(bad: bytes) -> None:
    with pytest.raises(BadKeyError):
        verifies(bad, b"", b"")


def test_pem_and_key_id_are_those_of_reports() -> None:
    public = PRIVATE.public_key()
    assert der_of_pem(keys.public_pem(public)) == PUBLIC
    assert key_id(PUBLIC) == keys.key_id(public)


@pytest.mark.parametrize(
    "pem",
    [
        b"",
        b"-----BEGIN PRIVATE KEY-----\n" + base64.b64encode(PUBLIC) + b"\n-----END PRIVATE KEY-----\n",
        b"-----BEGIN PUBLIC KEY-----\n*\n-----END PUBLIC KEY-----\n",
    ],
)
def test_what_is_no_pem_is_an_error(pem: bytes) -> None:
    with pytest.raises(BadKeyError):
        der_of_pem(pem)
