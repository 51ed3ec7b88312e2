import json

import jsonschema
import pytest

from bench.report import schema
from bench.report.build import build_report
from bench.report.folder_files import canonical_json
from tests.report.factories import healthy
from tests.report.folders import recipe_with_claims

PUBLISHED = json.loads(schema.PUBLISHED.read_bytes())


def report() -> dict[str, object]:
    made: dict[str, object] = build_report(healthy(recipe=recipe_with_claims())).model_dump(mode="json")
    return made


def test_the_published_schema_is_that_of_the_model() -> None:
    assert schema.PUBLISHED.read_bytes() == canonical_json(schema.report_schema()), "run: python -m bench.report.schema"


def test_the_published_schema_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(PUBLISHED)


def test_a_real_report_fits_the_published_schema() -> None:
    jsonschema.Draft202012Validator(PUBLISHED).validate(report())


@pytest.mark.parametrize("change", [{"more": 1}, {"valid": "yes"}, {"schema_version": "9.0"}, {"title": None}])
def test_a_bent_report_does_not(change: dict[str, object]) -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft202012Validator(PUBLISHED).validate(report() | change)


def test_a_report_without_one_of_its_keys_does_not() -> None:
    whole = report()
    validator = jsonschema.Draft202012Validator(PUBLISHED)
    accepted = [key for key in whole if validator.is_valid({name: whole[name] for name in whole if name != key})]
    assert accepted == []
