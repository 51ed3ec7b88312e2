"""A report tells which image answered, how its container was set up, and that an image was not the target's own."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from bench.observe.observations import OBSERVATION, EngineStarted
from bench.report.build import build_report
from bench.report.evidence import Evidence
from bench.report.render.html import render_page
from bench.report.render.markdown import render_markdown
from tests.report.factories import healthy, make_container, make_started

HOSTILE = '"><script>alert(1)</script>|`*'


def evidence(*containers: dict[str, Any] | None) -> Evidence:
    """A healthy run for each engine start: in a container that is changed so, or in none."""
    found = healthy(runs=len(containers))
    starts = iter(containers)
    observations = []
    for seen in found.observations:
        if isinstance(seen, EngineStarted) and (changes := next(starts)) is not None:
            update = {"kind_of_engine": "docker", "container": make_container(**changes)}
            seen = seen.model_copy(update=update)  # noqa: PLW2901  the same observation, in a container
        observations.append(seen)
    return replace(found, observations=tuple(observations))


def test_an_observation_of_an_earlier_version_has_no_container() -> None:
    written = make_started().model_dump(mode="json")
    del written["container"]
    read = OBSERVATION.validate_python(written)
    assert read == make_started()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, ()),
        ({"given": True}, ("image given by hand",)),
        ({"base_replaced": True}, ("base image replaced",)),
        ({"given": True, "base_replaced": True}, ("image given by hand", "base image replaced")),
    ],
)
def test_what_is_not_the_targets_own_is_in_the_title_and_among_the_assumptions(
    changes: dict[str, Any], words: tuple[str, ...]
) -> None:
    report = build_report(evidence({}, changes))  # one start is enough
    assert report.not_real == words
    for word in words:
        assert word in report.title
    own = build_report(evidence({}, {})).assumptions
    added = {assumption.key: assumption.value for assumption in report.assumptions if assumption not in own}
    expected = {"image": make_container().image_id} if "given" in changes else {}
    if "base_replaced" in changes:
        expected["image base"] = make_container().base_digest or ""
    assert added == expected


def test_the_page_tells_image_and_settings() -> None:
    facts = {"repo_digests": ("registry/streamproof@sha256:" + "3" * 64,), "given": True, "base_replaced": True}
    found = evidence(facts)
    page = render_page(build_report(found), found)
    container = make_container(**facts)
    for fact in (
        *(container.image_id, container.image_name, container.base_digest, *container.repo_digests),
        *("given by hand: ", "(not the pinned one)", "cap-drop", "label io.streamproof.target", "10001", "28.5.0"),
    ):
        assert str(fact) in page, fact
    bare = evidence({"uid": None, "base_digest": None})
    assert "none: built here, or never pushed" in render_page(build_report(bare), bare)


def test_the_markdown_tells_an_image_once_and_nothing_where_there_is_none() -> None:
    found = evidence({}, {})
    text = render_markdown(build_report(found), found.observations)
    assert text.count("The engine ran in a container of image") == 1
    assert f"`{make_container().image_id}` on base `{make_container().base_digest}`, as user 10001" in text
    two = evidence({}, {"image_id": "sha256:" + "9" * 64})
    assert render_markdown(build_report(two), two.observations).count("The engine ran in a container") == 2
    process = evidence(None)
    assert "container" not in render_markdown(build_report(process), process.observations)


def test_what_an_image_says_of_itself_stays_text() -> None:
    found = evidence({"image_name": HOSTILE, "labels": {HOSTILE: HOSTILE}, "settings": {HOSTILE: HOSTILE}})
    assert "<script" not in render_page(build_report(found), found)
    assert "<script" not in render_markdown(build_report(found), found.observations)
