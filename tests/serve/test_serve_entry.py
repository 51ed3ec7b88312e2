from typing import Any

import pytest

from bench.report.build import build_report
from bench.report.model import Report
from bench.serve import entry
from bench.serve.hostile import RefusedFileError, read_file
from tests.report.factories import healthy
from tests.report.folders import recipe_with_claims
from tests.serve.served import Served


def with_verdicts(*verdicts: str, **changes: Any) -> Report:
    report = build_report(healthy(recipe=recipe_with_claims(), points=2))
    claim = report.claims[0]
    claims = tuple(claim.model_copy(update={"verdict": verdict}) for verdict in verdicts)
    return report.model_copy(update={"claims": claims, "valid": True, "partial": False} | changes)


@pytest.mark.parametrize(
    ("verdicts", "says"),
    [
        (("reproduced", "not comparable"), "reproduced"),
        (("consistent with",), "reproduced"),
        (("reproduced", "not reproduced"), "not reproduced"),
        (("reproduced", "not enough samples"), "reproduced"),
        (("not enough samples", "not comparable"), "undecided"),
        (("not comparable",), "nothing to compare"),
        ((), "nothing to compare"),
    ],
)
def test_claims_in_one_word(verdicts: tuple[str, ...], says: str) -> None:
    assert entry._verdict(with_verdicts(*verdicts)) == says


@pytest.mark.parametrize("changes", [{"valid": False}, {"partial": True}])
def test_what_is_invalid_or_partial_has_no_verdict(changes: dict[str, bool]) -> None:
    assert entry._verdict(with_verdicts("reproduced", **changes)) == "none"


def test_a_report_is_told_as_it_says_itself(served: Served) -> None:
    found = {each.place: each for each in served.catalogue.entries()}
    fast, slow, stranger = (found[place] for place in ("fast", "slow", "deep/er/stranger"))
    assert (fast.kind, fast.validity, fast.verdict) == ("report", "valid", "not reproduced")
    assert (fast.hardware, slow.hardware) == ("NVIDIA H200", "NVIDIA H200")
    assert (fast.started_at, fast.made_by.split()[0]) == ("2026-11-30T11:00:00Z", "streamproof")
    assert stranger.validity == "partial"
    assert fast.id != slow.id


def test_files_that_a_report_has_are_read_and_no_more_than_their_limit(served: Served, tmp_path: Any) -> None:
    assert read_file(served.folder / "fast", "report.json").startswith(b"{")
    with pytest.raises(RefusedFileError, match=r"report\.md is missing"):
        read_file(tmp_path, "report.md")
    (tmp_path / "report.md").write_bytes(b"x" * ((1 << 20) + 1))
    with pytest.raises(RefusedFileError, match=r"report\.md is larger than 1,024 KiB"):
        read_file(tmp_path, "report.md")
    (tmp_path / "report.html").symlink_to("/etc/passwd")
    with pytest.raises(RefusedFileError, match=r"report\.html cannot be opened"):
        read_file(tmp_path, "report.html")
