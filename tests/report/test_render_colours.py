"""The style sheet's colours: contrast for everybody, and no two marks that somebody takes for one."""

import itertools
import re

import numpy as np
import pytest
from numpy.typing import NDArray

from bench.report.render.html import STYLE

VISION = {
    "all cones": ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)),
    "no long cones": (
        (0.152286, 1.052583, -0.204868),
        (0.114503, 0.786281, 0.099216),
        (-0.003882, -0.048116, 1.051998),
    ),
    "no middle cones": (
        (0.367322, 0.860646, -0.227968),
        (0.280085, 0.672501, 0.047413),
        (-0.011820, 0.042940, 0.968881),
    ),
    "no short cones": (
        (1.255528, -0.076749, -0.178779),
        (-0.078411, 0.930809, 0.147602),
        (0.004733, 0.691367, 0.303900),
    ),
}
"""What linear RGB becomes: Machado, Oliveira and Fernandes 2009, "A physiologically-based model for simulation of color
vision deficiency", IEEE TVCG 15(6), table 1 at severity 1.0."""
APART = 12.0
"""Least distance in CIELAB; some 2.3 can just be told apart side by side (Mahy et al. 1994)."""


def schemes() -> list[dict[str, str]]:
    """The colours of light and dark mode, by name."""
    return [
        dict(re.findall(r"--([\w-]+): #(\w{6})", block))
        for block in re.findall(r":root \{(.*?)\}", STYLE, re.DOTALL)[:2]
    ]


def contrast(one: str, other: str) -> float:
    """WCAG 2.2, contrast ratio of two sRGB colours in hex: (L1 + 0.05) / (L2 + 0.05) of the relative luminances."""

    def luminance(colour: str) -> float:
        shares = [int(colour[at : at + 2], 16) / 255 for at in (0, 2, 4)]
        red, green, blue = (share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4 for share in shares)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_contrast_is_that_of_the_reference() -> None:
    assert contrast("ffffff", "000000") == pytest.approx(21)
    assert contrast("777777", "ffffff") == pytest.approx(4.48, abs=0.005)  # the usual example of a grey that just fails


@pytest.mark.parametrize("colours", schemes(), ids=["light", "dark"])
def test_text_and_marks_stand_out_in_light_and_in_dark(colours: dict[str, str]) -> None:
    text = [(name, "page") for name in ("ink", "soft", "accent", "good", "bad", "warn", "p50", "p90", "p95", "p99")]
    text += [("soft", "panel"), ("ink", "panel"), ("soft", "plain-wash"), ("soft", "bad-wash")]
    text += [(tone, f"{tone}-wash") for tone in ("good", "bad", "warn")]
    marks = [(name, on) for name in ("waiting", "prefill", "decode", "bad") for on in ("page", "panel")]
    marks += [(f"s{number}", "page") for number in range(8)]
    ratios = {pair: contrast(colours[pair[0]], colours[pair[1]]) for pair in text}
    mark_ratios = {pair: contrast(colours[pair[0]], colours[pair[1]]) for pair in marks}
    assert {pair: ratio for pair, ratio in ratios.items() if ratio < 4.5} == {}
    assert {pair: ratio for pair, ratio in mark_ratios.items() if ratio < 3} == {}


def linear(colour: str) -> NDArray[np.float64]:
    """sRGB in hex, shape (3,), without its transfer curve (IEC 61966-2-1)."""
    shares = np.array([int(colour[at : at + 2], 16) / 255 for at in (0, 2, 4)])
    return np.where(shares <= 0.04045, shares / 12.92, ((shares + 0.055) / 1.055) ** 2.4)


def lab(rgb: NDArray[np.float64]) -> NDArray[np.float64]:
    """CIELAB of linear RGB under D65 (CIE 15:2004)."""
    to_xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    share = to_xyz @ np.clip(rgb, 0, 1) / np.array([0.9505, 1.0, 1.089])
    x, y, z = np.where(share > 216 / 24389, np.cbrt(share), (24389 / 27 * share + 16) / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def distance(one: str, other: str, vision: str) -> float:
    seen = [lab(np.asarray(VISION[vision]) @ linear(colour)) for colour in (one, other)]
    return float(np.linalg.norm(seen[0] - seen[1]))


def test_lab_is_that_of_the_reference() -> None:
    assert lab(linear("ff0000")) == pytest.approx([53.24, 80.09, 67.20], abs=0.05)  # sRGB red under D65
    assert lab(linear("ffffff")) == pytest.approx([100, 0, 0], abs=0.05)


def test_grey_stays_grey_and_red_and_green_come_closer() -> None:
    for matrix in VISION.values():
        assert np.asarray(matrix).sum(axis=1) == pytest.approx([1, 1, 1], abs=1e-5)
    assert distance("d62728", "8c8c00", "no middle cones") < distance("d62728", "8c8c00", "all cones") / 3


@pytest.mark.parametrize("vision", VISION)
@pytest.mark.parametrize("colours", schemes(), ids=["light", "dark"])
def test_marks_that_stand_beside_each_other_can_be_told_apart(colours: dict[str, str], vision: str) -> None:
    """Four curves, the parts of a request, and the bars of graphs; verdicts are told in words as well."""
    groups = [("s0", "s1", "s2", "s3"), ("waiting", "prefill", "decode", "bad")]
    close = {
        (one, other): round(apart, 1)
        for group in groups
        for one, other in itertools.combinations(group, 2)
        if (apart := distance(colours[one], colours[other], vision)) < APART
    }
    assert close == {}


def test_every_curve_has_a_dash_of_its_own() -> None:
    dashes = {number: re.findall(rf"\.s{number} {{ stroke-dasharray: ([\d. ]+)", STYLE) for number in range(8)}
    assert dashes[0] == []  # the first is drawn through
    assert len({dash for (dash,) in list(dashes.values())[1:]}) == 7
