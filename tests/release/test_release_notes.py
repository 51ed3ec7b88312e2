import re
import shutil
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from bench.errors import UsageError
from bench.explain.compare.comparable import NotComparableError
from bench.release.assets import PICTURE, SUMS, make_assets
from bench.release.body import BEGIN, END
from bench.release.former import compare_with_former
from bench.release.notes import Links, render_notes
from bench.release.published import listed_keys, read_reports
from bench.report import folder_files as files
from bench.report.build import build_report
from bench.report.folder import finish
from bench.report.trust.signatory import Identity
from tests.explain.compare.sides import recipe_of, report
from tests.explain.search.evidence import searched_evidence
from tests.explain.search.laws import asked
from tests.release.conftest import Reports, here
from tests.report.factories import make_claim
from tests.report.folders import Signed

GITHUB = "https://github.com/acme/voice/releases/download/v1"


def written(
    reports: Reports,
    out: Path,
    *which: Signed,
    former: Signed | None = None,
    base: str | None = None,
    anyway: bool = False,
) -> str:
    trusted = reports.trusted | {key: value for each in which for key, value in each.trusted.items()}
    published = read_reports([here(each) for each in which], trusted, anyway=anyway)
    since = compare_with_former(published, [here(former)] if former else [], trusted, anyway=anyway)
    links = Links() if base is None else Links.to(base)
    return render_notes(make_assets(published, since, out), links)


def test_the_notes_of_one_report(reports: Reports, tmp_path: Path) -> None:
    text = written(reports, tmp_path, reports.now)
    point, second = reports.now.report.points
    assert text.startswith(f"{BEGIN}\n## Measured with streamproof\n\n### A test\n\n**Not reproduced: 1 of 2")
    assert text.endswith(f"{END}\n")
    assert re.search(
        rf"\| 20 streams \| {point.requests} \| 0 \| .* \| \*\*reproduced\*\* for a mean turn gap of 4 s", text
    )
    assert re.search(rf"\| 40 streams \| {second.requests} \| 0 \| .* \| \*\*not reproduced\*\* for", text)
    assert "1 published figure cannot be compared" in text
    assert "- load.turn\\_gap.mean\\_s = 4.0: the source does not say" in text
    assert "█" in text
    assert f"]({PICTURE})" in text
    assert f"sha256sum --check --ignore-missing {SUMS}" in text
    assert f"`{reports.now.signer.key_id}`" in text
    assert "add `--key FILE`" in text
    assert "anyway" not in text
    assert "twenty: at most" in (tmp_path / PICTURE).read_text()
    assert "elsewhere: at most" not in (tmp_path / PICTURE).read_text()


def test_the_command_that_checks_is_of_this_version(reports: Reports, tmp_path: Path) -> None:
    mine = version("streamproof")
    assert f"In a checkout of streamproof {mine} (commit `{'c' * 40}`):" in written(reports, tmp_path, reports.now)
    text = written(reports, tmp_path, older(tmp_path / "older"))
    assert f"In a checkout of streamproof {mine}:" in text
    assert "by streamproof 0.1.0, fingerprint" in text


def older(base: Path) -> Signed:
    """A report that an earlier version made: what it shows is not compared, all else is."""
    made = report(base, runs=1)
    path = made.path / files.ENVIRONMENT
    path.write_text(path.read_text().replace(f'"version": "{version("streamproof")}"', '"version": "0.1.0"'))
    for name in (*files.RENDERED, *files.SIGNATURES):
        (made.path / name).unlink()
    finish(made.path, signer=made.signer)
    return made


def test_a_signer_whom_every_checkout_knows_needs_no_key_file(reports: Reports, tmp_path: Path) -> None:
    (tmp_path / "keys").mkdir()
    shutil.copy(reports.now.path / files.SIGNER, tmp_path / "keys" / "maintainer.pem")
    listed = listed_keys(tmp_path / "keys")
    published = read_reports([here(reports.now), here(reports.other)], reports.trusted, listed=listed)
    assert [each.known for each in published] == [True, False]
    text = render_notes(make_assets(published, {}, tmp_path / "out"), Links())
    assert f"of the checkout: `{reports.other.signer.key_id}`." in text
    assert f"of the checkout: `{reports.now.signer.key_id}`." not in text


