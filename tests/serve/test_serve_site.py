"""Every page by its address, without a socket."""

from http import HTTPStatus

import pytest

import bench.stats.blocks as blocks_module
from bench.report import folder_files as files
from bench.serve import site as module
from bench.serve.pages import COMPARISON_POLICY, PAGE_POLICY, POLICY
from bench.serve.site import Response, Site
from tests.explain.compare.sides import recipe_of, report
from tests.serve.served import EVIL, Served


@pytest.fixture(autouse=True)
def _few_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks_module, "REPLICATES", 200)


def text(response: Response, status: HTTPStatus = HTTPStatus.OK) -> str:
    assert response.status == status
    return response.body.decode()


def compare(site: Site, *names: str, more: str = "") -> Response:
    return site.answer("/compare?" + "&".join(f"report={name}" for name in names) + more)


def test_the_list_has_every_report_and_what_was_found(served: Served) -> None:
    site, entries = served.site(checked=True)
    page = text(site.answer("/"))
    assert all(f"/report/{entry.id}" in page for entry in entries.values())
    assert page.count('<span class="badge">verified</span>') == 2
    assert page.count('<span class="badge">refused</span>') == len(entries) - 2
    assert page.count('<input type="checkbox"') == 3  # what cannot be read cannot be compared
    assert "<img" not in page
    assert "&lt;img src=x onerror=alert(1)&gt;" in page


def test_before_it_was_verified_a_report_is_not_called_so(served: Served) -> None:
    site, entries = served.site()
    page = text(site.answer("/"))
    assert page.count('<span class="badge">not verified yet</span>') == len(entries)
    assert f"{len(entries)} not verified yet: this server is at it" in page
    assert "Not verified yet by this server." in text(site.answer(f"/report/{entries['fast'].id}"))


def test_filters_narrow_the_list_and_stay_in_the_form(served: Served) -> None:
    site, entries = served.site()
    page = text(site.answer("/?validity=partial&text=%22%3E%3Cscript%3E"))
    assert "No report fits." in page
    assert "<option selected>partial</option>" in page
    assert 'value="&#34;&gt;&lt;script&gt;"' in page
    one = text(site.answer("/?text=slower"))
    assert f"1 report of {len(entries)}." in one
    assert entries["fast"].id not in one


def test_a_long_list_says_what_it_leaves_out(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SHOWN", 2)
    site, entries = served.site()
    assert f"{len(entries) - 2} further ones fit: narrow the choice." in text(site.answer("/"))


def test_a_report_has_a_page_of_ours_and_the_one_that_came_with_it(served: Served) -> None:
    site, entries = served.site(checked=True)
    fast, stranger = entries["fast"], entries["deep/er/stranger"]
    ours = text(site.answer(f"/report/{fast.id}"))
    for said in ("Verified by this server at ", fast.fingerprint, "Not reproduced: 1 of 2", "NVIDIA H200"):
        assert said in ours
    assert "anybody may have written it" not in ours
    assert "anybody may have written it" in text(site.answer(f"/report/{stranger.id}"))
    theirs = site.answer(f"/report/{fast.id}/page")
    assert theirs.body == (served.folder / "fast" / files.PAGE).read_bytes()
    assert theirs.policy == PAGE_POLICY
    assert theirs.policy.startswith("sandbox; default-src 'none'")


def test_a_page_that_is_no_file_is_not_shown(own: Served) -> None:
    page = own.folder / "fast" / files.PAGE
    page.unlink()
    page.symlink_to("/etc/passwd")
    site, entries = own.site()
    assert "cannot be opened" in text(site.answer(f"/report/{entries['fast'].id}/page"), HTTPStatus.NOT_FOUND)


def test_two_reports_are_compared_as_the_command_does_it(served: Served) -> None:
    site, entries = served.site()
    response = compare(site, entries["slow"].id, entries["fast"].id)
    page = text(response)
    assert "comparison of 2 reports" in page
    assert "Change of p50 and p95 of E2E by operating point" in page
    assert response.policy == COMPARISON_POLICY


def test_what_is_not_verified_stands_side_by_side_and_is_not_compared(served: Served) -> None:
    site, entries = served.site(checked=True)
    page = text(compare(site, entries["fast"].id, entries["deep/er/stranger"].id))
    assert "Not compared." in page
    assert "is not verified" in page
    assert "p95 of E2E with its interval, as a report has it. No change is judged here." in page
    assert "20 streams" in page


def test_what_answers_another_question_is_compared_anyway_when_that_is_asked(own: Served) -> None:
    other = report(
        own.folder,
        seed=9,
        runs=1,
        recipe=recipe_of(runs=1, load={"turn_gap": {"distribution": "fixed", "mean_s": 8.0}}),
    )
    own.trusted.update(other.trusted)
    site, entries = own.site()
    place = other.path.relative_to(own.folder).as_posix()
    names = (entries["fast"].id, entries[place].id)
    page = text(compare(site, *names))
    assert "answer different questions" in page
    assert f'href="/compare?report={names[0]}&amp;report={names[1]}&amp;anyway=yes"' in page
    assert "Compared anyway: " in text(compare(site, *names, more="&anyway=yes"))


@pytest.mark.parametrize("amount", [0, 1, 9])
def test_a_comparison_is_of_two_to_eight(served: Served, amount: int) -> None:
    site, _ = served.site()
    page = text(compare(site, *(f"{number:016x}" for number in range(amount))), HTTPStatus.BAD_REQUEST)
    assert "Choose from 2 to 8 reports" in page


def test_one_report_twice_and_one_that_cannot_be_read_are_no_comparison(served: Served) -> None:
    site, entries = served.site()
    fast, broken = entries["fast"].id, entries[f"broken/{EVIL}"].id
    assert "Choose from 2" in text(compare(site, fast, fast), HTTPStatus.BAD_REQUEST)
    assert "which these cannot: broken/&lt;img" in text(compare(site, fast, broken), HTTPStatus.BAD_REQUEST)
    assert "Not here" in text(compare(site, fast, "0" * 16), HTTPStatus.NOT_FOUND)


@pytest.mark.parametrize(
    "target",
    [
        "/report",
        "/report/",
        "/report/../../../etc/passwd",
        "/report/..%2f..%2f..%2fetc%2fpasswd/page",
        "/report/%2e%2e/page",
        "/report/fast",
        "/report/fast/page",
        "/fast/report.html",
        "//etc/passwd",
        "/etc/passwd",
        "/report/\x00/page",
        "http://elsewhere.example/report/x",
        "/%ff%fe",
        "*",
    ],
)
def test_no_address_is_a_path(served: Served, target: str) -> None:
    site, _ = served.site()
    page = text(site.answer(target), HTTPStatus.NOT_FOUND)
    assert "root:" not in page


def test_what_is_no_address_is_refused(served: Served) -> None:
    site, _ = served.site()
    assert site.answer("//[half").status == HTTPStatus.BAD_REQUEST


def test_a_folder_without_reports_says_how_to_make_one(own: Served) -> None:
    site, _ = Served(own.folder / "broken" / "pipe" / "nothing", {}).site()
    assert "There is no report here yet." in text(site.answer("/"))


def test_our_own_pages_allow_their_style_and_nothing_else() -> None:
    assert "default-src 'none'" in POLICY
    assert "script-src" not in POLICY
    assert "unsafe" not in POLICY
