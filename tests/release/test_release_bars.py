from hypothesis import given
from hypothesis import strategies as st

from bench.release.bars import BAR, LINE, WIDTH, bars
from bench.release.series import STREAMS, Row


def row(value_s: float | None, label: str = "20 streams", text: str = "a figure") -> Row:
    return Row(label, STREAMS, 20, value_s, None, None, text)


def test_a_bar_is_as_long_as_its_value_and_the_limit_is_marked() -> None:
    drawn = bars([row(0.5), row(1.0, "40 streams"), row(None, "60 streams", "not enough")], 1.0, "1 s")
    assert drawn.splitlines() == [
        "            p95 of E2E",
        f"20 streams  {BAR * 24}{' ' * 24}{LINE} a figure",
        f"40 streams  {BAR * 48}{LINE} a figure",
        f"60 streams  {' ' * 48}{LINE} not enough",
        f"            {' ' * 48}1 s",
    ]


def test_beyond_the_limit_a_bar_goes_on_behind_the_mark() -> None:
    drawn = bars([row(2.0), row(0.5)], 1.0, "1 s").splitlines()
    assert drawn[1] == f"20 streams  {BAR * 24}{LINE}{BAR * 24} a figure"
    assert drawn[2] == f"20 streams  {BAR * 12}{' ' * 12}{LINE}{' ' * 24} a figure"


@given(st.lists(st.floats(1e-6, 1e6), min_size=1, max_size=5), st.floats(1e-6, 1e6))
def test_a_bar_passes_the_mark_if_and_only_if_its_value_passes_the_limit(values: list[float], limit: float) -> None:
    lines = bars([row(value) for value in values], limit, "").splitlines()[1:-1]
    for value, line in zip(values, lines, strict=True):
        assert (f"{LINE}{BAR}" in line) == (value > limit)
        assert len(line) == len("20 streams  ") + WIDTH + 1 + len(" a figure")


def test_a_label_stays_on_its_line() -> None:
    assert "trace x ``` <img> " in bars([row(0.5, "trace x\n```\n<img>")], 1.0, "1 s").splitlines()[1]


def test_without_a_figure_there_is_nothing_to_draw() -> None:
    assert bars([row(None)], 1.0, "1 s") == ""
    assert bars([], 1.0, "1 s") == ""