def test_of_a_keyless_signature_the_name_is_told(reports: Reports, tmp_path: Path) -> None:
    (published,) = read_reports([here(reports.now)], reports.trusted)
    identity = Identity(
        "https://github.com/acme/voice/.github/workflows/release.yml@refs/tags/v1", "https://issuer.example"
    )
    keyless = replace(published, key=replace(published.key, identity=identity))
    text = render_notes(make_assets([keyless], {}, tmp_path), Links())
    assert "release.yml@<!-- -->refs/tags/v1 (vouched for by https://issuer.example)" in text
    assert "`--identity` and `--issuer`" in text
    assert "--key FILE" not in text


def test_every_row_of_a_table_has_as_many_cells_as_its_head(reports: Reports, tmp_path: Path) -> None:
    text = written(reports, tmp_path, reports.now, reports.other)
    tables = re.findall(r"(?:^\|.*\n)+", text, flags=re.MULTILINE)
    assert len(tables) == 3
    for table in tables:
        assert len({len(re.findall(r"(?<!\\)\|", line)) for line in table.splitlines()}) == 1


def test_what_a_search_found_its_proofs_and_the_curve(reports: Reports, tmp_path: Path) -> None:
    (published,) = read_reports([here(reports.now)], reports.trusted)
    found = build_report(searched_evidence((asked(),), lambda streams: 0.004 if streams <= 13 else 0.6))
    text = render_notes(make_assets([replace(published, report=found)], {}, tmp_path), Links())
    assert text.count("holds at 13 streams (certified at 95 %)") == 1
    assert re.search(r"^\| 13 streams \| \d+ \| [\d,]+ \| \d+ \| \*\*4\d\d ms\*\* \|$", text, flags=re.MULTILINE)
    assert "- 14 streams: does not hold; " in text
    assert re.search(r"^13 streams +█+ +│ +4\d\d ms$", text, flags=re.MULTILINE)
    assert "| point | requests |" not in text
    assert "13 streams: 4" in (tmp_path / PICTURE).read_text()


def test_what_proves_nothing_says_so_in_bold(reports: Reports, tmp_path: Path) -> None:
    text = written(reports, tmp_path, reports.partial, reports.invalid, anyway=True)
    assert "**Published anyway, and it proves nothing. It is partial: " in text
    assert "**Published anyway, and it proves nothing. It breaks its own rules: no request was preempted.**" in text


def test_the_hashes_are_those_of_the_files(reports: Reports, tmp_path: Path) -> None:
    published = read_reports([here(reports.now), here(reports.other)], reports.trusted)
    contents = make_assets(published, {}, tmp_path)
    lines = {line[66:]: line[:64] for line in (tmp_path / SUMS).read_text().splitlines()}
    assert lines == {asset.name: asset.sha256 for asset in contents.assets if asset.name != SUMS}
    assert set(lines) | {SUMS} == {path.name for path in tmp_path.iterdir()}
    text = render_notes(contents, Links())
    for asset in contents.assets:
        assert f"`{asset.sha256}`" in text


def test_what_an_earlier_call_left_goes(reports: Reports, tmp_path: Path) -> None:
    (tmp_path / "streamproof-old-1-2.zip").write_text("old")
    (tmp_path / "mine.zip").write_text("mine")
    written(reports, tmp_path, reports.now)
    assert not (tmp_path / "streamproof-old-1-2.zip").exists()
    assert (tmp_path / "mine.zip").exists()


