from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.report.trust.validity import ALWAYS, BACKDATED, Judgement, Reason, Revocation, Signed, Validity

START = datetime(2026, 11, 1, tzinfo=UTC)
END = datetime(2027, 11, 1, tzinfo=UTC)
NOW = datetime(2027, 6, 1, tzinfo=UTC)
LATER = datetime(2028, 1, 1, tzinfo=UTC)
YEAR = Validity(START, END)


def says(when: datetime) -> Signed:
    return Signed(when, when, attested=False)


def attested(when: datetime) -> Signed:
    return Signed(when, when + timedelta(minutes=10), attested=True)


def revoked(reason: Reason, at: datetime = datetime(2027, 3, 1, tzinfo=UTC)) -> Validity:
    return Validity(START, END, Revocation(at, reason, "a new laptop"))


def test_without_a_limit_everything_counts_a_signature_without_a_time_too() -> None:
    assert ALWAYS.judge(None, NOW) == Judgement()
    assert ALWAYS.judge(says(START), NOW) == Judgement()
    assert not ALWAYS.limited


def test_a_limited_signer_needs_a_time() -> None:
    assert YEAR.judge(None, NOW).refused.startswith("it says no time of signing")


def test_within_its_time_nothing_is_to_be_said() -> None:
    assert YEAR.judge(says(START), NOW) == Judgement()
    assert YEAR.judge(says(END - timedelta(seconds=1)), END - timedelta(seconds=1)) == Judgement()


def test_before_its_time() -> None:
    found = YEAR.judge(says(START - timedelta(seconds=1)), NOW)
    assert found.refused == (
        "it says that it was signed on 2026-10-31 23:59:59 UTC; its signer is trusted from 2026-11-01 on"
    )


def test_expired_when_it_was_signed() -> None:
    found = YEAR.judge(says(END), NOW)
    assert found.refused == (
        "the signer's key had expired: it says that it was signed on 2027-11-01 00:00:00 UTC; "
        "it is trusted until 2027-10-31"
    )


def test_expired_since_is_told_with_what_a_time_is_worth() -> None:
    assert YEAR.judge(says(NOW), LATER) == Judgement(
        notes=(f"The signer's key expired after 2027-10-31; this was signed before.{BACKDATED}",)
    )
    assert YEAR.judge(attested(NOW), LATER) == Judgement(
        notes=("The signer's key expired after 2027-10-31; this was signed before.",)
    )


@pytest.mark.parametrize("reason", ["superseded", "ceased"])
def test_a_key_that_only_stopped_being_used_counts_for_what_came_before(reason: Reason) -> None:
    limits = revoked(reason)
    before, after = datetime(2027, 2, 28, tzinfo=UTC), datetime(2027, 3, 1, tzinfo=UTC)
    told = limits.judge(says(before), NOW)
    assert told.refused == ""
    assert told.notes == (
        f"The signer's key was revoked on 2027-03-01 ({reason}, a new laptop); this was signed before.{BACKDATED}",
    )
    assert limits.judge(says(after), NOW).refused.startswith(
        f"the signer's key had been revoked on 2027-03-01 ({reason}, a new laptop): it says that it was signed on "
    )


def test_of_a_compromised_key_nothing_counts_whatever_date_it_bears() -> None:
    limits = revoked("compromised")
    for signed in (None, says(START), says(NOW)):
        found = limits.judge(signed, NOW)
        assert "whoever has it can put any date on a signature" in found.refused
        assert "compromised, a new laptop" in found.refused


def test_a_compromised_identity_counts_for_what_was_attested_before() -> None:
    limits = revoked("compromised")
    assert limits.judge(attested(START), NOW).refused == ""
    assert limits.judge(attested(NOW), NOW).refused.startswith("the signer's key had been revoked on 2027-03-01")
    # The last moment of its certificate counts: it may have been signed then.
    assert limits.judge(attested(datetime(2027, 2, 28, 23, 55, tzinfo=UTC)), NOW).refused != ""


MOMENTS = st.datetimes(datetime(2026, 1, 1), datetime(2029, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001  hypothesis adds the zone


@given(start=MOMENTS, end=MOMENTS, at=MOMENTS, signed=MOMENTS, now=MOMENTS)
def test_what_counts_was_signed_within_every_limit(
    start: datetime, end: datetime, at: datetime, signed: datetime, now: datetime
) -> None:
    limits = Validity(start, end, Revocation(at, "superseded", ""))
    counts = not limits.judge(says(signed), now).refused
    assert counts is (start <= signed < end and signed < at)


@given(limits=st.builds(Validity, st.none() | MOMENTS, st.none() | MOMENTS), signed=MOMENTS, now=MOMENTS)
def test_a_refusal_has_no_notes_and_time_that_passes_refuses_nothing(
    limits: Validity, signed: datetime, now: datetime
) -> None:
    found = limits.judge(says(signed), now)
    assert not (found.refused and found.notes)
    assert limits.judge(says(signed), now + timedelta(days=9999)).refused == found.refused
