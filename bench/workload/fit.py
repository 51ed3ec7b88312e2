"""Texts of an exact length.

A text is put together from pieces whose lengths add up: sentences, each with the space before it, or lines, each with
the line break behind it. No tokenizer of the kinds that we know merges across such a border (see
`bench.workload.prompt` and its tests), and whoever needs the exact count checks the whole text at the end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from bench.errors import StreamproofError

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from bench.workload.wording import Sentence

Measure: TypeAlias = "Callable[[str], int]"
"""The length of a piece of text in tokens."""

HEADING: Final = "## "
"""What the first line of a section begins with."""
_MISSES: Final = 6
"""So many lines in a row may be too long for what is left; then it is filled up."""
_RESERVE: Final = 24
"""Tokens kept for the closing sentence of a document."""
_ROOM: Final = 18
"""From so many tokens on, a whole sentence may fit."""
_WORDS: Final = ("Yes", "Okay", "No", "So", "Oh", "I", "a")
"""For texts of a token or two."""


class Fitter:
    """Makes texts of an exact length from sentences and from fillers.

    Args:
        measure: length of a piece.
        fillers: short sentences of several lengths that fit anywhere but in front.
        openers: short sentences that fit in front.
        keeps_last: whether the last sentence stays last in any case. A question always does.
    """

    def __init__(
        self, measure: Measure, fillers: Sequence[str], openers: Sequence[str] = (), *, keeps_last: bool = False
    ) -> None:
        self._measure = measure
        self._openers = tuple((opener, measure(opener)) for opener in openers)
        self._fillers = tuple((filler, measure(f" {filler}")) for filler in fillers)
        self._keeps_last = keeps_last
        self._reachable = [True]

    def text(
        self, sentences: Sequence[Sentence], more: Iterator[Sentence], target: int, rng: random.Random, *, front: bool
    ) -> str:
        """Sentences that are exactly `target` long together.

        The heaviest sentences are chosen first; their order stays.

        Args:
            sentences: what should be said.
            more: what may be said besides; taken only while there is room for it.
            target: the length wanted, at least 1.
            rng: chooses openers and fillers.
            front: whether an opener may come first, which a greeting does not allow.

        Raises:
            StreamproofError: nothing has that length.
        """
        texts = self._heaviest(sentences, target)
        left, misses = target - self._length(texts), 0
        while texts and left >= _ROOM and misses < _MISSES and (sentence := next(more, None)):
            needed = self._measure(f" {sentence.text}")
            if self._completes(left - needed):
                texts.insert(max(1, len(texts) - 1), sentence.text)
                left -= needed
            else:
                misses += 1
        if front and texts:
            texts = self._begun(texts, target, rng)
        return self._filled(texts, target, rng)

    def document(self, lines: Iterable[str], target: int, rng: random.Random) -> str:
        """Lines (each ending in a line break) and a closing sentence that are exactly `target` long together.

        Args:
            lines: as many as fit are taken, in order. A few that are too long are passed over, but not the first of a
                section (which has its heading in it, see `HEADING`).
            target: the length wanted, at least 1.
            rng: chooses the closing sentences.

        Raises:
            StreamproofError: nothing has that length.
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
            if misses == _MISSES or left < 2 * _RESERVE or line.startswith(HEADING):
                break
        return "".join(taken) + self._filled([], left, rng)

    def _heaviest(self, sentences: Sequence[Sentence], target: int) -> list[str]:
        """As many of the sentences as fit, in their order: the heaviest first, of equal ones the longest."""
        chosen: list[int] = []
        for index in sorted(
            range(len(sentences)), key=lambda index: (-sentences[index].weight, -len(sentences[index].text))
        ):
            trial = sorted([*chosen, index])
            if self._completes(target - self._length([sentences[place].text for place in trial])):
                chosen = trial
        return [sentences[index].text for index in chosen]

    def _length(self, texts: Sequence[str]) -> int:
        return sum(self._measure(text if place == 0 else f" {text}") for place, text in enumerate(texts))

    def _completes(self, left: int) -> bool:
        """Whether fillers can be `left` long together."""
        while len(self._reachable) <= left:
            size = len(self._reachable)
            self._reachable.append(any(cost <= size and self._reachable[size - cost] for _, cost in self._fillers))
        return left >= 0 and self._reachable[left]

    def _begun(self, texts: list[str], target: int, rng: random.Random) -> list[str]:
        """The texts with an opener before them, if there is room for one: the one that leaves least."""
        left = target - sum(self._measure(f" {text}") for text in texts)
        fits = [
            (left - cost, opener)
            for opener, cost in self._openers
            if self._completes(left - cost) and _first_word(opener) != _first_word(texts[0])
        ]
        least = min(fits, default=(0, ""))[0]
        opener = rng.choice([opener for rest, opener in fits if rest == least] or [""])
        return [opener, *texts] if opener else texts

    def _filled(self, texts: list[str], target: int, rng: random.Random) -> str:
        """The texts with fillers among them, so that they are `target` long."""
        if not texts:
            texts = [self._first(target, rng)]
        left = target - self._length(texts)
        fillers: list[str] = []
        while left:
            fits = [(text, cost) for text, cost in self._fillers if self._completes(left - cost)]
            unused = [(text, cost) for text, cost in fits if text not in fillers and text not in texts] or fits
            unused.sort(key=lambda filler: -filler[1])
            text, cost = rng.choice([filler for filler in unused if filler[1] == left] or unused[:4])
            fillers.append(text)
            left -= cost
        last_stays = len(texts) > 1 and (self._keeps_last or texts[-1].endswith("?"))
        place = len(texts) - 1 if last_stays else len(texts)
        return " ".join([*texts[:place], *fillers, *texts[place:]])

    def _first(self, target: int, rng: random.Random) -> str:
        """What a text begins with that has room for none of its sentences."""
        for beginnings in ([filler for filler, _ in self._fillers], _WORDS):
            fits = [text for text in beginnings if self._completes(target - self._measure(text))]
            if fits:
                return rng.choice(fits)
        raise StreamproofError(
            f"no text of exactly {target} tokens can be made with this tokenizer",
            remedy="Ask for at least a dozen tokens in workload.caller_tokens and workload.output_tokens.",
        )


def _first_word(text: str) -> str:
    return text.split(maxsplit=1)[0].rstrip(".,").lower()
