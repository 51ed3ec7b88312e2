"""What a model says of a text: the log-probability of each of its tokens, and its own most likely ones there.

The first token of a text has no probability: nothing stands before it. Row i is about token i + 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from bench.errors import StreamproofError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

_ARRAYS: Final = ("tokens", "logprob", "top_ids", "top_logprob")


@dataclass(frozen=True, slots=True, eq=False)
class Scores:
    """One text's.

    Attributes:
        tokens: the token ids that were scored, int32 (n,): the text without its first.
        logprob: their log-probabilities, natural, float32 (n,).
        top_ids: the k most likely tokens, most likely first, int32 (n, k).
        top_logprob: theirs, float32 (n, k).
    """

    tokens: NDArray[np.int32]
    logprob: NDArray[np.float32]
    top_ids: NDArray[np.int32]
    top_logprob: NDArray[np.float32]


def save_scores(path: Path, scores: Sequence[Scores]) -> None:
    """Writes the scores of several texts, one file (NumPy's npz)."""
    arrays = {name: np.concatenate([getattr(text, name) for text in scores]) for name in _ARRAYS}
    lengths = np.array([len(text.tokens) for text in scores], dtype=np.int64)
    with path.open("wb") as file:
        np.savez(file, lengths=lengths, **arrays)


def load_scores(path: Path) -> list[Scores]:
    """What `save_scores` wrote.

    Raises:
        StreamproofError: the file is missing or is none of these.
    """
    try:
        with np.load(path, allow_pickle=False) as file:
            borders = np.cumsum(file["lengths"])[:-1]
            columns = [np.split(file[name], borders) for name in _ARRAYS]
    except (OSError, ValueError, KeyError) as error:
        raise StreamproofError(
            f"{path} holds no scores: {error}", remedy="It is written by `just quantize quality`; make it again."
        ) from error
    return [Scores(*parts) for parts in zip(*columns, strict=True)]
