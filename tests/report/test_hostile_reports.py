"""Reports that somebody with a trusted key has made to do harm, each refused with the right reason.

Each is verified by the command line, in a process of its own that gets 2 GiB of address space and a minute of CPU time.
"""

import io
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bench.engine.pins import REPOSITORY
from bench.errors import Exit
from bench.report import folder_files as files
from bench.report.table import SCHEMA, table_of
from tests.report.factories import healthy_observations, healthy_records, make_recipe, make_record, make_started
from tests.report.folders import Signed, signed
from tests.report.intake.zips import Member, overlapping, zip_of
from tests.report.make_bomb import BOMB, varint

BOUNDED = [sys.executable, "-m", "tests.report.bounded", "2048", "60"]
SCRIPT = "<script>alert(document.domain)</script>"


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Signed:
    records = healthy_records([0.5] * 100)
    recipe = make_recipe(title=f"A test {SCRIPT}")
    seen = [make_started(), *healthy_observations(records)]
    return signed(tmp_path_factory.mktemp("honest"), records, seen, recipe=recipe)


@pytest.fixture
def report(honest: Signed, tmp_path: Path) -> Signed:
    return honest.copy(tmp_path / "report")


def verify(place: Path, report: Signed) -> subprocess.CompletedProcess[str]:
    home = report.path.parent
    return subprocess.run(
        [*BOUNDED, "verify", str(place), "--key", str(report.path / files.SIGNER), "--json"],
        check=False,
        capture_output=True,
        text=True,
        cwd=REPOSITORY,
        env={"PATH": os.environ["PATH"], "HOME": str(home), "XDG_CONFIG_HOME": str(home / "config")},
    )


def test_what_is_honest_is_verified_within_the_bounds(report: Signed) -> None:
    """Its title holds HTML, which is no crime; the page shows it as text."""
    done = verify(report.path, report)
    assert done.returncode == Exit.OK, done.stdout + done.stderr
    page = (report.path / files.PAGE).read_text()
    assert SCRIPT not in page
    assert "&lt;script&gt;alert(document.domain)" in page


def zip_bomb(report: Signed) -> Path:
    """400 logs that share the same bytes."""
    path = report.path.parent / "report.zip"
    path.write_bytes(overlapping([b"engine-%d.log" % run for run in range(400)], bytes(4_000_000)))
    return path


def path_escape(report: Signed) -> Path:
    path = report.path.parent / "report.zip"
    whole = [Member(b"r/" + each.name.encode(), each.read_bytes()) for each in report.path.iterdir()]
    path.write_bytes(zip_of([*whole, Member(b"r/../../.bashrc", b"curl ... | sh")]))
    return path


def link(report: Signed) -> Path:
    (report.path / files.ENVIRONMENT).unlink()
    (report.path / files.ENVIRONMENT).symlink_to("/etc/passwd")
    return report.path


def hostile_name(report: Signed) -> Path:
    (report.path / "\x1b]0;owned\x07\u202egnp.exe").write_text("")
    return report.path


def page_bomb(report: Signed) -> Path:
    """A kilobyte that unpacks to 900 MB."""
    shutil.copy(BOMB, report.path / files.RECORDS)
    return again(report)


def dictionary_bomb(report: Signed) -> Path:
    """A name of a megabyte, kept once, in a million rows."""
    rows = 1_000_000
    names = pa.DictionaryArray.from_arrays(np.zeros(rows, np.int32), pa.array(["x" * 900_000]))
    once = table_of([make_record()])
    rows_of_one: Any = pa.array(np.zeros(rows, np.int64))
    columns = [once.column(name).combine_chunks().take(rows_of_one) for name in SCHEMA.names]
    place = SCHEMA.get_field_index("agent")
    table = pa.Table.from_arrays([*columns[:place], names, *columns[place + 1 :]], names=SCHEMA.names)
    types = [names.type if field.name == "agent" else field.type for field in SCHEMA]
    fields = [pa.field(field.name, kind, field.nullable) for field, kind in zip(SCHEMA, types, strict=True)]
    pq.write_table(table.cast(pa.schema(fields)), report.path / files.RECORDS, compression="zstd", store_schema=False)
    assert (report.path / files.RECORDS).stat().st_size < 300_000
    return again(report)


def rows_claimed(report: Signed) -> Path:
    """10^9 rows, by one number in the footer."""
    path = report.path / files.RECORDS
    rows = pq.read_metadata(path).num_rows
    raw = path.read_bytes()
    length = int.from_bytes(raw[-8:-4], "little")
    footer = raw[-8 - length : -8]
    count, row_groups = b"\x16", b"\x19"  # Thrift's compact form of field 3, a long, and of field 4, a list
    assert footer.count(count + varint(rows) + row_groups) == 1
    footer = footer.replace(count + varint(rows) + row_groups, count + varint(10**9) + row_groups)
    path.write_bytes(raw[: -8 - length] + footer + len(footer).to_bytes(4, "little") + b"PAR1")
    return again(report)


def script_in_the_page(report: Signed) -> Path:
    page = report.path / files.PAGE
    escaped = "&lt;script&gt;alert(document.domain)&lt;/script&gt;"
    page.write_text(page.read_text().replace(escaped, SCRIPT))
    assert SCRIPT in page.read_text()
    return again(report)


