"""Small charts as inline SVG whose text stays readable at any width.

A chart is an `<svg>` as wide as its place. Horizontal positions are percentages and vertical ones pixels, so the page
stretches a chart without scaling its letters. A curve cannot have percentages in it: it is drawn in a nested `<svg>` of
`SPAN` units that is stretched out of proportion, with strokes that are not (`vector-effect: non-scaling-stroke`). Axis
labels stand in the padding that the style sheet gives to `svg.chart`.

Colours and widths are classes of the style sheet, so that dark mode and print need no other chart.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from markupsafe import Markup, escape

from bench.report.render import words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

Place: TypeAlias = tuple[float, float]
"""(x, y) in the units of the axes."""

SPAN: Final = 1000
"""Units across the plane in which curves are drawn."""
LABEL_PX: Final = 13
"""Least distance in pixels between the middles of two labels, one above the other."""


def tag(name: str, *children: str, **attributes: float | str | None) -> Markup:
    """One element of SVG or HTML. Everything in it is escaped, but for what is `Markup` already.

    Args:
        name: of the element; never from outside.
        children: text or elements.
        attributes: by name, with `_` for `-` and one at the end dropped (`class_`); None leaves one out.
    """
    written = "".join(
        f' {key.removesuffix("_").replace("_", "-")}="{escape(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    inside = "".join(escape(child) for child in children)
    return Markup(f"<{name}{written}>{inside}</{name}>" if inside else f"<{name}{written}/>")  # noqa: S704  escaped above


@dataclass(frozen=True, slots=True)
class Axis:
    """A linear scale.

    Attributes:
        low, high: its ends, low < high.
        ticks: (value, label), in order.
    """

    low: float
    high: float
    ticks: tuple[tuple[float, str], ...] = ()

    def share(self, value: float) -> float:
        """Where the value lies: 0 at the low end, 1 at the high one; what lies outside is put on the end."""
        return min(1.0, max(0.0, (value - self.low) / (self.high - self.low)))


def nice_step(length: float, pieces: int) -> float:
    """The smallest step of 1, 2 or 5 times a power of ten that cuts `length` (above 0) into at most `pieces`.

    After Heckbert, "Nice numbers for graph labels", Graphics Gems (1990), p. 61, but never more pieces than asked for:
    labels must not touch on a phone.
    """
    rough = length / pieces
    power = 10.0 ** math.floor(math.log10(rough))
    return next(power * lead for lead in (1, 2, 5, 10) if power * lead >= rough * (1 - 1e-9))


def _axis(low: float, high: float, step: float, label: Callable[[float], str], *, whole_steps: bool) -> Axis:
    first = math.ceil(low / step - 1e-9)
    end = (math.ceil if whole_steps else math.floor)(high / step - 1e-9 if whole_steps else high / step + 1e-9)
    ticks = tuple((index * step, label(index * step)) for index in range(first, end + 1))
    return Axis(low, end * step if whole_steps else high, ticks)


def seconds_axis(high: float, *, pieces: int = 5) -> Axis:
    """From 0 to `high` seconds or a little more; one unit for all labels."""
    high = high if high > 0 else 1.0
    step = nice_step(high, pieces)
    if step * pieces < 1:
        return _axis(0, high, step, lambda value: f"{value * 1000:g} ms", whole_steps=True)
    return _axis(0, high, step, lambda value: f"{value:g} s", whole_steps=True)


def share_axis(*, pieces: int = 4) -> Axis:
    """From none to all."""
    return _axis(0, 1, 1 / pieces, lambda value: f"{value * 100:g} %", whole_steps=True)


def clock_axis(low: float, high: float, *, pieces: int = 5) -> Axis:
    """Time since the run's epoch; ticks at 1, 2, 5, 10, 15, 30 s or min, ... ."""
    room = abs(low) * 1e-9  # as much as floats this large can still tell apart
    high = high if high - low > room else low + max(1.0, room)
    rough = (high - low) / pieces
    steps = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 21600)
    step = next((step for step in steps if step >= rough), nice_step(high - low, pieces))
    return _axis(low, high, step, words.clock, whole_steps=False)