def test_github_gets_a_link_and_everybody_else_the_image(reports: Reports, tmp_path: Path) -> None:
    picture = "p95 of E2E against the load"
    assert f"![{picture}" in written(reports, tmp_path, reports.now)
    assert f"![{picture}" in written(reports, tmp_path, reports.now, base="https://example.org/files")
    text = written(reports, tmp_path, reports.now, base=GITHUB)
    assert "![" not in text
    assert f"({GITHUB}/{PICTURE})" in text
    (zipped,) = tmp_path.glob("*.zip")
    assert f"curl -fsSL --remote-name-all {GITHUB}/{SUMS} \\\n  {GITHUB}/{zipped.name}\n" in text
    assert f"just verify {zipped.name}\n" in text


@pytest.mark.parametrize(
    "base", ["v1", "ftp://x/y", "https://x/ y", "https://x/y)", "https://x/$(id)", "https://x/`id`"]
)
def test_an_address_that_could_end_a_link_or_begin_a_command_is_refused(base: str) -> None:
    with pytest.raises(UsageError, match="no plain address"):
        Links.to(base)


def test_nothing_from_a_report_becomes_markup_a_link_or_a_mention(reports: Reports, tmp_path: Path) -> None:
    title = "# <img src=x> ![x](y) | [z](w) ``` @torvalds <!-- streamproof:end -->"
    claim = make_claim(id="twenty", value_s=0.6, quote="> *x* @torvalds")
    hostile = report(tmp_path / "hostile", runs=1, recipe=recipe_of(runs=1, title=title, claims=[claim]))
    text = written(reports, tmp_path / "out", hostile)
    assert text.count(END) == 1
    assert "@torvalds" not in text
    tokens = MarkdownIt("commonmark", {"html": True}).enable("table").parse(text)
    inline = [child for token in tokens for child in token.children or ()]
    addresses = [str(child.attrs["href"]) for child in inline if child.type == "link_open"]
    assert all(re.fullmatch(r"streamproof-[\w.-]+", address) for address in addresses)
    assert [str(child.attrs["src"]) for child in inline if child.type == "image"] == [PICTURE]
    html = [child.content for child in inline if child.type == "html_inline"]
    assert set(html) == {"<!-- -->"}
    headings = [tokens[n + 1].content for n, token in enumerate(tokens) if token.type == "heading_open"]
    assert len(headings) == 3
    assert [token.type for token in tokens].count("fence") == 2


def test_the_former_release_stands_beside_this_one(reports: Reports, tmp_path: Path) -> None:
    text = written(reports, tmp_path, reports.now, reports.other, former=reports.former)
    assert text.count("#### Since the former release") == 1
    assert "repeats of each other" in text
    rows = re.findall(r"^\| (\d\d streams) \| p95 of E2E \| .* \| (\S+ %) \|", text, flags=re.MULTILINE)
    assert [point for point, _ in rows] == ["20 streams", "40 streams"]
    for _, change in rows:
        assert -25 < float(change.removeprefix("\\").removesuffix(" %")) < -10
    assert str(reports.former.path) not in text
    assert str(reports.now.path) not in text
    assert "test-h200, former" in (tmp_path / PICTURE).read_text()


def test_one_report_is_compared_whatever_its_target(reports: Reports, tmp_path: Path) -> None:
    assert "Since the former release" in written(reports, tmp_path, reports.other, former=reports.former)


def test_of_several_reports_exactly_one_has_the_target_of_a_former_one(reports: Reports, tmp_path: Path) -> None:
    several = (reports.now, reports.partial)
    with pytest.raises(UsageError, match="of target test-h200, and more than one of the reports is"):
        written(reports, tmp_path, *several, former=reports.former, anyway=True)
    with pytest.raises(UsageError, match="of target other-h200, and none of the reports is"):
        written(reports, tmp_path, *several, former=reports.other, anyway=True)


def test_what_cannot_be_compared_is_refused_or_said_in_bold(reports: Reports, tmp_path: Path) -> None:
    with pytest.raises(NotComparableError, match="the former report is invalid"):
        written(reports, tmp_path, reports.now, former=reports.invalid)
    text = written(reports, tmp_path, reports.now, former=reports.invalid, anyway=True)
    assert (
        "**Not compared.** The former report and this report cannot be compared: the former report is invalid" in text
    )