def escape_in_the_title(report: Signed) -> Path:
    """Signed, consistent, and it would clear the screen of whoever verifies it, and say that it is verified."""
    records = healthy_records([0.5] * 100)
    recipe = make_recipe(title="\x1b[2J\x1b[H\x1b[32mVERIFIED\x1b[0m")
    seen = [make_started(), *healthy_observations(records)]
    hostile = signed(report.path.parent, records, seen, recipe=recipe)
    shutil.copy(hostile.path / files.SIGNER, report.path)
    return hostile.path


def replaced(report: Signed, name: str, old: str, new: str) -> Path:
    text = (report.path / name).read_text()
    assert old in text
    (report.path / name).write_text(text.replace(old, new, 1))
    return again(report)


def not_a_number(report: Signed) -> Path:
    return replaced(report, files.REPORT, '"exit_code": ', '"exit_code": NaN, "x": ')


def infinite_time(report: Signed) -> Path:
    return replaced(report, files.OBSERVATIONS, '"t":', '"t":1e999,"x":')


def deep_json(report: Signed) -> Path:
    return replaced(report, files.REPORT, '"claims":', f'"x": {"[" * 500_000}{"]" * 500_000}, "claims":')


def gigantic_integer(report: Signed) -> Path:
    return replaced(report, files.REPORT, '"exit_code": ', f'"exit_code": {"9" * 4000}, "x": ')


def key_twice(report: Signed) -> Path:
    return replaced(report, files.REPORT, '"valid": ', '"valid": true, "valid": ')


def lone_surrogate(report: Signed) -> Path:
    return replaced(report, files.ENVIRONMENT, '"', '"\\ud800": 1, "')


def recipe_that_takes_days(report: Signed) -> Path:
    (report.path / files.RECIPE).write_bytes(b"a" + b".a" * 500_000 + b" = 1\n")
    return again(report)


def many_engine_starts(report: Signed) -> Path:
    first = json.loads((report.path / files.OBSERVATIONS).read_text().splitlines()[0])
    with (report.path / files.OBSERVATIONS).open("a") as file:
        file.writelines(json.dumps(first | {"run": run}) + "\n" for run in range(1, 50_000))
    return again(report)


def long_logs(report: Signed) -> Path:
    """Ten gigabytes that take no space here, and minutes to hash."""
    for run in range(1, 21):
        with (report.path / files.engine_log(run)).open("wb") as file:
            file.truncate(500_000_000)
    return report.path


def prompts_of_a_trillion_tokens(report: Signed) -> Path:
    sink = io.BytesIO()
    segments: Any = ((1, 10**12),)
    pq.write_table(table_of([make_record(segments=segments)] * 10), sink, store_schema=False)
    (report.path / files.RECORDS).write_bytes(sink.getvalue())
    return again(report)


def again(report: Signed) -> Path:
    report.sign_again()
    return report.path


@dataclass(frozen=True)
class Hostile:
    """A way to make one, and what must be said of it."""

    make: Callable[[Signed], Path]
    file: str
    reason: str


HOSTILE = [
    Hostile(zip_bomb, "report.zip", "a bomb"),
    Hostile(path_escape, "r/../../.bashrc", 'leaves the folder by ".."'),
    Hostile(link, files.ENVIRONMENT, "is a symbolic link"),
    Hostile(hostile_name, "\\x1b]0;owned\\x07\\u202egnp.exe", "no report has a file of this name"),
    Hostile(page_bomb, files.RECORDS, "unpacks to far more than it claims"),
    Hostile(dictionary_bomb, files.RECORDS, "unpacks to far more than it claims"),
    Hostile(rows_claimed, files.RECORDS, "claims 1,000,000,000 rows; a report has at most 5,000,000"),
    Hostile(script_in_the_page, files.PAGE, "does not show what report.json says"),
    Hostile(escape_in_the_title, files.RECIPE, "holds characters that a terminal obeys: '\\x1b[2J"),
    Hostile(not_a_number, files.REPORT, "cannot be read: it holds NaN"),
    Hostile(infinite_time, files.OBSERVATIONS, "line 1 cannot be read: the number 1e999 is not finite"),
    Hostile(deep_json, files.REPORT, "cannot be read: it is nested too deep"),
    Hostile(gigantic_integer, files.REPORT, "has more than 63 bits"),
    Hostile(key_twice, files.REPORT, "the key 'valid' stands in it twice"),
    Hostile(lone_surrogate, files.ENVIRONMENT, "half of a surrogate pair"),
    Hostile(recipe_that_takes_days, files.RECIPE, "line 1 has more than 200 dots"),
    Hostile(many_engine_starts, files.OBSERVATIONS, "names run 1; the recipe has 1, counted from 0"),
    Hostile(prompts_of_a_trillion_tokens, files.RECORDS, "cache blocks and tokens in run 0; no run has those"),
    Hostile(long_logs, ".", "the files have more than 2,048 MiB together"),
]


@pytest.mark.parametrize("hostile", HOSTILE, ids=[each.make.__name__ for each in HOSTILE])
def test_a_hostile_report_is_refused_with_the_right_reason(report: Signed, hostile: Hostile) -> None:
    done = verify(hostile.make(report), report)
    assert done.returncode == Exit.FAILURE, done.stderr[-2000:]
    found = json.loads(done.stdout)
    assert found["verified"] is False
    (finding,) = found["findings"]
    assert finding["file"] == hostile.file
    assert hostile.reason in finding["reason"]
    assert done.stderr == ""
    assert all(line.isprintable() for line in done.stdout.splitlines())
