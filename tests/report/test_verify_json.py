import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.report.verify_json import DEPTH_LIMIT, HostileJsonError, strict_loads

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(JSON)
def test_what_we_write_is_read_as_it_was(value: object) -> None:
    assert strict_loads(json.dumps(value, ensure_ascii=False).encode()) == value


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b'{"a": 1, "b": {"c": 2, "c": 3}}', "'c' stands in it twice"),
        (b'{"a": NaN}', "NaN"),
        (b"[Infinity]", "Infinity"),
        (b"[-Infinity]", "-Infinity"),
        (b"[1e999]", "1e999 is not finite"),
        (b'{"a": "\xff"}', "not UTF-8"),
        (b'{"a": "\\ud800"}', "surrogate"),
        (b'{"\\ud800": 1}', "surrogate"),
        (b'{"a": 1', "not JSON"),
        (b"", "not JSON"),
        (b"1 2", "not JSON"),
        (b"[" + b"1" * 5000 + b"]", "1111... has more than 63 bits"),
        (b"[9223372036854775808]", "the number 9223372036854775808 has more than 63 bits"),
        (b"[-9223372036854775808]", "the number -9223372036854775808 has more than 63 bits"),
        (b"[" * 100 + b"]" * 100, f"deeper than {DEPTH_LIMIT}"),
        (b'{"a":' * 100 + b"1" + b"}" * 100, f"deeper than {DEPTH_LIMIT}"),
        (b"[" * 1_000_000, "nested too deep"),
    ],
)
def test_what_two_readers_could_read_differently_is_refused(raw: bytes, reason: str) -> None:
    with pytest.raises(HostileJsonError, match=reason):
        strict_loads(raw)
