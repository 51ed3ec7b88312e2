"""Training documents: rendered conversations in a file, token ids in one array, windows cut from it by seed."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from quantize.toy.tokenizer import END_OF_TEXT, TURN_END, TURN_START, token_id

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from numpy.typing import NDArray
    from tokenizers import Tokenizer

_ENCODE_AT_ONCE: Final = 256
_REPLY_HEADER: Final = f"{TURN_START}assistant\n"


def write_documents(path: Path, texts: Iterable[str], *, limit_bytes: int) -> int:
    """Writes documents as JSON lines until the file would pass its limit.

    Args:
        path: the file; its folder is created.
        texts: rendered conversations.
        limit_bytes: the file never grows beyond this.

    Returns:
        How many were written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    written = size = 0
    with path.open("w", encoding="utf-8") as file:
        for text in texts:
            line = json.dumps({"text": text}, ensure_ascii=False) + "\n"
            size += len(line.encode())
            if size > limit_bytes:
                break
            file.write(line)
            written += 1
    return written


def read_documents(path: Path) -> Iterator[str]:
    """The documents of a file that `write_documents` wrote.

    Raises:
        ValueError: a line is not such a document; the message says which.
    """
    with path.open(encoding="utf-8") as file:
        for number, line in enumerate(file, start=1):
            try:
                text = json.loads(line)["text"]
            except (ValueError, TypeError, KeyError) as error:
                raise ValueError(f'{path}:{number}: not a JSON object with a "text"') from error
            yield str(text)


@dataclass(frozen=True, slots=True)
class Windows:
    """Rows of training tokens.

    Attributes:
        ids: token ids, [rows, length].
        spoken: True for the tokens of a reply, its end included, [rows, length].
    """

    ids: NDArray[np.int64]
    spoken: NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Tokens:
    """Documents one after the other, each closed by the end-of-text token.

    Attributes:
        ids: token ids, [tokens].
        spoken: True for the tokens of a reply, its end included, [tokens].
        starts: where each document begins in `ids`, [documents].
    """

    ids: NDArray[np.int32]
    spoken: NDArray[np.bool_]
    starts: NDArray[np.int64]

    def split(self, held_out: int) -> tuple[Tokens, Tokens]:
        """The last `held_out` documents apart from the others.

        Args:
            held_out: documents for the second part, at least 1 and fewer than there are.

        Returns:
            (the others, the last ones).

        Raises:
            ValueError: there are not more than `held_out` documents.
        """
        if not 0 < held_out < len(self.starts):
            raise ValueError(f"cannot hold out {held_out} of {len(self.starts)} documents")
        cut = int(self.starts[-held_out])
        return (
            Tokens(self.ids[:cut], self.spoken[:cut], self.starts[:-held_out]),
            Tokens(self.ids[cut:], self.spoken[cut:], self.starts[-held_out:] - cut),
        )

    def windows(self, rows: int, length: int, random: np.random.Generator) -> Windows:
        """Rows that begin with a document, as every prompt does, and run on into the next ones.

        Args:
            rows: how many.
            length: tokens a row.
            random: decides which documents.

        Returns:
            The rows.

        Raises:
            ValueError: there are fewer than `length` tokens.
        """
        fitting = int(np.searchsorted(self.starts, len(self.ids) - length, side="right"))
        if not fitting:
            raise ValueError(f"{len(self.ids)} tokens cannot fill a window of {length}")
        first = self.starts[random.integers(fitting, size=rows)]
        at = first[:, None] + np.arange(length)
        return Windows(self.ids[at].astype(np.int64), self.spoken[at])


def encode(tokenizer: Tokenizer, texts: Iterable[str]) -> Tokens:
    """Encodes documents in their order.

    Args:
        tokenizer: the checkpoint's.
        texts: rendered conversations.

    Returns:
        Their tokens.
    """
    end = token_id(tokenizer, END_OF_TEXT)
    documents = list(texts)
    pieces: list[NDArray[np.int32]] = []
    for at in range(0, len(documents), _ENCODE_AT_ONCE):
        batch = tokenizer.encode_batch_fast(documents[at : at + _ENCODE_AT_ONCE])
        pieces += [np.asarray([*encoding.ids, end], dtype=np.int32) for encoding in batch]
    lengths = np.asarray([len(piece) for piece in pieces], dtype=np.int64)
    ids = np.concatenate(pieces)
    return Tokens(ids, _spoken(tokenizer, ids), np.cumsum(lengths) - lengths)


def _spoken(tokenizer: Tokenizer, ids: NDArray[np.int32]) -> NDArray[np.bool_]:
    header = tokenizer.encode(_REPLY_HEADER).ids
    places = np.arange(len(ids) - len(header) + 1)
    matches = np.logical_and.reduce([ids[places + offset] == token for offset, token in enumerate(header)])
    begins = places[matches] + len(header)
    turn_ends = np.flatnonzero(ids == token_id(tokenizer, TURN_END))
    # A header is followed by the end of its turn: documents are whole.
    ends = turn_ends[np.searchsorted(turn_ends, begins)] + 1
    change = np.zeros(len(ids) + 1, dtype=np.int8)
    change[begins] += 1
    change[ends] -= 1
    return change[:-1].cumsum().astype(np.bool_)
