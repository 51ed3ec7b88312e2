"""How numbers, times and registrations sound: a voice agent's text carries no digits."""

from __future__ import annotations

from typing import Final

_SMALL: Final = (
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"),
    *("ten", "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"),
)
_TENS: Final = ("", "", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")


def number(value: int) -> str:
    """A whole number below one million in British English words, e.g. 149 -> "one hundred and forty-nine".

    Raises:
        ValueError: `value` is negative or a million and more.
    """
    if not 0 <= value < 1_000_000:
        raise ValueError(f"no words for {value}: only 0 to 999999")
    if value < 20:
        return _SMALL[value]
    if value < 100:
        tens, ones = divmod(value, 10)
        return _TENS[tens] + (f"-{_SMALL[ones]}" if ones else "")
    if value < 1000:
        hundreds, rest = divmod(value, 100)
        return f"{_SMALL[hundreds]} hundred" + (f" and {number(rest)}" if rest else "")
    thousands, rest = divmod(value, 1000)
    joint = " and " if 0 < rest < 100 else " "
    return f"{number(thousands)} thousand" + (f"{joint}{number(rest)}" if rest else "")


def clock(hour: int, minute: int) -> str:
    """A time of day as people say it; `minute` is 0, 15, 30 or 45."""
    on_dial = _SMALL[(hour - 1) % 12 + 1]
    after = _SMALL[hour % 12 + 1]
    return {
        0: f"{on_dial} o'clock",
        15: f"a quarter past {on_dial}",
        30: f"half past {on_dial}",
        45: f"a quarter to {after}",
    }[minute]


def spelled(text: str) -> str:
    """Letter by letter, digits as words: "AB12 CDE" -> "A B one two C D E"."""
    return " ".join(_SMALL[int(char)] if char.isdigit() else char for char in text if char != " ")
