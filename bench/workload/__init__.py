"""What callers say: agents, prefixes, turns, seeds. Pure."""

from typing import Final

VERSION: Final = "2"
"""Of the texts. It is part of the fingerprint; whoever changes a single word of them gives it a new value.

2: every shared prefix is primed twice.
"""
