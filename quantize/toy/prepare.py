"""Makes what training reads: `python -m quantize.toy.prepare --out DIR`.

Runs in the client's environment, because the text comes from `bench.workload`; training runs where torch is and needs
only the folder. Seeds are the corpus's own, and no benchmark text comes from them (see `bench.workload.corpus`).
"""

from __future__ import annotations

import argparse
import json
import lzma
import subprocess
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bench.errors import StreamproofError
from bench.workload.corpus import training_text
from quantize.toy.documents import read_documents, write_documents
from quantize.toy.layout import CORPUS, MANIFEST, TOKENIZER, TOKENIZER_TEXT
from quantize.toy.provenance import file_digest
from quantize.toy.shape import TOY
from quantize.toy.tokenizer import train

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

SEED: Final = 1
"""Of the committed checkpoint's corpus."""

REPOSITORY: Final = Path(__file__).resolve().parents[2]
"""Where the workload's text is under version control."""

_TEXT_FOLDER: Final = "bench/workload"
_LIMIT_BYTES: Final = 20_000_000
_LONGEST: Final = 9_000
"""Characters of a document. Longer ones would not fit into the longest window, and their replies would be cut off."""
_TOKENIZER_STRIDE: Final = 24
"""Every so many documents one also trains the tokenizer: one call of each invented company."""


def prepare(out: Path, *, seed: int = SEED, limit_bytes: int = _LIMIT_BYTES) -> dict[str, object]:
    """Writes the documents, the tokenizer's share of them, the tokenizer, and what they are.

    Args:
        out: the folder; created, files of the same names are replaced.
        seed: of the text.
        limit_bytes: the documents' file never grows beyond this.

    Returns:
        The manifest that was written beside the documents.

    Raises:
        StreamproofError: the workload's text is not committed.
    """
    commit = text_commit(REPOSITORY)
    count = write_documents(out / CORPUS, _short(training_text(seed)), limit_bytes=limit_bytes)
    sample = list(islice(read_documents(out / CORPUS), 0, None, _TOKENIZER_STRIDE))
    write_tokenizer_text(out / TOKENIZER_TEXT, sample)
    train(sample, vocab=TOY.vocab).save(str(out / TOKENIZER))
    manifest: dict[str, object] = {
        "source": f"bench.workload.corpus.training_text({seed}), documents of at most {_LONGEST} characters",
        "command": f"python -m quantize.toy.prepare --seed {seed} --limit-bytes {limit_bytes}",
        "workload_commit": commit,
        "seed": seed,
        "documents": count,
        "bytes": (out / CORPUS).stat().st_size,
        "sha256": file_digest(out / CORPUS),
        "tokenizer_documents": len(sample),
    }
    (out / MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")
    return manifest


def text_commit(repository: Path) -> str:
    """The last commit that changed the workload's text: without it, the corpus cannot be made again.

    Args:
        repository: a git checkout.

    Returns:
        40 hexadecimal digits.

    Raises:
        StreamproofError: the text was changed since, or this is no git checkout.
    """
    if _git(repository, "status", "--porcelain", "--", _TEXT_FOLDER):
        raise StreamproofError(
            f"{repository / _TEXT_FOLDER} has changes that are not committed: nobody could make this corpus again",
            remedy="Commit them first.",
        )
    return _git(repository, "log", "-1", "--format=%H", "--", _TEXT_FOLDER)


def _git(repository: Path, *arguments: str) -> str:
    command = ["git", "-C", str(repository), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603  fixed words and a path
    except (OSError, subprocess.CalledProcessError) as error:
        raise StreamproofError(
            f"{' '.join(command)} failed, so the version of the workload's text is unknown: {error}",
            remedy="Run this in a git checkout, with git installed.",
        ) from error
    return done.stdout.strip()


def write_tokenizer_text(path: Path, texts: Iterable[str]) -> None:
    """Keeps the tokenizer's text beside the checkpoint, so that it can be trained again when the workload has changed.

    Args:
        path: a JSON array of strings, compressed with xz.
        texts: what the tokenizer was trained on, in order.
    """
    path.write_bytes(lzma.compress(json.dumps(list(texts), ensure_ascii=False).encode(), preset=9))


def read_tokenizer_text(path: Path) -> list[str]:
    """What `write_tokenizer_text` wrote."""
    return [str(text) for text in json.loads(lzma.decompress(path.read_bytes()))]


def _short(texts: Iterable[str]) -> Iterator[str]:
    return (text for text in texts if len(text) <= _LONGEST)


def main(arguments: list[str] | None = None) -> None:
    """Command line; see the module's docstring."""
    parser = argparse.ArgumentParser(prog="python -m quantize.toy.prepare", description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="folder to write to")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--limit-bytes", type=int, default=_LIMIT_BYTES)
    given = parser.parse_args(arguments)
    print(prepare(given.out, seed=given.seed, limit_bytes=given.limit_bytes))  # noqa: T201  a command's result


if __name__ == "__main__":
    main()
