import itertools
import math
import re
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markupsafe import Markup

from bench.report.render.charts import (
    Axis,
    Plot,
    clock_axis,
    nice_step,
    number_axis,
    seconds_axis,
    share_axis,
    spread,
    tag,
)


def parsed(markup: str) -> ET.Element:
    return ET.fromstring(markup)  # noqa: S314  our own output


@given(st.text(), st.text())
def test_nothing_in_an_element_is_markup_unless_it_was(text: str, value: str) -> None:
    markup = tag("text", text, tag("b", "&<"), aria_label=value)
    assert "<" not in re.sub(r"</?(text|b)\b[^<>]*>", "", markup)
    assert markup.count(">") == 4
    assert markup.count('"') == 2


def test_names_of_attributes_and_what_is_left_out() -> None:
    assert tag("line", x1=1.5, class_="a", stroke_width=2, d=None) == Markup(
        '<line x1="1.5" class="a" stroke-width="2"/>'
    )


@given(st.floats(1e-6, 1e9), st.integers(1, 10))
def test_a_nice_step_is_1_2_or_5_and_makes_no_more_pieces_than_asked_for(length: float, pieces: int) -> None:
    step = nice_step(length, pieces)
    lead = step / 10 ** math.floor(math.log10(step) + 1e-9)
    assert min(abs(lead - nice) for nice in (1, 2, 5, 10)) < 1e-6
    assert length / step <= pieces * (1 + 1e-6)
    assert length / step > pieces / 2.5 * (1 - 1e-6)


@given(st.floats(1e-6, 1e5))
def test_an_axis_reaches_what_it_is_for_and_its_labels_are_in_one_unit(high: float) -> None:
    for axis in (seconds_axis(high), number_axis(high)):
        assert axis.low == 0
        assert axis.high >= high * (1 - 1e-9)
        values = [value for value, _ in axis.ticks]
        assert values == sorted(values)
        assert values[0] == 0
        assert len(values) <= 6
        assert len({label for _, label in axis.ticks}) == len(values)
    assert len({label.rsplit(" ", 1)[1] for _, label in seconds_axis(high).ticks}) == 1


@given(st.floats(0, 1e5), st.floats(0.1, 1e5))
def test_a_clock_ticks_within_its_ends(low: float, length: float) -> None:
    axis = clock_axis(low, low + length)
    assert all(low - 1e-6 <= value <= low + length + 1e-6 for value, _ in axis.ticks)
    assert len(axis.ticks) <= 6


def test_axes_without_a_length_still_have_one() -> None:
    assert seconds_axis(0).high > 0
    assert number_axis(0).high > 0
    for late in (5, 1e300, -1e300):
        assert clock_axis(late, late).high > late
    assert [label for _, label in share_axis(pieces=2).ticks] == ["0 %", "50 %", "100 %"]


def test_what_lies_outside_is_put_on_the_end() -> None:
    axis = Axis(10, 20)
    assert [axis.share(value) for value in (0, 10, 15, 20, 99)] == [0, 0, 0.5, 1, 1]


@given(st.lists(st.floats(0, 300), max_size=8).map(sorted), st.floats(1, 20))
def test_labels_are_moved_apart_in_order_and_no_more_than_needed(places: list[float], least: float) -> None:
    moved = spread(places, least)
    assert all(after - before >= least - 1e-6 for before, after in itertools.pairwise(moved))
    if all(after - before >= least for before, after in itertools.pairwise(places)):
        assert moved == pytest.approx(places)
    assert sum(moved) == pytest.approx(sum(places), abs=1e-6)


def test_places_are_percentages_across_and_pixels_down() -> None:
    plot = Plot(Axis(0, 10), Axis(0, 2), height=200)
    assert (plot.across(2.5), plot.down(0.5)) == ("25%", 150)


def test_a_curve_is_a_path_in_a_plane_that_stretches() -> None:
    plot = Plot(Axis(0, 10), Axis(0, 2), height=200)
    plot.curve([(0, 0), (5, 1), (10, 1)], "p95", shift_px=2)
    svg = parsed(plot.svg("a curve"))
    (shifted,) = svg
    assert shifted.get("transform") == "translate(2,0)"
    (plane,) = shifted
    assert (plane.get("viewBox"), plane.get("preserveAspectRatio")) == ("0 0 1000 200", "none")
    assert plane[0].get("d") == "M0 200L500 100H1000"
    assert (svg.get("role"), svg.get("aria-label")) == ("img", "a curve")


def test_a_bar_fills_between_its_ends() -> None:
    plot = Plot(Axis(0, 4), Axis(0, 2), height=200)
    plot.bar((1, 2), (0.5, 1.5), "bar whole", "1 step")
    (rect,) = parsed(plot.svg("bars"))
    assert {name: rect.get(name) for name in ("x", "width", "y", "height", "class")} == {
        "x": "25.00%",
        "width": "25.00%",
        "y": "50.0",
        "height": "100.0",
        "class": "bar whole",
    }
    assert rect[0].text == "1 step"


def test_what_can_be_read_from_a_chart_is_said_in_words() -> None:
    plot = Plot(Axis(0, 1), Axis(0, 1), height=10)
    (desc,) = parsed(plot.svg("latency", says="p95: <1 s"))
    assert (desc.tag, desc.text) == ("desc", "p95: <1 s")


def test_no_line_is_drawn_where_there_is_none() -> None:
    plot = Plot(Axis(0, 1), Axis(0, 1), height=10)
    plot.strokes([], "decode")
    assert list(parsed(plot.svg("nothing"))) == []


def test_an_interval_without_an_upper_end_goes_to_the_top() -> None:
    plot = Plot(Axis(0, 1), Axis(0, 2), height=100)
    plot.whisker(0.5, 1, None, "p99")
    plot.whisker(0.5, 1, 1.5, "p99")
    open_ended, closed = parsed(plot.svg("intervals"))
    assert (open_ended.get("y1"), open_ended.get("y2")) == ("50.0", "0")
    assert (closed.get("y1"), closed.get("y2")) == ("50.0", "25.0")