def number_axis(high: float, *, pieces: int = 3, label: Callable[[float], str] = "{:g}".format) -> Axis:
    """From 0 to `high` or a little more."""
    high = high if high > 0 else 1.0
    return _axis(0, high, nice_step(high, pieces), label, whole_steps=True)


class Plot:
    """One chart, drawn from back to front in the order of the calls.

    Args:
        x, y: the scales.
        height: of the plane, in pixels.
    """

    def __init__(self, x: Axis, y: Axis, *, height: int) -> None:
        self._x = x
        self._y = y
        self._height = height
        self._drawn: list[Markup] = []

    def across(self, x: float) -> str:
        """Horizontal position as a percentage of the plane."""
        return f"{round(self._x.share(x) * 100, 2):g}%"

    def down(self, y: float) -> float:
        """Vertical position in pixels from the top of the plane."""
        return round((1 - self._y.share(y)) * self._height, 1)

    def grid(self, *, x_title: str = "", y_title: str = "", y_title_px: int = 10) -> None:
        """Lines at the ticks of y, ticks at those of x, all labels; the title of y stands so far above the plane."""
        for value, text in self._y.ticks:
            self._flat(self.down(value), "grid")
            self._text("0", self.down(value), text, "tick-y")
        for value, text in self._x.ticks:
            x = self.across(value)
            self._add("line", x1=x, x2=x, y1=self._height, y2=self._height + 4, class_="axis")
            self._text(x, self._height + 17, text, "tick-x")
        self._flat(self._height, "axis")
        if x_title:
            self._text("100%", self._height + 32, x_title, "title-x")
        if y_title:
            self._text("0", -y_title_px, y_title, "title-y")

    def shade(self, low: float, high: float, kind: str, title: str = "") -> None:
        """Fills the plane between two values of x."""
        left, right = self._x.share(low) * 100, self._x.share(high) * 100
        self._add(
            "rect", _title(title), x=f"{left:.2f}%", width=f"{right - left:.2f}%", y=0, height=self._height, class_=kind
        )

    def bar(self, across: Place, upright: Place, kind: str, title: str) -> None:
        """Fills what lies between two values of x and two of y, each pair with the lower first."""
        begin, end = (self._x.share(x) * 100 for x in across)
        foot, top = (self.down(y) for y in upright)
        self._add(
            "rect",
            _title(title),
            x=f"{begin:.2f}%",
            width=f"{end - begin:.2f}%",
            y=top,
            height=round(foot - top, 1),
            class_=kind,
        )

    def level(self, y: float, kind: str, label: str = "") -> None:
        """A line across the plane, with its name above it at the left."""
        self._flat(self.down(y), kind)
        if label:
            self._text("4", self.down(y) - 5, label, f"{kind}-label")

    def upright(self, x: float, kind: str, *, title: str = "", label: str = "") -> None:
        """A line from the top of the plane to its foot; a label stands above it."""
        place = self.across(x)
        self._add("line", _title(title), x1=place, x2=place, y1=0, y2=self._height, class_=kind)
        if label:
            self._text(place, -6, label, f"{kind}-label above")

    def curve(self, places: Sequence[Place], kind: str, *, shift_px: float = 0) -> None:
        """A line through the places."""
        self.strokes([places], kind, shift_px=shift_px)

    def strokes(
        self,
        lines: Iterable[Sequence[Place]],
        kind: str,
        *,
        shift_px: float = 0,
        thickness: float | None = None,
        title: str = "",
    ) -> None:
        """Many lines of one kind in a single path.

        Args:
            lines: each with two places or more.
            kind: class of the path.
            shift_px: moves them sideways.
            thickness: in pixels; by default the style sheet's.
            title: a note that shows when they are pointed at.
        """
        path = "".join(self._path(line) for line in lines)
        if path:
            plane = tag(
                "svg",
                tag("path", _title(title), d=path, class_=kind, stroke_width=thickness),
                viewBox=f"0 0 {SPAN} {self._height}",
                preserveAspectRatio="none",
                width="100%",
                height=self._height,
            )
            self._drawn.append(tag("g", plane, transform=_shift(shift_px)) if shift_px else plane)

    def dot(self, place: Place, kind: str, title: str, *, shift_px: float = 0) -> None:
        """A mark with a note that shows when it is pointed at."""
        x, y = place
        self._add(
            "circle", _title(title), cx=self.across(x), cy=self.down(y), r=3.5, class_=kind, transform=_shift(shift_px)
        )

    def rung(self, place: Place, kind: str, title: str, *, half_px: float = 14) -> None:
        """A short level line, as wide in pixels at any width of the chart."""
        x, y = place
        line = tag("path", _title(title), d=f"M{-half_px:g} 0H{half_px:g}", class_=kind)
        self._add("svg", line, x=self.across(x), y=self.down(y), width=1, height=1, class_="free")

    def whisker(self, x: float, low: float, high: float | None, kind: str, *, shift_px: float = 0) -> None:
        """An interval of y; one without an upper end goes on to the top of the plane."""
        top = 0 if high is None else self.down(high)
        self._add(
            "line",
            x1=self.across(x),
            x2=self.across(x),
            y1=self.down(low),
            y2=top,
            class_=kind,
            transform=_shift(shift_px),
        )

    def note(self, x: float, y: float, text: str, kind: str) -> None:
        """Text at a place."""
        self._text(self.across(x), self.down(y), text, kind)

    def names_at_end(self, names: Iterable[tuple[float, str, str]]) -> None:
        """Names of the curves at the right edge: (y, name, class), moved apart where they would lie on each other."""
        placed = sorted((self.down(y), name, kind) for y, name, kind in names)
        for down, (_, name, kind) in zip(spread([down for down, _, _ in placed], LABEL_PX), placed, strict=True):
            self._text("100%", down, name, f"end {kind}")

    def svg(self, label: str, *, says: str = "", kind: str = "") -> Markup:
        """The chart.

        Args:
            label: what it is, for those who cannot see it.
            says: what can be read from it, likewise; the figures stand in a table beneath it.
            kind: further class of the style sheet.
        """
        return tag(
            "svg",
            *([tag("desc", says)] if says else []),
            *self._drawn,
            class_=f"chart {kind}".rstrip(),
            role="img",
            aria_label=label,
            width="100%",
            height=self._height,
        )

    def _path(self, line: Sequence[Place]) -> str:
        parts = []
        before = None
        for x, y in line:
            across, down = f"{self._x.share(x) * SPAN:.4g}", f"{self.down(y):g}"
            parts.append(
                f"M{across} {down}" if before is None else f"H{across}" if down == before else f"L{across} {down}"
            )
            before = down
        return "".join(parts)

    def _add(self, name: str, *children: str, **attributes: float | str | None) -> None:
        self._drawn.append(tag(name, *children, **attributes))

    def _flat(self, down: float, kind: str) -> None:
        self._add("line", x1="0", x2="100%", y1=down, y2=down, class_=kind)

    def _text(self, x: str, y: float, text: str, kind: str) -> None:
        self._add("text", text, x=x, y=y, class_=kind)


def spread(places: Sequence[float], least: float) -> list[float]:
    """Moves sorted places apart to at least `least`, each as little as possible.

    Places that touch form a block around their mean; blocks that touch become one (pool adjacent violators).
    """
    blocks: list[tuple[float, int]] = []  # (mean of the wished middle, number of places)
    for place in places:
        middle, size = place, 1
        while blocks and middle - blocks[-1][0] < least * (size + blocks[-1][1]) / 2:
            before, many = blocks.pop()
            middle, size = (before * many + middle * size) / (many + size), many + size
        blocks.append((middle, size))
    return [middle + (index - (size - 1) / 2) * least for middle, size in blocks for index in range(size)]


def _title(text: str) -> Markup:
    return tag("title", text) if text else Markup()


def _shift(pixels: float) -> str | None:
    return f"translate({pixels:g},0)" if pixels else None
