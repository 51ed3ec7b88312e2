import base64
import json
from pathlib import Path
from typing import Any

import pytest

from bench.observe.observations import Finished, Observation
from bench.records import RequestRecord
from bench.report import folder_files as files
from bench.report.trust.test_result import PREDICATE_TYPE, REPORT_FIELD, Subject, statement, subjects_of
from tests.report.factories import healthy_observations, healthy_records, make_container, make_started
from tests.report.folders import Signed, evidence_in, signed
from tests.report.scene import scene_recipe, scene_records

DIGESTS = {files.RECIPE: "a" * 64, files.REPORT: "b" * 64}


def run(**started: Any) -> tuple[list[RequestRecord], list[Observation]]:
    records = healthy_records([0.5 + 0.001 * (number % 40) for number in range(120)])
    more = healthy_records([0.5 + 0.001 * (number % 40) for number in range(120)], point=1, at=1000.0)
    seen = [make_started(**started), *healthy_observations(records), *healthy_observations(more, point=1, at=1000.0)]
    return [*records, *more], [*seen, Finished(t=2000.0, run=0)]


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Signed:
    return signed(tmp_path_factory.mktemp("result"), *run())


def said_in(folder: Path) -> dict[str, Any]:
    bundle = json.loads((folder / files.TEST_RESULT).read_bytes())
    found: dict[str, Any] = json.loads(base64.b64decode(bundle["dsseEnvelope"]["payload"]))
    return found


def test_it_is_in_totos_test_result_with_what_that_requires(report: Signed) -> None:
    found = said_in(report.path)
    assert found["_type"] == "https://in-toto.io/Statement/v1"
    assert found["predicateType"] == PREDICATE_TYPE == "https://in-toto.io/attestation/test-result/v0.1"
    predicate = found["predicate"]
    assert predicate["result"] in {"PASSED", "WARNED", "FAILED"}
    recipe = {"sha256": files.file_sha256(report.path / files.RECIPE)}
    assert predicate["configuration"] == [{"name": files.RECIPE, "digest": recipe}]
    lists = [predicate["passedTests"], predicate["warnedTests"], predicate["failedTests"]]
    assert all(isinstance(name, str) for names in lists for name in names)
    assert all(set(subject) == {"name", "digest"} for subject in found["subject"])


def test_claims_rules_and_the_runs_end_are_its_tests(report: Signed) -> None:
    verdicts = {claim.id: claim.verdict for claim in report.report.claims}
    assert verdicts["forty"] == "not reproduced"
    predicate = said_in(report.path)["predicate"]
    assert predicate["result"] == "FAILED"
    (failed,) = predicate["failedTests"]
    assert failed.startswith("claim forty: p95 of E2E at 40 streams at most ")
    assert "the run came to its end" in predicate["passedTests"]
    rules = [name for names in predicate.values() for name in names if isinstance(name, str) and name[:5] == "rule "]
    assert len(rules) == len(report.report.checks)
    assert any(name.endswith(" (20 streams)") for name in rules)


def test_it_names_its_report(report: Signed) -> None:
    named = said_in(report.path)["predicate"][REPORT_FIELD]
    assert named == {"name": files.REPORT, "digest": {"sha256": files.file_sha256(report.path / files.REPORT)}}


def test_a_process_has_no_image_and_none_is_named(report: Signed) -> None:
    names = [subject["name"] for subject in said_in(report.path)["subject"]]
    assert names == ["checkpoint a/b", files.RECIPE]


def test_an_image_is_named_by_its_id_and_by_what_registries_call_it(tmp_path: Path) -> None:
    container = make_container(repo_digests=(f"registry.example/ours@sha256:{'3' * 64}", "nonsense"))
    made = signed(tmp_path, *run(container=container))
    assert made.subjects == (
        Subject("image streamproof/h200-fp8:0123456789ab", "1" * 64),
        Subject("image registry.example/ours", "3" * 64),
        Subject("checkpoint a/b", "2" * 64),
    )
    assert [subject["name"] for subject in said_in(made.path)["subject"]][:2] == [
        "image streamproof/h200-fp8:0123456789ab",
        "image registry.example/ours",
    ]


def test_several_starts_of_one_image_name_it_once(tmp_path: Path) -> None:
    records, seen = run(container=make_container())
    seen.insert(1, make_started(run=1, container=make_container()))
    made = signed(tmp_path, records, seen)
    assert [subject.name for subject in subjects_of(evidence_in(made.path))].count(
        "image streamproof/h200-fp8:0123456789ab"
    ) == 1


RESULTS = [
    ({"exit_code": 0}, [("reproduced", "passed")], "PASSED"),
    ({"exit_code": 0}, [("reproduced", "passed"), ("consistent with", "warned")], "WARNED"),
    ({"exit_code": 0}, [("not comparable", "warned")], "WARNED"),
    ({"exit_code": 3}, [("not reproduced", "failed"), ("reproduced", "passed")], "FAILED"),
    ({"exit_code": 3}, [("not enough samples", "failed")], "FAILED"),
    ({"exit_code": 4, "valid": False}, [("invalid measurement", "failed")], "FAILED"),
]


@pytest.mark.parametrize(("changes", "claims", "result"), RESULTS)
def test_the_result_is_what_the_exit_code_says(
    report: Signed, changes: dict[str, Any], claims: list[tuple[str, str]], result: str
) -> None:
    first = report.report.claims[0]
    judged = tuple(
        first.model_copy(update={"id": f"c{number}", "verdict": verdict}) for number, (verdict, _) in enumerate(claims)
    )
    kept = tuple(check.model_copy(update={"verdict": "kept"}) for check in report.report.checks)
    changed = report.report.model_copy(update={"claims": judged, "checks": kept, "partial": False} | changes)
    predicate = json.loads(statement(changed, (), DIGESTS))["predicate"]
    assert predicate["result"] == result
    for number, (_, outcome) in enumerate(claims):
        assert any(name.startswith(f"claim c{number}: ") for name in predicate[f"{outcome}Tests"])


def test_a_broken_rule_fails_an_invalid_measurement_and_warns_of_a_valid_search(report: Signed) -> None:
    (first, *rest) = report.report.checks
    checks = (first.model_copy(update={"verdict": "broken"}), *rest)
    for valid, where in ((False, "failedTests"), (True, "warnedTests")):
        changed = report.report.model_copy(update={"checks": checks, "valid": valid})
        predicate = json.loads(statement(changed, (), DIGESTS))["predicate"]
        assert any(name.startswith(f"rule {first.rule}") for name in predicate[where])


def test_a_partial_report_has_failed(tmp_path: Path) -> None:
    records = scene_records()[:50]
    made = signed(tmp_path, records, [make_started()], recipe=scene_recipe())
    assert made.report.partial
    predicate = said_in(made.path)["predicate"]
    assert predicate["result"] == "FAILED"
    assert "the run came to its end" in predicate["failedTests"]
