from dataclasses import replace
from typing import Any

import pytest

from bench.report.evidence import Evidence
from bench.report.verify_files import RefusedError
from bench.report.verify_work import STEPS_LIMIT, check_work
from tests.report.factories import healthy, make_evidence, make_recipe, make_record, make_started


def evidence_with(records: list[dict[str, Any]], **started: Any) -> Evidence:
    return make_evidence(
        [make_record(request=number, **changes) for number, changes in enumerate(records)], [make_started(**started)]
    )


def test_an_honest_run_is_no_work() -> None:
    check_work(healthy([0.5] * 300, runs=2))


def test_prompts_that_no_engine_has_are_refused_before_anything_walks_over_them() -> None:
    evidence = evidence_with([{"segments": ((1, 10**12), (2, 5))}], block_size=256)
    with pytest.raises(RefusedError, match=r"requests\.parquet: names prompts and replies of 3\.91e\+09 cache blocks"):
        check_work(evidence)


@pytest.mark.parametrize("field", ["requested_tokens", "completion_tokens"])
def test_so_are_replies(field: str) -> None:
    with pytest.raises(RefusedError, match="in run 0"):
        check_work(evidence_with([{field: 2 * STEPS_LIMIT}]))


def test_tokens_that_add_up_to_more_than_64_bits_do_not_wrap_around() -> None:
    with pytest.raises(RefusedError):
        check_work(evidence_with([{"segments": ((1, 2**62), (2, 2**62), (3, 2**62), (4, 2**62))}], block_size=1))


def test_an_unknown_block_size_counts_as_one() -> None:
    with pytest.raises(RefusedError):
        check_work(evidence_with([{"segments": ((1, 2 * STEPS_LIMIT),)}], block_size=None))


def test_records_of_a_run_without_an_engine_are_not_predicted_and_not_counted() -> None:
    evidence = evidence_with([{"run": 5, "segments": ((1, 10**12),)}])
    check_work(replace(evidence, recipe=make_recipe(load={"runs": 6})))
