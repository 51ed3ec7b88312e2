"""Texts of an exact length.

A text is put together from pieces whose lengths add up: sentences, each with the space before it, or lines, each with
the line break behind it. No tokenizer of the kinds that we know merges across such a border (see
`bench.workload.tokens` and its tests), and whoever needs the exact count checks the whole text at the end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from bench.errors import StreamproofError

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterable, Sequence

    from bench.workload.wording import Sentence

Measure: TypeAlias = "Callable[[str], int]"
"""The length of a piece of text in tokens."""

_MISSES: Final = 6
"""So many lines in a row may be too long for what is left before the text is closed."""
_RESERVE: Final = 24
"""Tokens kept for the closing sentence of a document."""
_WORDS: Final = ("Yes", "Okay", "No", "So", "Oh", "I", "a")
"""For texts of one token."""


class Fitter:
    """Makes texts of an exact length from sentences and from fillers.

    Args:
        measure: length of a piece.
        fillers: short sentences of several lengths that fit anywhere.
    """

    def __init__(self, measure: Measure, fillers: Sequence[str]) -> None:
        self._measure = measure
        self._fillers = tuple((filler, measure(f" {filler}")) for filler in fillers)
        self._reachable = [True]

    def text(self, sentences: Sequence[Sentence], more: Iterable[Sentence], target: int, rng: random.Random) -> str:
        """Sentences that are exactly `target` long together.

        What carries facts is chosen first; the order stays. Then follows what `more` gives, then fillers, which are
        put before the last sentence, so that a question stays at the end.

        Args:
            sentences: what should be said.
            more: what may be said besides; taken only while there is room for it.
            target: the length wanted, at least 1.
            rng: chooses fillers.

        Raises:
            StreamproofError: no combination of fillers has that length.
        """
        chosen: list[int] = []
        for index in sorted(range(len(sentences)), key=lambda index: -sentences[index].facts):
            trial = sorted([*chosen, index])
            if self._completes(target - self._length([sentences[place].text for place in trial])):
                chosen = trial
        texts = [sentences[index].text for index in chosen]
        left = target - self._length(texts)
        for sentence in more:
            if left < _RESERVE:
                break
            needed = self._length([*texts, sentence.text]) - self._length(texts)
            if sentence.text not in texts and self._completes(left - needed):
                texts.append(sentence.text)
                left -= needed
        return self._filled(texts, target, rng)

    def document(self, lines: Iterable[str], target: int, rng: random.Random) -> str:
        """Lines (each ending in a line break) and a closing sentence that are exactly `target` long together.

        Raises:
            StreamproofError: no combination of fillers has that length.
        """
        taken: list[str] = []
        left, misses = target, 0
        for line in lines:
            needed = self._measure(line)
            if left - needed >= _RESERVE:
                taken.append(line)
                left -= needed
                misses = 0
                continue
            misses += 1
            if misses == _MISSES or left < 2 * _RESERVE:
                break
        return "".join(taken) + self._filled([], left, rng)

    def _length(self, texts: Sequence[str]) -> int:
        return sum(self._measure(text if place == 0 else f" {text}") for place, text in enumerate(texts))

    def _completes(self, left: int) -> bool:
        """Whether fillers can be `left` long together."""
        while len(self._reachable) <= left:
            size = len(self._reachable)
            self._reachable.append(any(cost <= size and self._reachable[size - cost] for _, cost in self._fillers))
        return left >= 0 and self._reachable[left]

    def _filled(self, texts: list[str], target: int, rng: random.Random) -> str:
        if not texts:
            texts = [self._first(target, rng)]
        left = target - self._length(texts)
        fillers: list[str] = []
        while left:
            fits = [(text, cost) for text, cost in self._fillers if self._completes(left - cost)]
            unused = [(text, cost) for text, cost in fits if text not in fillers and text not in texts] or fits
            unused.sort(key=lambda filler: -filler[1])
            text, cost = rng.choice(unused[:4])
            fillers.append(text)
            left -= cost
        place = max(1, len(texts) - 1)
        return " ".join([*texts[:place], *fillers, *texts[place:]])

    def _first(self, target: int, rng: random.Random) -> str:
        fillers = [filler for filler, _ in self._fillers if self._completes(target - self._measure(filler))]
        if fillers:
            return rng.choice(fillers)
        for word in _WORDS:
            if self._measure(word) == target:
                return word
        raise StreamproofError(
            f"no text of exactly {target} tokens can be made with this tokenizer",
            remedy="Ask for at least a dozen tokens in workload.caller_tokens and workload.output_tokens.",
        )
